package diff

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"

	"foundry/plan"
)

// Cases of the list of steps.
const (
	whenWorkerAdded   = "a worker added"
	whenWorkerRemoved = "a worker without a required output removed"
	whenGiverRemoved  = "a worker with a required output removed"
	whenChoiceRemoved = "an alternative removed"
	whenCheckAdded    = "a check added"
	whenCheckRemoved  = "a check removed"
)

// stepList is the list of nodes, in the order in which they run.
func stepList() rule {
	l := list{keys: []string{"ID"}, ordered: moved, shown: stepShown, cases: []Case{
		widen("one more worker runs").when(whenWorkerAdded),
		narrow("one worker fewer runs").when(whenWorkerRemoved),
		widen("a run succeeds without what it had to give").when(whenGiverRemoved),
		narrow("one alternative fewer can be accepted").when(whenChoiceRemoved),
		widen("one more process runs").when(whenCheckAdded),
		widen("what it proved is not proved any more").when(whenCheckRemoved),
		neutral("it stands elsewhere in the order of the steps").when(whenReordered),
	}}
	l.when = func(p *place, v reflect.Value, kind Kind) string {
		n := v.Addr().Interface().(*plan.Node)
		grades := n.Kind == plan.NodeCheck || n.Kind == plan.NodeJudge
		switch {
		case kind == Added && grades:
			return whenCheckAdded
		case kind == Added:
			return whenWorkerAdded
		case grades:
			return whenCheckRemoved
		case p.alternative(n.ID):
			return whenChoiceRemoved
		case slices.ContainsFunc(n.Outputs, func(o plan.NodeOutput) bool { return o.Required != plan.Optional }):
			return whenGiverRemoved
		}
		return whenWorkerRemoved
	}
	l.content = func(p *place, v reflect.Value, kind Kind) *Text {
		if kind == Removed {
			return nil
		}
		// The prompt as a worker reads it, and then all else, as the plan has it.
		n := *v.Addr().Interface().(*plan.Node)
		prompt := n.Prompt
		n.Prompt = ""
		all := &Text{}
		all.join(p.text("", prompt))
		all.join(p.text("", encoding(&n)))
		return all
	}
	return keyed(l)
}

// alternative reports whether a step was one of a branch that is still there.
func (d *differ) alternative(id string) bool {
	if d.choices == nil {
		d.choices = map[string]bool{}
		left := map[string]bool{}
		for i := range d.after.Plan.Branches {
			left[d.after.Plan.Branches[i].ID] = true
		}
		for i := range d.before.Plan.Branches {
			if b := &d.before.Plan.Branches[i]; left[d.nowCalled(branchList, b.ID)] {
				for _, id := range b.Alternatives {
					d.choices[id] = true
				}
			}
		}
	}
	return d.choices[id]
}

// stepShown is what a step may do, in one line.
func stepShown(v reflect.Value) string {
	n := v.Addr().Interface().(*plan.Node)
	s := &n.Sandbox
	parts := []string{n.Kind}
	add := func(yes bool, format string, args ...any) {
		if yes {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(n.Skill != "", "%s", n.Skill)
	add(len(n.NestedSkills) > 0, "nested %s", join(n.NestedSkills))
	add(n.Harness != "", "harness %s", n.Harness)
	add(n.Check != nil, "argv %s", join(n.Process.Argv))
	add(n.Check != nil && n.Check.TrustedHost, "on the host")
	add(true, "%s", strings.TrimSpace(s.Mode+" "+s.Image))
	add(true, "network %s", s.Network)
	add(len(s.EgressHosts) > 0, "hosts %s", join(s.EgressHosts))
	add(len(s.Credentials) > 0, "credentials %s", join(s.Credentials))
	add(len(s.WorkerCredentials) > 0, "credentials inside %s", join(s.WorkerCredentials))
	add(s.AllowShell, "shell")
	add(s.AllowFetch, "fetches code")
	var writable []string
	for _, m := range s.Mounts {
		if m.Mode != plan.MountReadOnly {
			writable = append(writable, m.Destination)
		}
	}
	add(len(writable) > 0, "writes %s", join(writable))
	add(n.SubmitAttempts > 1, "%d submissions", n.SubmitAttempts)
	add(n.Skill != "" && !n.RequireActivation, "activation not required")
	b := n.Budget
	add(true, "%d s", b.WallSeconds)
	add(n.Check == nil, "%d turns, %d tool calls, %d tokens, %d micro-USD", b.Turns, b.ToolCalls, b.Tokens, b.CostMicroUSD)
	add(true, "output %d bytes in %d files", b.OutputBytes, b.OutputFiles)
	return strings.Join(parts, "; ")
}

// moved reports the steps that changed their place among those that both plans
// have: the fewest that leave the others in one order.
func moved(p *place, before, after []paired) {
	kept := ascending(after)
	placeBefore := make(map[string]int, len(before))
	for i := range before {
		placeBefore[before[i].key] = i
	}
	for j := range after {
		if kept[j] {
			continue
		}
		k := after[j].key
		p.sayAt(p.path+"["+k+"]", whenReordered, Reordered, behind(before, placeBefore[k]), behind(after, j))
	}
}

// ascending marks a longest run of entries whose places before ascend.
func ascending(list []paired) []bool {
	var tails []int // of the best run of each length, the index of its last entry
	previous := make([]int, len(list))
	for j := range list {
		k := sort.Search(len(tails), func(k int) bool { return list[tails[k]].a >= list[j].a })
		previous[j] = -1
		if k > 0 {
			previous[j] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, j)
		} else {
			tails[k] = j
		}
	}
	kept := make([]bool, len(list))
	for j := tails[len(tails)-1]; j >= 0; j = previous[j] {
		kept[j] = true
	}
	return kept
}

func behind(list []paired, i int) string {
	if i == 0 {
		return "first"
	}
	return "after " + list[i-1].key
}

// renumbered is the number of a step's phase. One phase that was put in or taken
// out gives all behind it another number, so that all of them are one change.
func renumbered() rule {
	return rule{[]Case{neutral("phases have other numbers; the order of the steps is said apart").when(whenChanges)}, func(p *place, a, b reflect.Value) {
		if p.phases == 0 {
			p.say(whenChanges, Changed, brief(a), brief(b))
			p.phases, p.phaseAt = 1, len(p.report.Changes)-1
			return
		}
		c := &p.report.Changes[p.phaseAt]
		if p.phases++; p.phases == 2 {
			c.After += " of " + strings.TrimSuffix(strings.TrimPrefix(c.Path, "nodes["), "].phase")
			c.Path = "nodes[*].phase"
		}
		first, _, _ := strings.Cut(c.After, ", the first of ")
		c.After = fmt.Sprintf("%s, the first of %d steps", first, p.phases)
	}}
}

// Cases of what a step waits for.
const (
	whenFree    = "does not wait for it any more"
	whenStill   = "waits for it by way of others"
	whenGone    = "waited for what is gone"
	whenAwaits  = "waits for one more"
	whenAlready = "waited for it by way of others"
)

// needs is the list of what a step waits for.
func needs() rule {
	return rule{[]Case{
		widen("it may start before that is done and checked").when(whenFree),
		neutral("it still waits for that, by way of others").when(whenStill),
		neutral("what it waited for was removed").when(whenGone),
		narrow("it waits for more").when(whenAwaits),
		neutral("it waited for that already, by way of others").when(whenAlready),
		neutral("the same entries: their order means nothing").when(whenReordered),
	}, func(p *place, a, b reflect.Value) {
		before, after := p.texts(a, true), p.texts(b, false)
		in, out := lacking(after, before), lacking(before, after)
		if len(in)+len(out) == 0 {
			if !slices.Equal(before, after) {
				p.say(whenReordered, Reordered, join(before), join(after))
			}
			return
		}
		if p.order == nil {
			p.order = newOrder(p.differ)
		}
		for _, id := range in {
			when := whenAwaits
			if p.order.before.reaches(p.texts(a, true), id) {
				when = whenAlready
			}
			p.say(when, Added, "", id)
		}
		for _, id := range out {
			when := whenFree
			switch {
			case !p.order.after.has(id):
				when = whenGone
			case p.order.after.reaches(p.texts(b, false), id):
				when = whenStill
			}
			p.say(when, Removed, id, "")
		}
	}}
}

// order is who waits for whom in both plans, by ids after the change.
type order struct{ before, after *waits }

// waits is who waits for whom in one plan: a node for its needs, a loop for its
// body, a branch for its first alternative.
type waits struct {
	number map[string]int
	of     [][]int
	place  []int // of a node in the plan, of a loop or branch that of the last one it waits for
	seen   []int // the search that saw it last
	search int
	left   int // steps that are left for all searches
}

// maxSearch bounds the search for who waits for whom; without an answer, a step
// counts as not waiting.
const maxSearch = 2_000_000

func newOrder(d *differ) *order {
	same := func(id string) string { return id }
	return &order{newWaits(d.before.Plan, d.nowCalledStep), newWaits(d.after.Plan, same)}
}

func newWaits(p *plan.Plan, called func(string) string) *waits {
	w := &waits{number: make(map[string]int, len(p.Nodes)), left: maxSearch}
	for i := range p.Nodes {
		w.place[w.add(called(p.Nodes[i].ID))] = i
	}
	join := func(id string, members []string) {
		n := w.add(called(id))
		for _, m := range members {
			if k, ok := w.number[called(m)]; ok && k != n { // a loop may have the name of its body
				w.of[n] = append(w.of[n], k)
				w.place[n] = max(w.place[n], w.place[k])
			}
		}
	}
	for i := range p.Loops {
		join(p.Loops[i].ID, p.Loops[i].Body)
	}
	for i := range p.Branches {
		// The first alternative alone is sure to run.
		join(p.Branches[i].ID, p.Branches[i].Alternatives[:min(1, len(p.Branches[i].Alternatives))])
	}
	for i := range p.Nodes {
		n := w.number[called(p.Nodes[i].ID)]
		for _, id := range p.Nodes[i].Needs {
			if k, ok := w.number[called(id)]; ok && k != n {
				w.of[n] = append(w.of[n], k)
			}
		}
	}
	return w
}

func (w *waits) add(id string) int {
	n, ok := w.number[id]
	if !ok {
		n = len(w.of)
		w.number[id] = n
		w.of, w.place, w.seen = append(w.of, nil), append(w.place, 0), append(w.seen, 0)
	}
	return n
}

func (w *waits) has(id string) bool { _, ok := w.number[id]; return ok }

// reaches reports whether one of from waits for id, at first hand or not. In a
// valid plan a node waits for nothing that stands behind it, so that nothing
// before id is looked at.
func (w *waits) reaches(from []string, id string) bool {
	goal, ok := w.number[id]
	if !ok {
		return false
	}
	w.search++
	var queue []int
	for _, f := range from {
		if n, ok := w.number[f]; ok {
			queue = append(queue, n)
		}
	}
	for len(queue) > 0 && w.left > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		w.left--
		if at == goal {
			return true
		}
		if w.seen[at] == w.search || w.place[at] < w.place[goal] {
			continue
		}
		w.seen[at] = w.search
		w.left -= len(w.of[at])
		queue = append(queue, w.of[at]...)
	}
	return false
}
