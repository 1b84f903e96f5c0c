package pi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/harness/contract"
)

// trace is what a recorded stream of a real Pi comes to, counted by hand from
// its lines.
type trace struct {
	status        string
	turns, calls  int64
	input, output int64
}

var traces = map[string]trace{
	"0.84.4-blackbox-top-abort": {"errored", 2, 1, 500, 20},
	"0.84.4-blackbox-top-par":   {"settled", 2, 2, 200, 40},
	"0.84.4-blackbox-top":       {"settled", 3, 2, 1800, 45},
	"0.84.4-case-abort-bash":    {"errored", 2, 1, 100, 20},
	"0.84.4-case-abort-hang":    {"aborted", 1, 0, 100, 1},
	"0.84.4-case-auth401":       {"errored", 1, 0, 0, 0},
	"0.84.4-case-badskill":      {"none", 0, 0, 0, 0},
	"0.84.4-case-badtool":       {"settled", 3, 2, 300, 60},
	"0.84.4-case-badtools":      {"settled", 1, 0, 10, 3},
	"0.84.4-case-bash":          {"none", 0, 0, 0, 0},
	"0.84.4-case-budget402":     {"errored", 1, 0, 0, 0},
	"0.84.4-case-budget403":     {"errored", 1, 0, 0, 0},
	"0.84.4-case-drop":          {"errored", 4, 0, 0, 0},
	"0.84.4-case-env":           {"settled", 2, 1, 200, 40},
	"0.84.4-case-eof-bash":      {"none", 1, 1, 100, 20},
	"0.84.4-case-eof-hang":      {"none", 1, 0, 100, 1},
	"0.84.4-case-fakeskill":     {"settled", 1, 0, 10, 3},
	"0.84.4-case-int-bash":      {"none", 1, 1, 100, 20},
	"0.84.4-case-maxtok":        {"stopped_length", 1, 0, 100, 20},
	"0.84.4-case-nokey":         {"none", 0, 0, 0, 0},
	"0.84.4-case-noretry":       {"errored", 1, 0, 0, 0},
	"0.84.4-case-pg":            {"none", 1, 1, 100, 20},
	"0.84.4-case-rl-always":     {"errored", 4, 0, 0, 0},
	"0.84.4-case-rl-long":       {"errored", 2, 0, 0, 0},
	"0.84.4-case-rl-once":       {"settled", 2, 0, 10, 3},
	"0.84.4-case-rs":            {"settled", 2, 2, 200, 40},
	"0.84.4-case-steer":         {"errored", 2, 1, 100, 20},
	"0.84.4-case-streamerr":     {"errored", 4, 0, 400, 4},
	"0.84.4-case-term-bash":     {"none", 1, 1, 100, 20},
	"0.84.4-case-term-hang":     {"none", 1, 0, 100, 1},
	"0.84.4-case-tl":            {"settled", 1, 0, 10, 3},
	"0.84.4-case-toolong":       {"errored", 1, 0, 0, 0},
	"0.84.4-run":                {"settled", 3, 2, 4200, 87},
	"1.6.0-blackbox-top-abort":  {"aborted", 2, 1, 500, 20},
	"1.6.0-blackbox-top-par":    {"settled", 2, 2, 200, 40},
	"1.6.0-blackbox-top":        {"settled", 3, 2, 1800, 45},
	"1.6.0-case-abort-bash":     {"aborted", 2, 1, 100, 20},
	"1.6.0-case-abort-hang":     {"aborted", 1, 0, 100, 1},
	"1.6.0-case-auth401":        {"errored", 1, 0, 0, 0},
	"1.6.0-case-badskill":       {"none", 0, 0, 0, 0},
	"1.6.0-case-badtool":        {"settled", 3, 2, 300, 60},
	"1.6.0-case-badtools":       {"settled", 1, 0, 10, 3},
	"1.6.0-case-bash":           {"none", 0, 0, 0, 0},
	"1.6.0-case-budget402":      {"errored", 1, 0, 0, 0},
	"1.6.0-case-budget403":      {"errored", 1, 0, 0, 0},
	"1.6.0-case-drop":           {"errored", 4, 0, 0, 0},
	"1.6.0-case-env":            {"settled", 2, 1, 200, 40},
	"1.6.0-case-eof-bash":       {"none", 1, 1, 100, 20},
	"1.6.0-case-eof-hang":       {"none", 1, 0, 100, 1},
	"1.6.0-case-fakeskill":      {"settled", 1, 0, 10, 3},
	"1.6.0-case-int-bash":       {"none", 1, 1, 100, 20},
	"1.6.0-case-maxtok":         {"stopped_length", 1, 0, 100, 20},
	"1.6.0-case-nokey":          {"none", 0, 0, 0, 0},
	"1.6.0-case-noretry":        {"errored", 1, 0, 0, 0},
	"1.6.0-case-pg":             {"none", 1, 1, 100, 20},
	"1.6.0-case-rl-always":      {"errored", 4, 0, 0, 0},
	"1.6.0-case-rl-long":        {"errored", 2, 0, 0, 0},
	"1.6.0-case-rl-once":        {"settled", 1, 0, 10, 3},
	"1.6.0-case-rs":             {"settled", 2, 2, 200, 40},
	"1.6.0-case-steer":          {"aborted", 2, 1, 100, 20},
	"1.6.0-case-streamerr":      {"errored", 4, 0, 400, 4},
	"1.6.0-case-term-bash":      {"none", 1, 1, 100, 20},
	"1.6.0-case-term-hang":      {"none", 1, 0, 100, 1},
	"1.6.0-case-tl":             {"settled", 1, 0, 10, 3},
	"1.6.0-case-toolong":        {"errored", 1, 0, 0, 0},
	"1.6.0-run":                 {"settled", 3, 2, 4200, 87},
}

// The recorded streams lie outside of the repository.
func TestTraces(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "agents", "traces")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the recorded streams are not beside the repository: " + err.Error())
	}
	files, err := filepath.Glob(filepath.Join(dir, "pi-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(traces) {
		t.Errorf("%d streams, %d in the table", len(files), len(traces))
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "pi-"), ".jsonl")
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s := Adapter{}.Session(config())
			var got trace
			var checker contract.Checker
			take := func(events []contract.Event) {
				for _, ev := range events {
					if err := checker.Add(ev); err != nil {
						t.Error(err)
					}
					if _, err := contract.DecodeEvent(contract.Encode(ev)); err != nil {
						t.Error(err)
					}
					switch ev.Type {
					case contract.Turn:
						got.turns++
					case contract.Tool:
						got.calls++
					}
				}
			}
			s.Begin()
			for _, l := range []string{state, commands, models} {
				events, _ := s.Line([]byte(l))
				take(events)
			}
			lines := contract.NewLineReader(f, 0)
			for {
				line, err := lines.Next()
				if err != nil {
					break // the file is read to its end, or the table will tell
				}
				events, _ := s.Line(line)
				take(events)
			}
			take(s.End())
			u := checker.Usage()
			got.status, got.input, got.output = checker.Status(), u.Input, u.Output
			if want := traces[name]; got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			// One stream holds a line that Pi could not read.
			if strings.HasSuffix(name, "-run") != (s.Violation() != "") || s.Noise() != 0 {
				t.Errorf("violation %q, noise %d", s.Violation(), s.Noise())
			}
		})
	}
}
