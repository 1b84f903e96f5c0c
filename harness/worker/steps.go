package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"foundry/harness/contract"
)

// runner works off one node's steps.
type runner struct {
	in             contract.Input
	answers        *contract.LineReader // to what was submitted
	out            string               // the output folder
	stdout, stderr io.Writer
	probe          func(contract.Probe) ([]byte, error)
	finished       bool
}

// run writes started, does the steps, and writes finished unless a step did.
// A step that fails ends the work: finished says errored and which step.
func (r *runner) run(steps []contract.Step) int {
	id := r.in.Harness
	if err := r.emit(contract.Event{Type: contract.Started, Harness: &id}); err != nil {
		return r.broken(err)
	}
	for i, step := range steps {
		if step.Exit != nil {
			return int(step.Exit.Code)
		}
		done, err := r.step(step)
		if done {
			break
		}
		if err != nil {
			text := fmt.Sprintf("step %d failed: %v", i, err)
			fmt.Fprintf(r.stderr, "worker: %s\n", text)
			if !r.finished {
				if err := r.finish(contract.Errored, text); err != nil {
					return r.broken(err)
				}
			}
			return ExitFailed
		}
	}
	if !r.finished {
		if err := r.finish(contract.Settled, ""); err != nil {
			return r.broken(err)
		}
	}
	return ExitOK
}

// broken is for a standard output that takes no more.
func (r *runner) broken(err error) int {
	fmt.Fprintf(r.stderr, "worker: %v\n", err)
	return ExitFailed
}

// step carries out one step; true leaves out those after it.
func (r *runner) step(step contract.Step) (bool, error) {
	if step.Submit != nil {
		return r.submit(*step.Submit)
	}
	return false, r.do(step)
}

// submit reports whether what was submitted stands: it is accepted, or nobody
// answers.
func (r *runner) submit(s contract.Submit) (bool, error) {
	if err := r.emit(s.Event()); err != nil {
		return false, err
	}
	line, err := r.answers.Next()
	if errors.Is(err, io.EOF) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	a, err := contract.DecodeAnswer(line)
	if err != nil {
		return false, err
	}
	for _, p := range a.Problems {
		fmt.Fprintf(r.stderr, "worker: not accepted: %s\n", p)
	}
	return len(a.Problems) == 0, nil
}

func (r *runner) emit(ev contract.Event) error {
	ev.ProtocolVersion = contract.ProtocolVersion
	_, err := r.stdout.Write(contract.Encode(ev))
	return err
}

func (r *runner) finish(status, message string) error {
	r.finished = true
	id := r.in.Harness
	return r.emit(contract.Event{Type: contract.Finished, Harness: &id, Status: status, Message: message})
}

// do carries out one step; exit and submit are run's own.
func (r *runner) do(step contract.Step) error {
	switch {
	case step.Write != nil:
		return writeFile(r.path(step.Write.Path), string(step.Write.Content), step.Write.Times)
	case step.Copy != nil:
		return copyTree(step.Copy.From, r.path(step.Copy.To))
	case step.Mkdir != nil:
		return os.MkdirAll(r.path(step.Mkdir.Path), 0o755)
	case step.Symlink != nil:
		p := r.path(step.Symlink.Path)
		if err := os.MkdirAll(path.Dir(p), 0o755); err != nil {
			return err
		}
		return os.Symlink(step.Symlink.Target, p)
	case step.SleepMS != nil:
		time.Sleep(time.Duration(*step.SleepMS) * time.Millisecond)
		return nil
	case step.Emit != nil:
		return r.emit(step.Emit.Event())
	case step.Stdout != nil:
		return repeat(r.stdout, step.Stdout.Text, step.Stdout.Times)
	case step.Stderr != nil:
		return repeat(r.stderr, step.Stderr.Text, step.Stderr.Times)
	case step.Finish != nil:
		return r.finish(step.Finish.Status, step.Finish.Message)
	case step.Probe != nil:
		data, err := r.probe(*step.Probe)
		if err != nil {
			return err
		}
		return writeFile(r.path(step.Probe.To), string(data), 1)
	}
	return errors.New("a step without an action")
}

// path takes a relative path as one below the output folder.
func (r *runner) path(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(r.out, p)
}

func writeFile(file, text string, times int64) error {
	if err := os.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(repeat(f, text, times), f.Close())
}

// repeat writes text times times (once for 0), in pieces of about a megabyte
// so that a long text needs no memory.
func repeat(w io.Writer, text string, times int64) error {
	const piece = 1 << 20
	times = max(1, times)
	if text == "" {
		return nil
	}
	per := min(times, max(1, int64(piece/len(text))))
	block := strings.Repeat(text, int(per))
	for ; times >= per; times -= per {
		if _, err := io.WriteString(w, block); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, block[:int(times)*len(text)])
	return err
}

// copyTree copies a file, or a folder of files. A link below a folder is
// followed, as a reader of the folder would.
func copyTree(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return copyFile(from, to, info)
	}
	return copyFolder(from, to)
}

func copyFolder(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		source, target := path.Join(from, e.Name()), path.Join(to, e.Name())
		if e.IsDir() {
			if err := copyFolder(source, target); err != nil {
				return err
			}
			continue
		}
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		if err := copyFile(source, target, info); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", from)
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := os.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
