package pi

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"foundry/exec/broker"
	"foundry/harness"
	"foundry/harness/contract"
	"foundry/harness/harnesstest"
)

// failure is what one thing that goes wrong comes to, on the real programs.
type failure struct {
	replies  string
	set      func(t *testing.T, l *lab)
	opts     harnesstest.Options
	status   string // of the worker
	says     string // in the final event's message
	mismatch string // in Mismatch: the attempt ends before it spends
	witness  string // of the session: what the provider did
	broker   string // of the broker, whose word counts
	requests int64
	exit     int
	stopped  bool // by the driver, as a mismatch is: no exit code of its own
}

const hang = `[{"text":"wait","hang":true}]`

func failures() map[string]failure {
	refused := func(status string) failure {
		return failure{replies: `[{"status":` + status + `,"body":"no"}]`, status: contract.Errored, says: status + " ",
			witness: harness.ProviderRefused, broker: broker.Refused, requests: 1}
	}
	replaced := func(from, to string) func(*testing.T, *lab) {
		return func(_ *testing.T, l *lab) {
			l.change = func(l *lab) {
				for i, a := range l.argv {
					if a == from || strings.HasSuffix(a, from) && strings.HasPrefix(from, "/") {
						l.argv[i] = to
					}
				}
			}
		}
	}
	signalled := func(s syscall.Signal) func(*testing.T, *lab) {
		return func(_ *testing.T, l *lab) { l.asked = func(int) { l.signal(s) } }
	}
	unreachable := failure{status: contract.Errored, witness: harness.ProviderUnreachable, broker: broker.Unreachable, requests: 4}
	tried := func(reply, says string) failure {
		f := unreachable
		f.replies, f.says = `[`+strings.TrimSuffix(reply, "}")+`,"repeat":4}]`, says
		return f
	}
	differs := func(what string, set func(*testing.T, *lab)) failure {
		return failure{replies: `[]`, status: contract.NoStatus, mismatch: what, set: set, stopped: true}
	}
	return map[string]failure{
		"401":        refused("401"),
		"402":        refused("402"),
		"403":        refused("403"),
		"404":        refused("404"),
		"400":        refused("400"),
		"429 thrice": tried(`{"status":429,"body":"slow down"}`, "429 "),
		"529 thrice": tried(`{"status":529,"body":"overloaded"}`, "529 "),
		"no answer":  tried(`{"drop":"before"}`, ""),
		"cut answer": tried(`{"text":"half","drop":"middle"}`, ""),
		"no event": {replies: `[{"text":"half","malformed":true}]`, status: contract.Errored, says: "Could not parse",
			witness: harness.ProviderUnreachable, broker: broker.Unreachable, requests: 1},
		"length":         {replies: `[{"text":"half","stop_reason":"max_tokens"}]`, status: contract.StoppedLength, requests: 1},
		"aborted answer": {replies: hang, opts: harnesstest.Options{AbortAt: contract.UsageType}, status: contract.Aborted, requests: 1},
		"aborted tool": {replies: list(answer(1, "", shell("sleep 60"))), opts: harnesstest.Options{AbortAt: contract.Tool},
			status: contract.Aborted, requests: 1},
		"end of input": {replies: hang, set: func(_ *testing.T, l *lab) { l.asked = func(int) { l.agent.Stdin.Close() } },
			status: contract.NoStatus, requests: 1},
		"SIGTERM":       {replies: hang, set: signalled(syscall.SIGTERM), status: contract.NoStatus, requests: 1, exit: 143},
		"SIGKILL":       {replies: hang, set: signalled(syscall.SIGKILL), status: contract.NoStatus, requests: 1, exit: -1},
		"unknown model": differs(`the model "nope" of "foundry" is selected`, replaced("m", "nope")),
		"unlisted model": differs(`the model "nope" is not available`, func(t *testing.T, l *lab) {
			replaced("m", "nope")(t, l)
			l.adjust = func(l *lab) { l.cfg.Harness.Model = "nope" }
		}),
		"no skill":        differs("the skill hello is not there", replaced("/skills/hello", "/missing")),
		"no nested skill": differs("the skill other is not there", func(_ *testing.T, l *lab) { l.adjust = func(l *lab) { l.cfg.NestedSkills = []string{"other"} } }),
		"one skill more": differs(`it has the skill "skill:other"`, func(_ *testing.T, l *lab) {
			l.nested = []string{"other"}
			l.adjust = func(l *lab) { l.cfg.NestedSkills = nil }
		}),
		"no description": differs("the skill hello is not there", func(_ *testing.T, l *lab) { l.skill = "---\nname: hello\n---\nBody.\n" }),
		"another text": differs("not the bundle's", func(_ *testing.T, l *lab) {
			l.adjust = func(l *lab) { l.cfg.SkillFile = []byte(strings.Replace(l.skill, "Says", "Says loudly", 1)) }
		}),
		"no such level": differs(`the level of thinking is "off"`, func(t *testing.T, l *lab) {
			l.change = func(l *lab) { l.rewrite(t, modelsFile, `"reasoning": true`, `"reasoning": false`) }
		}),
		"no key": differs(`the model "m" is not available`, func(t *testing.T, l *lab) {
			l.change = func(l *lab) {
				l.rewrite(t, modelsFile, `"apiKey": "`+l.endpoint.Token()+`"`, `"apiKey": "$NOBODY_SET_THIS"`)
			}
		}),
		"read-only config": differs(`the model "m" is not available`, func(t *testing.T, l *lab) {
			l.prefix = withoutOverride(t)
			l.change = func(l *lab) {
				dir := filepath.Join(l.scratch, "pi")
				if err := os.Chmod(dir, 0o555); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
			}
		}),
	}
}

// withoutOverride is what starts a program to which the permissions of files
// apply, for root too.
func withoutOverride(t *testing.T) []string {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	return []string{"/usr/bin/setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override,-dac_read_search", "--"}
}

func TestFailures(t *testing.T) {
	for _, version := range versions {
		launcher(t, version)
		for name, f := range failures() {
			t.Run(version+"/"+name, func(t *testing.T) {
				t.Parallel()
				l := newLab(version, f.replies)
				if f.set != nil {
					f.set(t, l)
				}
				l.start(t)
				if l.adjust != nil {
					l.adjust(l)
				}
				res, s := l.drive(t, f.opts)
				report := l.endpoint.Close()
				message := ""
				for _, ev := range res.Events {
					message += ev.Message
				}
				if res.Status != f.status || !strings.Contains(message, f.says) || res.Violation != "" || res.Noise != 0 {
					t.Errorf("status %s, want %s; it says %q; violation %q, noise %d", res.Status, f.status, message, res.Violation, res.Noise)
				}
				if !strings.Contains(res.Mismatch, f.mismatch) || (f.mismatch == "") != (res.Mismatch == "") {
					t.Errorf("mismatch %q, want %q", res.Mismatch, f.mismatch)
				}
				kind := ""
				if report.Failure != nil {
					kind = report.Failure.Kind
				}
				if got := s.(harness.ProviderWitness).ProviderFailure(); got != f.witness || kind != f.broker {
					t.Errorf("the session says %q of the provider, the broker %q; want %q and %q; %s", got, kind, f.witness, f.broker, message)
				}
				if report.Requests != f.requests || res.Stopped != f.stopped || !f.stopped && res.Exit != f.exit {
					t.Errorf("%d requests, want %d; exit %d, want %d; stopped %v", report.Requests, f.requests, res.Exit, f.exit, res.Stopped)
				}
				if t.Failed() {
					t.Logf("standard error: %s", l.agent.Stderr)
				}
			})
		}
	}
}
