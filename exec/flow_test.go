package exec

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"foundry/exec/internal/exectest"
	"foundry/exec/record"
	"foundry/harness/contract"
	"foundry/plan"
	"foundry/sandbox"
)

// diamond is a → (b, c) → d by data alone; other stands for itself.
func diamond() *exectest.Builder {
	b := exectest.New("fake", "1")
	b.Plan.Order = plan.OrderDataflow
	add := func(id string, from ...string) {
		b.Node(id, func(n *plan.Node) {
			n.Needs = from
			for _, f := range from {
				n.Inputs = append(n.Inputs, exectest.JSONIn("out-"+f, "node:"+f))
			}
			n.Outputs = []plan.NodeOutput{{Artifact: "out-" + id, Filename: "out-" + id + ".json", Kind: plan.KindJSON, Required: plan.RequiredAlways}}
		})
	}
	add("a")
	add("b", "a")
	add("c", "a")
	add("d", "b", "c")
	add("other")
	return b
}

// crew counts who works at the same time.
type crew struct {
	mu       sync.Mutex
	now, top int
	order    []string
	meet     chan struct{} // closed when two of b and c are there
	fails    string
}

func (c *crew) work(w *exectest.Worker) sandbox.Exit {
	id := strings.TrimPrefix(w.Task.Skill, "skill:")
	c.mu.Lock()
	c.now++
	c.top = max(c.top, c.now)
	c.order = append(c.order, id)
	if c.meet != nil && c.now == 2 && (id == "b" || id == "c") {
		close(c.meet)
	}
	c.mu.Unlock()
	if c.meet != nil && (id == "b" || id == "c") {
		select {
		case <-c.meet:
		case <-w.Killed:
		case <-time.After(time.Minute):
		}
	}
	w.Events(exectest.Started())
	if id != c.fails {
		w.File("out-"+id+".json", fmt.Sprintf(`{"of": %q}`, id))
	}
	w.Events(exectest.Finished(contract.Settled))
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	return sandbox.Exit{}
}

// Independent steps run side by side, and the artifacts are those of one
// after the other.
func TestDataflow(t *testing.T) {
	var views []map[string]string
	for _, n := range []int{1, 2} {
		c := &crew{}
		if n == 2 {
			c.meet = make(chan struct{})
		}
		b := diamond()
		if n == 2 {
			b.Plan.Nodes = b.Plan.Nodes[:4] // other would take the second place
			b.Plan.Bundles = b.Plan.Bundles[:4]
		}
		opts := options(t, b, &exectest.Runtime{Work: c.work})
		opts.Parallelism = n
		run, err := Run(context.Background(), opts)
		if err != nil || run.Status != record.StatusSucceeded || c.top != n {
			t.Fatalf("parallelism %d: %+v, %v, at most %d at once", n, run.Failure, err, c.top)
		}
		view := tree(t, filepath.Join(opts.RunDir, record.ArtifactsDir))
		delete(view, filepath.Join("other", "out-other.json"))
		views = append(views, view)
	}
	if !same(views[0], views[1]) || len(views[0]) != 4 {
		t.Errorf("%v", views)
	}
}

// A run keeps going with what does not need the step that failed.
func TestKeepGoing(t *testing.T) {
	for _, keep := range []bool{false, true} {
		c := &crew{fails: "b"}
		opts := options(t, diamond(), &exectest.Runtime{Work: c.work})
		opts.KeepGoing = keep
		run, err := Run(context.Background(), opts)
		if err != nil || ExitCode(run, err) != ExitFailed || run.Failure.Reason != record.ReasonMissingArtifact {
			t.Fatalf("%+v, %v", run, err)
		}
		want := "a b"
		if keep {
			want = "a b c other"
		}
		if got := strings.Join(c.order, " "); got != want {
			t.Errorf("keep going %v: %s, want %s", keep, got, want)
		}
		if nodeOf(run, "d").Status != record.StatusNotReached {
			t.Errorf("d is %s", nodeOf(run, "d").Status)
		}
	}
}

// varied is a plan of steps, loops and branches with checks, without processes.
func varied(t *rapid.T) *plan.Plan {
	p := &plan.Plan{Budget: plan.RunBudget{WallSeconds: 1 << 40, Tokens: 1 << 40, CostMicroUSD: 1 << 40}}
	node := func(id string, needs ...string) {
		p.Nodes = append(p.Nodes, plan.Node{ID: id, Kind: plan.NodeAgent, Needs: needs, Budget: plan.NodeBudget{WallSeconds: 60, Tokens: 10}})
	}
	check := func(of string) string {
		id := of + ".c"
		p.Nodes = append(p.Nodes, plan.Node{ID: id, Kind: plan.NodeCheck, Needs: []string{of}, Budget: plan.NodeBudget{WallSeconds: 60},
			Check: &plan.Check{Name: "c", Of: of, Blocking: rapid.Bool().Draw(t, "blocking")}})
		return id
	}
	var units []string
	for u := range rapid.IntRange(1, 5).Draw(t, "units") {
		id := fmt.Sprintf("u%d", u)
		var needs []string
		for _, n := range units {
			if rapid.Bool().Draw(t, "needs") {
				needs = append(needs, n)
			}
		}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			node(id, needs...)
			if rapid.Bool().Draw(t, "check") {
				check(id)
			}
		case 1:
			l := plan.Loop{ID: id, MaxIterations: int64(rapid.IntRange(1, 3).Draw(t, "bound"))}
			for k := range rapid.IntRange(1, 3).Draw(t, "body") {
				part := fmt.Sprintf("%s-%d", id, k)
				node(part, needs...)
				l.Body = append(l.Body, part)
				if rapid.Bool().Draw(t, "check") {
					l.Body = append(l.Body, check(part))
				}
			}
			p.Loops = append(p.Loops, l)
		case 2:
			b := plan.Branch{ID: id, Otherwise: rapid.SampledFrom([]string{plan.OtherwiseFail, "input:x"}).Draw(t, "otherwise")}
			for k := range rapid.IntRange(1, 3).Draw(t, "alternatives") {
				alt := fmt.Sprintf("%s/%d", id, k)
				node(alt, needs...)
				b.Alternatives = append(b.Alternatives, alt)
				if rapid.Bool().Draw(t, "check") {
					check(alt)
				}
			}
			p.Branches = append(p.Branches, b)
		}
		units = append(units, id)
	}
	return p
}

// Whatever the plan, whatever happens and wherever the controller dies: nothing
// runs twice in an iteration once it succeeded (a step that a failed check
// disproved aside), at most so many run at once, every run ends, a success has
// left nothing out, and the journal replays to the same commands.
func TestWalkWithControlProperties(t *testing.T) {
	reasons := []string{record.ReasonWorkerError, record.ReasonRuntimeError, record.ReasonCheckFailed}
	rapid.Check(t, func(t *rapid.T) {
		p := varied(t)
		w, err := NewWalk(p, "")
		if err != nil {
			t.Fatal(err)
		}
		parallel := rapid.IntRange(1, 3).Draw(t, "parallel")
		var journal []record.Event
		var given, queue []Command
		s := w.Initial()
		send := func(e record.Event) {
			journal = append(journal, e)
			var cs []Command
			if s, cs, err = w.Step(s, e); err != nil {
				t.Fatalf("%v after %+v", err, journal)
			}
			given = append(given, cs...)
			for _, c := range cs {
				if c.Kind == StartNode || c.Kind == Decide || c.Kind == EndRun {
					queue = append(queue, c)
				}
			}
		}
		succeeded := map[string]bool{}
		under := map[string]Command{}
		resumed, disproved := 0, false
		send(record.Event{Type: record.EventRunStarted, Parallelism: int64(parallel), KeepGoing: rapid.Bool().Draw(t, "keep")})
		for steps := 0; ; steps++ {
			if steps > 2000 {
				t.Fatal("the run does not end")
			}
			if resumed < 2 && rapid.IntRange(0, 30).Draw(t, "dies") == 0 {
				resumed++
				queue = nil
				clear(under)
				send(record.Event{Type: record.EventRunResumed, Parallelism: int64(parallel)})
				continue
			}
			if len(queue) > 0 && rapid.Bool().Draw(t, "command first") || len(under) == 0 {
				if len(queue) == 0 {
					t.Fatal("nothing is under way and the run has not ended")
				}
				c := queue[0]
				queue = queue[1:]
				switch c.Kind {
				case EndRun:
					if len(under) > 0 || len(queue) > 0 {
						t.Fatalf("the end beside %v and %v", under, queue)
					}
					send(record.Event{Type: record.EventRunFinished, Status: c.Status, Failure: c.Failure})
					if c.Status == record.StatusSucceeded {
						for i := range p.Nodes {
							if at := s.nodes[i].at; at == waiting || at == queued || at == commanded || at == running {
								t.Fatalf("success, and node %s is %d", p.Nodes[i].ID, at)
							}
						}
					}
					if c.Failure != nil && resumed < 2 && rapid.Bool().Draw(t, "again") {
						resumed++
						send(record.Event{Type: record.EventRunResumed, Parallelism: int64(parallel)})
						continue
					}
					replay(t, w, journal, given)
					return
				case Decide:
					v := rapid.SampledFrom([]string{record.VerdictTrue, record.VerdictFalse, record.VerdictFalse, record.VerdictError}).Draw(t, "verdict")
					send(record.Event{Type: record.EventDecided, Node: c.Node, Iteration: c.Iteration, Decision: &record.Decision{Kind: c.Decision, Of: c.Of, Verdict: v}})
				default:
					key := fmt.Sprint(c.Node, " ", c.Iteration)
					if _, twice := under[c.Node]; twice || succeeded[key] && !disproved {
						t.Fatalf("%s runs again", key)
					}
					send(record.Event{Type: record.EventNodeStarted, Node: c.Node, Iteration: c.Iteration, Attempt: c.Attempt})
					under[c.Node] = c
					if len(under) > parallel {
						t.Fatalf("%d at once, %d may", len(under), parallel)
					}
				}
				continue
			}
			for name, c := range under { // the draw below decides for the first by name
				for other := range under {
					if other < name {
						name, c = other, under[other]
					}
				}
				delete(under, name)
				e := record.Event{Type: record.EventNodeFinished, Node: name, Iteration: c.Iteration, Attempt: c.Attempt, Status: record.StatusSucceeded}
				if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
					e.Status, e.Failure = record.StatusFailed, record.Fail(rapid.SampledFrom(reasons).Draw(t, "reason"), "x")
					disproved = disproved || e.Failure.Reason == record.ReasonCheckFailed
				} else {
					succeeded[fmt.Sprint(name, " ", c.Iteration)] = true
				}
				send(e)
				break
			}
		}
	})
}

func replay(t *rapid.T, w *Walk, journal []record.Event, given []Command) {
	var again []Command
	s := w.Initial()
	for _, e := range journal {
		var cs []Command
		s, cs, _ = w.Step(s, e)
		again = append(again, cs...)
	}
	if a, b := fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", given); len(again) != len(given) {
		t.Fatalf("the replay differs:\n%s\n%s", a, b)
	}
	for i := range again {
		if again[i].Kind != given[i].Kind || again[i].Node != given[i].Node || again[i].Attempt != given[i].Attempt || again[i].Iteration != given[i].Iteration {
			t.Fatalf("the replay differs at %d: %+v and %+v", i, again[i], given[i])
		}
	}
}
