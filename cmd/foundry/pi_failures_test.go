package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"foundry/exec/record"
	"foundry/harness/contract"
)

// piFailure is what one thing that goes wrong with Pi comes to in the record.
type piFailure struct {
	replies  string // of the provider
	before   string // lines of the program in Pi's place, before it starts Pi
	start    string // how it starts Pi; "" is as the plan says
	strike   func(p *pilot, controller, agent int)
	class    string // "" is success
	reason   string
	says     string // in the failure's detail
	worker   string // what the agent's stream said of its end
	requests int64
	exit     int  // of apply
	required bool // the plan requires a proof of the activation
	unproven bool // nothing proves it
	tight    bool // the budget is that of the example: one answer, as long as the model's may be
}

// inRequest waits, in the program in Pi's place, until a request is under way.
const inRequest = `while ! [ -s "$RUN/nodes/list-decisions/1-1/broker/0001.answer.txt" ]; do sleep 0.05; done`

// fed starts Pi with a standard input that a part of the program writes: the
// first lines of the controller's, and then what is given.
func fed(then string) string {
	return `{ n=0; while [ $n -lt 4 ] && IFS= read -r l; do printf '%s\n' "$l"; n=$((n+1)); done; ` + inRequest + `; ` + then + `; } | "$PI" "$@"`
}

// without takes a text out of what Pi is told.
func without(text string) string {
	return `while IFS= read -r l; do printf '%s\n' "$l" | sed 's|` + text + `||'; done | "$PI" "$@"`
}

func signals(s syscall.Signal) func(*pilot, int, int) {
	return func(p *pilot, _, agent int) {
		if err := syscall.Kill(agent, s); err != nil {
			p.t.Error(err)
		}
	}
}

// piFailures is every way in which Pi is known to fail, and what the record
// says of it.
func piFailures() map[string]piFailure {
	const hangs = `[{"text":"wait","hang":true}]`
	written := `{"tools":[{"name":"write","input":{"path":"{out}/decisions.json","content":"{\"decisions\":[]}"}}]}`
	refused := func(status int) piFailure {
		return piFailure{replies: fmt.Sprintf(`[{"status":%d,"body":"no"}]`, status), class: record.ClassInfrastructure, reason: record.ReasonProviderRefused,
			says: fmt.Sprintf("status %d", status), worker: contract.Errored, requests: 1, exit: exitInfrastructure}
	}
	unreachable := func(reply, says string, requests int64) piFailure {
		return piFailure{replies: `[` + strings.TrimSuffix(reply, "}") + `,"repeat":4}]`, class: record.ClassInfrastructure, reason: record.ReasonProviderUnreachable,
			says: says, worker: contract.Errored, requests: requests, exit: exitInfrastructure}
	}
	differs := func(says, before, start string) piFailure {
		return piFailure{replies: `[]`, before: before, start: start, class: record.ClassInfrastructure, reason: "harness_mismatch", says: says,
			worker: contract.NoStatus, exit: exitInfrastructure}
	}
	silent := func(says string) piFailure {
		return piFailure{replies: hangs, class: record.ClassSkill, reason: record.ReasonNoFinalEvent, says: says, worker: contract.NoStatus, requests: 1, exit: exitNo}
	}
	with := func(f piFailure, change func(*piFailure)) piFailure {
		change(&f)
		return f
	}
	// Root reads and writes everything: the kernel is told not to let it.
	withoutOverride := ""
	if os.Getuid() == 0 {
		withoutOverride = "/usr/bin/setpriv --bounding-set -dac_override,-dac_read_search --inh-caps -dac_override,-dac_read_search -- "
	}
	return map[string]piFailure{
		"400": refused(400), "401": refused(401), "402": refused(402), "403": refused(403), "404": refused(404),
		"429 thrice": unreachable(`{"status":429,"body":"slow down"}`, "status 429", 4),
		"529 thrice": unreachable(`{"status":529,"body":"overloaded"}`, "status 529", 4),
		"no answer":  unreachable(`{"drop":"before"}`, "drops the connection", 4),
		"cut answer": unreachable(`{"text":"half","drop":"middle"}`, "broke off", 4),
		"malformed":  unreachable(`{"text":"half","malformed":true}`, "no JSON", 1),
		"length": {replies: `[{"text":"half","stop_reason":"max_tokens"}]`, class: record.ClassSkill, reason: record.ReasonMissingArtifact,
			says: "decisions", worker: contract.StoppedLength, requests: 1, exit: exitNo},
		// What is there and valid is there: the agent's word does not decide.
		"length, written": {replies: `[` + written + `,{"text":"half","stop_reason":"max_tokens"}]`, worker: contract.StoppedLength, requests: 2},
		"no artifact": {replies: `[{"text":"All is done."}]`, class: record.ClassSkill, reason: record.ReasonMissingArtifact,
			says: "decisions", worker: contract.Settled, requests: 1, exit: exitNo},
		"aborted": {replies: hangs, start: fed(`printf '{"type":"abort"}\n'; sleep 1`), class: record.ClassSkill, reason: record.ReasonWorkerError,
			says: "says aborted", worker: contract.Aborted, requests: 1, exit: exitNo},
		"end of input": with(silent("exit code 0"), func(f *piFailure) { f.start = fed(":") }),
		"SIGTERM":      with(silent("exit code 143"), func(f *piFailure) { f.strike = signals(syscall.SIGTERM) }),
		"SIGKILL":      with(silent("SIGKILL"), func(f *piFailure) { f.strike = signals(syscall.SIGKILL) }),
		"cancelled": {replies: hangs, class: record.ClassCancelled, reason: record.ReasonCancelled, worker: contract.NoStatus, requests: 1, exit: exitInterrupted,
			strike: func(p *pilot, controller, _ int) {
				if err := syscall.Kill(controller, syscall.SIGINT); err != nil {
					p.t.Error(err)
				}
			}},
		// The first answer that breaks off takes what its budget holds.
		"cut answer, no room": with(unreachable(`{"text":"half","drop":"middle"}`, "held for answers whose usage never came", 2), func(f *piFailure) { f.tight = true }),
		"another model":       differs("the plan has", "", `exec "$PI" $(for a in "$@"; do case $a in claude-sonnet-5) echo nope;; *) echo "$a";; esac; done)`),
		"unknown model":       differs("is not available", `sed -i 's/"claude-sonnet-5"/"nope"/; s/"anthropic"/"other"/' "$PI_CODING_AGENT_DIR/models.json"`, ""),
		"missing skill":       differs("the skill list-decisions is not there", "", `exec "$PI" $(for a in "$@"; do case $a in */list-decisions) echo /missing;; *) echo "$a";; esac; done)`),
		"read-only config": differs(`the model "claude-sonnet-5" is not available`, `chmod 555 "$PI_CODING_AGENT_DIR"`,
			`exec `+withoutOverride+`"$PI" "$@"`),
		// F13: the artifact is valid, and the skill was never looked at.
		"not activated": {replies: `[` + written + `,{"text":"done"}]`, start: without("/skill:list-decisions"), worker: contract.Settled, requests: 2, unproven: true},
		"not activated, required": {replies: `[` + written + `,{"text":"done"}]`, start: without("/skill:list-decisions"), class: record.ClassSkill,
			reason: record.ReasonActivationUnproven, says: "nothing proves", worker: contract.Settled, requests: 2, exit: exitNo, required: true, unproven: true},
		"another version": {replies: `[]`, before: `case "$1" in --version) echo 9.9.9; exit 0;; esac`, class: record.ClassInfrastructure, reason: "harness_mismatch",
			says: "9.9.9", worker: contract.NoStatus, exit: exitInfrastructure},
	}
}

// TestPiFailures holds each failure of the real agent against its one class and
// reason in the record of a run.
func TestPiFailures(t *testing.T) {
	for _, version := range pilotVersions {
		for name, f := range piFailures() {
			t.Run(version+"/"+name, func(t *testing.T) {
				p := newPilot(t, version, false)
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "run")
				code, said := f.run(p, dir)
				r, err := record.ReadRun(dir)
				if err != nil {
					t.Fatalf("%v\n%s", err, said)
				}
				if code != f.exit {
					t.Errorf("exit code %d, want %d", code, f.exit)
				}
				a := readAttempt(t, dir, "list-decisions", 1, 1)
				f.check(t, a)
				if f.class != "" && (r.Failure == nil || r.Failure.Class != f.class || r.Failure.Reason != f.reason) {
					t.Errorf("the run failed by %+v", r.Failure)
				}
				if a.Exit != nil && !a.Dead || processesWith(t, dir) > 0 {
					t.Error("something of it is alive")
				}
				if t.Failed() {
					t.Logf("apply said:\n%s", said)
				}
			})
		}
	}
}

func (f piFailure) check(t *testing.T, a *record.Attempt) {
	t.Helper()
	requests := int64(0)
	if a.Broker != nil {
		requests = a.Broker.Requests
	}
	if a.Worker.Status != f.worker || requests != f.requests || a.Worker.Violation != "" {
		t.Errorf("worker %+v, want %s; %d requests, want %d", a.Worker, f.worker, requests, f.requests)
	}
	if f.unproven && (a.Activation.State != record.ActivationUnproven || a.Activation.Stream || a.Activation.Request != nil) {
		t.Errorf("activation %+v", a.Activation)
	}
	switch {
	case f.class == "":
		if a.Status != record.StatusSucceeded || a.Failure != nil {
			t.Errorf("%s: %+v", a.Status, a.Failure)
		}
	case a.Failure == nil || a.Failure.Class != f.class || a.Failure.Reason != f.reason || !strings.Contains(a.Failure.Detail, f.says):
		t.Errorf("failure %+v, want %s (%s), saying %q", a.Failure, f.reason, f.class, f.says)
	}
}

// run applies the first phase of the example with a program in Pi's place that
// starts Pi. It makes Pi wait less between what it tries again.
func (f piFailure) run(p *pilot, dir string) (code int, said string) {
	t := p.t
	tmp := t.TempDir()
	program, pid := filepath.Join(tmp, "pi"), filepath.Join(tmp, "pid")
	start := f.start
	if start == "" {
		start = `exec "$PI" "$@"`
	}
	write(t, program, []byte(strings.Join([]string{
		"#!/bin/sh", "RUN='" + dir + "'", "PI='" + filepath.Join(repository(t), ".cache", "pi", p.version, "bin", "pi") + "'", f.before,
		`case "$1" in --version) exec "$PI" "$@";; esac`,
		`sed -i 's/"baseDelayMs": 2000/"baseDelayMs": 20/' "$PI_CODING_AGENT_DIR/settings.json"`,
		"echo $$ > '" + pid + "'", start, "",
	}, "\n")))
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	var changes []string
	if !f.tight {
		changes = []string{`"1.00"`, `"9.00"`, `"2.00"`, `"20.00"`, "400000", "4000000", "100000", "900000"}
	}
	if f.required {
		changes = append(changes, "phase \"list-decisions\" {\n", "phase \"list-decisions\" {\n  require_activation = true\n")
	}
	policy := piExample(t, changes...)
	cmd := exec.Command(p.exe, "apply", "--yes", "--var", "pi="+p.version, "--program", "pi="+program, "--var", "script="+piScript(t, f.replies),
		"--through", "list-decisions", "--run-dir", dir, policy)
	cmd.Env = p.env
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if f.strike != nil {
		answer := filepath.Join(dir, filepath.FromSlash(record.AttemptFolder("list-decisions", 1, 1)), record.BrokerDir, "0001.answer.txt")
		waitFor(t, "a request under way", func() bool { info, err := os.Stat(answer); return err == nil && info.Size() > 0 })
		data, err := os.ReadFile(pid)
		if err != nil {
			t.Fatal(err)
		}
		agent, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		f.strike(p, cmd.Process.Pid, agent)
	}
	_ = cmd.Wait() // its state says how
	return cmd.ProcessState.ExitCode(), out.String()
}

// waitFor waits for what comes soon.
func waitFor(t testing.TB, what string, there func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !there(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not come", what)
		}
	}
}
