package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"foundry/plan"
)

// Names in a run folder.
const (
	RunFile       = "run.json"
	LockFile      = "lock"
	EventsFile    = "events.jsonl"
	PlanFile      = "plan.json"
	StoreDir      = "store"
	NodesDir      = "nodes"
	ArtifactsDir  = "artifacts"
	WorkDir       = "work"
	AttemptFile   = "attempt.json"
	SpecFile      = "spec.json"
	StdoutFile    = "stdout"
	StderrFile    = "stderr"
	TraceFile     = "trace.jsonl"
	SpendFile     = "spend.jsonl" // the broker's journal
	BrokerDir     = "broker"      // of an attempt: what went to its provider and came back
	RejectedDir   = "rejected"
	PartialDir    = "partial" // what an attempt that did not end was freezing
	maxFolderName = 200       // bytes; file systems allow 255
)

// ErrNotEmpty is the error of Create for a folder that holds something.
var ErrNotEmpty = errors.New("record: the run folder is not empty: a run never writes into another one's folder; name a fresh folder")

// Folder is an open run folder. Its owner is one controller.
type Folder struct {
	Dir    string // absolute
	made   bool   // by Create
	lock   *os.File
	events *os.File
	seq    int64
	torn   int64 // where a torn last line starts, -1 if there is none
}

// Create makes a fresh run folder with mode 0700. One that exists must be an
// empty folder, no link.
func Create(dir string) (*Folder, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("record: the run folder %s is not absolute", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("record: the run folder cannot be made: %w", err)
	}
	err := os.Mkdir(dir, 0o700)
	made := err == nil
	if err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("record: the run folder cannot be made: %w", err)
		}
		if err := takeEmpty(dir); err != nil {
			return nil, err
		}
	}
	// O_EXCL decides between two controllers that were given one empty folder.
	f, err := os.OpenFile(filepath.Join(dir, EventsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, ErrNotEmpty
	}
	if err != nil {
		return nil, fmt.Errorf("record: the journal cannot be made: %w", err)
	}
	lock, err := takeLock(filepath.Join(dir, LockFile))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Folder{Dir: dir, made: made, lock: lock, events: f, torn: -1}, nil
}

// Open takes over the folder of a run that another controller left, and reads
// its journal. It changes nothing but the lock; the first Append cuts off a
// line that the other one was writing when it was killed.
func Open(dir string) (*Folder, []Event, error) {
	if !filepath.IsAbs(dir) {
		return nil, nil, fmt.Errorf("record: the run folder %s is not absolute", dir)
	}
	journal := filepath.Join(dir, EventsFile)
	if info, err := os.Lstat(journal); err != nil || !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("record: %s is no run folder: there is no %s in it", dir, EventsFile)
	}
	lock, err := takeLock(filepath.Join(dir, LockFile))
	if err != nil {
		return nil, nil, err
	}
	events, size, err := readJournal(journal)
	if err != nil {
		return nil, nil, errors.Join(err, dropLock(lock))
	}
	f, err := os.OpenFile(journal, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, errors.Join(err, dropLock(lock))
	}
	out := &Folder{Dir: dir, lock: lock, events: f, seq: int64(len(events)), torn: -1}
	if info, err := f.Stat(); err == nil && info.Size() > size {
		out.torn = size
	}
	return out, events, nil
}

func takeEmpty(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("record: the run folder cannot be read: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("record: the run folder %s is no folder", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("record: the run folder cannot be read: %w", err)
	}
	if len(entries) > 0 {
		return ErrNotEmpty
	}
	return os.Chmod(dir, 0o700)
}

// Close closes the journal and gives the folder up.
func (f *Folder) Close() error { return errors.Join(f.events.Close(), dropLock(f.lock)) }

// Discard closes the folder and removes what a run that never started left in
// it; the folder too, if Create made it.
func (f *Folder) Discard() error {
	err := f.Close()
	for _, name := range []string{EventsFile, PlanFile, LockFile, StoreDir, WorkDir} {
		err = errors.Join(err, os.RemoveAll(f.Path(name)))
	}
	if f.made {
		err = errors.Join(err, os.Remove(f.Dir))
	}
	return err
}

// Path joins names below the run folder.
func (f *Folder) Path(names ...string) string {
	return filepath.Join(append([]string{f.Dir}, names...)...)
}

// Append numbers the event and writes it as one line with one call, so that a
// killed controller leaves whole lines and at most one torn last one.
func (f *Folder) Append(e Event) (Event, error) {
	e.Seq = f.seq + 1
	line, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	if f.torn >= 0 {
		if err := f.events.Truncate(f.torn); err != nil {
			return e, fmt.Errorf("record: the journal's torn line cannot be cut off: %w", err)
		}
		f.torn = -1
	}
	if _, err := f.events.Write(append(line, '\n')); err != nil {
		return e, fmt.Errorf("record: the journal cannot be written: %w", err)
	}
	f.seq = e.Seq
	return e, nil
}

// WriteRun replaces run.json.
func (f *Folder) WriteRun(run *Run) error {
	return writeCanonical(f.Path(RunFile), run)
}

// WriteAttempt writes an attempt's attempt.json into its folder.
func WriteAttempt(dir string, a *Attempt) error {
	return writeCanonical(filepath.Join(dir, AttemptFile), a)
}

func writeCanonical(path string, v any) error {
	data, err := plan.EncodeCanonical(v)
	if err != nil {
		return fmt.Errorf("record: %s: %w", filepath.Base(path), err)
	}
	// Written aside and renamed: a reader, and a killed controller, sees the old
	// file or the new one. There is no fsync (the record outlives a killed
	// process, not a power cut), and the name is fixed, so that nothing piles up.
	tmp := path + ".new"
	err = os.WriteFile(tmp, data, 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("record: %s cannot be written: %w", filepath.Base(path), errors.Join(err, os.Remove(tmp)))
	}
	return nil
}

// ReadRun reads run.json of a run folder.
func ReadRun(dir string) (*Run, error) {
	data, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err != nil {
		return nil, fmt.Errorf("record: no run there: %w", err)
	}
	run := new(Run)
	if err := plan.DecodeCanonical(data, run); err != nil {
		return nil, fmt.Errorf("record: %s: %w", RunFile, err)
	}
	if run.FormatVersion != FormatVersion {
		return nil, fmt.Errorf("record: %s has format_version %d, this program reads %d", RunFile, run.FormatVersion, FormatVersion)
	}
	return run, nil
}

// AttemptFolder is the folder of an attempt, below the run folder, with
// slashes.
func AttemptFolder(node string, iteration, attempt int64) string {
	return NodesDir + "/" + FolderName(node) + "/" + strconv.FormatInt(iteration, 10) + "-" + strconv.FormatInt(attempt, 10)
}

// FolderName turns a node's id into one name that is safe on every file
// system: a-z, 0-9, '-' and inner dots stay; every other byte is '%' and two
// hex digits, capital letters too, because some file systems fold case. Two
// ids never share a name: a long one is cut and ends in its hash.
func FolderName(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' && i > 0 && i < len(id)-1 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	name := b.String()
	if len(name) <= maxFolderName && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	// No short name holds "%%", so that none can be made to look like a cut one.
	return name[:min(len(name), maxFolderName-66)] + "%%" + hex.EncodeToString(sum[:])
}
