package compile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/bundle"
	"foundry/plan"
)

// starterText writes a starter policy. Indents and columns are left to Format.
type starterText struct {
	*starting
	c    *compiler
	b    *strings.Builder
	open int
}

func (w *starterText) write() string {
	// The head counts what is open, so it is written last.
	w.inputsAndWorker()
	w.limits()
	w.tools()
	for _, u := range w.c.order {
		w.unit(u)
	}
	body := w.b.String()
	w.b = &strings.Builder{}
	w.head()
	return w.b.String() + body
}

func (w *starterText) line(format string, args ...any) { fmt.Fprintf(w.b, format+"\n", args...) }

// comment writes text as comment lines.
func (w *starterText) comment(text string) {
	const columns = 92
	line := "#"
	for _, word := range strings.Fields(visibleText(text)) {
		if len(line)+1+len(word) > columns && line != "#" {
			w.line("%s", line)
			line = "#"
		}
		line += " " + word
	}
	w.line("%s", line)
}

// todo writes an open decision.
func (w *starterText) todo(name, format string, args ...any) {
	w.open++
	w.line("%s = todo(%s)", name, hclText(fmt.Sprintf(format, args...)))
}

// hclText is a text as a quoted string of HCL that means exactly it: ${ and %{
// in it are text.
func hclText(s string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(visibleText(s))).Bytes())
}

// hclNames is a list of names.
func hclNames(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = hclText(n)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// visibleText escapes what hides or reorders text, and what ends a line.
func visibleText(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Zs, r) {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

func (w *starterText) head() {
	w.comment(fmt.Sprintf("A policy to start from, for the pipeline %s of %d phases.", w.c.asm.Pipeline, len(w.c.asm.Phases)))
	w.line("#")
	w.comment(fmt.Sprintf("%d decisions in it are open: each stands as todo(…), or as the name of a model, and is an error until a person writes the value in its place. `foundry validate FILE` lists them; `foundry fmt FILE` lays the file out; then `foundry plan FILE` shows what would happen. Everything else is proposed from the data flow that the skills declare, and may be changed.", w.open))
	w.line("assembly = %s", hclText(w.o.AssemblyName))
	w.line("skills = %s", hclText(w.o.SkillsName))
	w.line("")
}

// inputsAndWorker is what comes from outside, and who works.
func (w *starterText) inputsAndWorker() {
	for _, id := range sortedKeys(w.inputs) {
		w.input(id, w.inputs[id])
	}
	w.comment("Only listed models exist, with their prices; a credential is named, its value is never in a policy. A test stub (adapter \"scripted\", with test_stub = true and a script) tries the plan out without an agent.")
	w.line("provider \"main\" {")
	w.todo("api", "the protocol that the provider speaks, such as \"anthropic-messages\"")
	w.todo("base_url", "where the provider is reached")
	w.todo("credential", "the name of the environment variable that holds the key; never the key")
	w.open++
	w.line("model \"todo\" {")
	w.todo("price", "what a million tokens cost: { input = \"…\", output = \"…\", cache_read = \"…\", cache_write = \"…\" }")
	w.todo("max_output", "the most tokens of one answer")
	w.line("}\n}\n")
	w.line("harness \"worker\" {")
	w.todo("adapter", "which agent works; this program has %s", strings.Join(sortedKeys(w.o.Adapters), ", "))
	w.todo("version", "the version of the agent, which its image must hold")
	w.line("provider = \"main\"")
	w.todo("model", "the id of the model, as the provider block lists it")
	w.todo("tools", "the fewest tools that the skills need; [] for none")
	w.line("}\n")
}

func (w *starterText) input(id string, in *openInput) {
	switch {
	case len(in.gaps) > 0:
		for _, g := range in.gaps {
			w.comment("GAP of the pipeline. " + g.why)
		}
		g := in.gaps[0]
		w.comment(fmt.Sprintf("Either name a file or folder here, or take this block out and write not_applicable = [%q] in %s.", id, strings.ReplaceAll(blockFor(g.step), "`", "")))
		w.line("input %q {", id)
		w.todo("path", "a gap of the pipeline: nothing gives %s, which %s reads", id, g.step.id)
	case in.firstStep != "":
		w.comment(fmt.Sprintf("What the pipeline starts from. The skill of the first phase, %s, does not declare what it reads; %q is a proposal: name it as fits, here and in the phase, and add more where it reads more.", in.firstStep, id))
		w.line("input %q {", id)
		w.todo("path", "the file or folder that %s starts from", in.firstStep)
	default:
		w.comment(fmt.Sprintf("What the branch %s falls back to when no alternative is accepted: its chain ends in %s.", in.branch, bundle.UserSupplied))
		w.line("input %q {", id)
		w.todo("path", "the %s that the user supplies, what %s falls back to", id, in.branch)
	}
	w.line("}\n")
}

// limits is where and within what bounds it runs.
func (w *starterText) limits() {
	w.comment("A container is a boundary; without it a worker can read and write what you can. An image is named by digest: `foundry image ls -q NAME` prints the one that is in the store.")
	w.line("sandbox {\nmode = \"container\"")
	w.todo("image", "the image that holds the agent and what its skills call")
	w.todo("network", "\"none\" for a test stub; \"provider\" lets an agent reach its model through the broker, and nothing else")
	w.line("}\n")
	w.comment("The whole run stops at these bounds.")
	w.line("budget {")
	w.todo("wall", "how long the whole run may take")
	w.todo("cost_usd", "what the whole run may cost")
	w.todo("tokens", "how many tokens the whole run may take")
	w.line("}\n")
	w.comment("Each attempt of each phase stops at these, unless the phase has a budget of its own.")
	w.line("defaults {\nharness = \"worker\"\nbudget {")
	w.todo("wall", "how long one phase may take")
	w.todo("turns", "how many turns a worker has")
	w.todo("tool_calls", "how often a worker may call a tool")
	w.todo("tokens", "how many tokens one phase may take")
	w.todo("cost_usd", "what one phase may cost")
	w.todo("output", "how large all outputs of one phase may be")
	w.todo("files", "how many files one phase may write")
	w.line("}\n}\n")
}

// allTools are the programs that the assembly and its skills need.
func (w *starterText) allTools() (names []string, required map[string]bundle.RequiredTool, validators map[string]bool) {
	required, validators = map[string]bundle.RequiredTool{}, map[string]bool{}
	add := func(tools []bundle.RequiredTool) {
		for _, t := range tools {
			if _, ok := required[t.Tool]; !ok {
				required[t.Tool] = t
			}
		}
	}
	add(w.c.asm.Tools)
	for _, name := range sortedKeys(w.c.skills) {
		s := w.c.skills[name]
		add(s.Tools)
		for _, v := range s.Verify {
			validators[v.Tool] = true
		}
	}
	return sortedSet(append(sortedKeys(required), sortedKeys(validators)...)), required, validators
}

func (w *starterText) tools() {
	names, required, validators := w.allTools()
	if len(names) > 0 {
		w.comment("How each program is had that the skills need: one of image (by digest), by = \"schema\" (the published JSON Schema in the place of a validator), and unavailable = \"reason\" (done without; its checks count as unsupported).")
	}
	for _, name := range names {
		ways := "an image, or unavailable = \"reason\" instead"
		if validators[name] {
			ways = "an image, or instead by = \"schema\" or unavailable = \"reason\""
		}
		w.line("tool %q {", name)
		w.todo("image", "how %s is had: %s", name, ways)
		w.line("}\n")
		if t, ok := required[name]; ok && t.Bad != "" {
			w.comment(fmt.Sprintf("The published availability check of %s, %s, cannot be run as it is: %s Where the tool is unavailable, take this block out.", name, strconv.Quote(t.Check), sentence(t.Bad)))
			w.line("probe %q {", name)
			w.todo("argv", "the program and its arguments that show that %s is there", name)
			w.line("}\n")
		}
	}
}

func (w *starterText) unit(u *unit) {
	switch u.kind {
	case unitLoop:
		w.loop(u)
	case unitBranch:
		w.branch(u)
	default:
		s := u.steps[0]
		if body := w.phase(s); body != "" {
			w.comment(w.title(s))
			w.line("phase %q {\n%s}\n", s.id, body)
		}
	}
}

func (w *starterText) title(s *step) string {
	return fmt.Sprintf("Phase %d of %d, %s.", s.number, len(w.c.asm.Phases), s.id)
}

func (w *starterText) loop(u *unit) {
	i := slices.IndexFunc(w.groups, func(g loopGroup) bool { return g.name == u.id })
	g := w.groups[i]
	if len(g.phases) > 1 {
		w.comment(fmt.Sprintf("The assembly marks phases %d to %d as loops and does not say whether they are one. Proposed: one loop that runs them all in each iteration. To repeat each on its own, write a loop for each.", u.steps[0].number, u.steps[len(u.steps)-1].number))
	} else {
		w.comment(fmt.Sprintf("%s It is a loop, and nothing in its bundle says when it ends.", w.title(u.steps[0])))
	}
	w.comment("Each iteration reads again what the one before it wrote of: " + orNone(u.carries) + ". A check within the loop may ask a program: check \"NAME\" { tool = … argv = […] }.")
	w.line("loop %q {", u.id)
	if len(g.phases) > 1 || g.phases[0] != u.id {
		w.line("phases = %s", hclNames(g.phases))
	}
	w.todo("max_iterations", "how often the loop may run at most")
	w.todo("until", "when the loop is done, over %s", strings.Join(append(facts(u.steps), "check.NAME", "iteration"), ", "))
	for _, s := range u.steps {
		body := w.phase(s)
		switch {
		case body == "":
		case len(u.steps) == 1 && s.id == u.id:
			w.line("%s", body)
		default:
			w.line("phase %q {\n%s}", s.id, body)
		}
	}
	w.line("}\n")
}

// facts are what a predicate may look at of some steps' outputs.
func facts(steps []*step) []string {
	var out []string
	for _, s := range steps {
		for _, o := range s.outputs {
			out = append(out, "output."+o.Artifact)
		}
	}
	return sortedSet(out)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func (w *starterText) branch(u *unit) {
	var ways []string
	for _, s := range u.steps {
		ways = append(ways, s.name)
	}
	w.comment(fmt.Sprintf("Phase %d of %d, a branch: %s, the first whose outputs are accepted.", u.steps[0].number, len(w.c.asm.Phases), strings.Join(ways, ", else ")))
	w.line("branch %q {", u.id)
	var about []string
	for _, id := range sortedKeys(u.artifacts) {
		about = append(about, "output."+id)
	}
	w.todo("accept", "when an alternative's outputs will do, over %s", strings.Join(append(about, "worker.status"), ", "))
	names := sortedKeys(u.artifacts)
	switch supplied := slices.Contains(u.asm.Chain, bundle.UserSupplied); {
	case supplied && len(names) == 1:
		w.line("otherwise = input.%s", names[0])
	case supplied:
		w.todo("otherwise", "what the user supplies, or \"fail\"; the branch gives %s", orNone(names))
	default:
		w.line("otherwise = %q # the assembly names no further way", plan.OtherwiseFail)
	}
	for _, s := range u.steps {
		if body := w.phase(s); body != "" {
			w.line("phase %q {\n%s}", s.name, body)
		}
	}
	w.line("}\n")
}

// phase is what the policy says of one step, "" when that is nothing.
func (w *starterText) phase(s *step) string {
	before := w.b
	w.b = &strings.Builder{}
	w.reads(s)
	if len(s.outputs) == 0 {
		w.comment("It declares no output, so that only a check can show that it did anything.")
		w.line("check \"proof\" {")
		if names, _, _ := w.allTools(); len(names) > 0 {
			w.todo("tool", "the tool that proves what %s did: %s, or another that gets a tool block", s.id, strings.Join(names, ", "))
		}
		w.todo("argv", "the program and its arguments, no shell line; {in:ID} is an artifact that the phase reads")
		w.line("}")
	}
	body := w.b.String()
	w.b = before
	return body
}

func (w *starterText) reads(s *step) {
	if w.c.found.undeclared[s.id] {
		w.comment("Its skill does not declare what it reads.")
		first := ""
		for id, in := range w.inputs {
			if in.firstStep == s.id {
				first = id
			}
		}
		if first != "" {
			w.line("inputs = %s", hclNames([]string{first}))
		} else {
			w.todo("inputs", "which of these it reads, [] for none: %s", orNone(w.available(s)))
		}
	}
	if na := w.na[s.id]; len(w.partial[s.id]) > 0 {
		for _, why := range w.partial[s.id] {
			w.comment(why)
		}
		w.todo("not_applicable", "not every way gives what it reads; all that applies to it not: %s", strings.Join(na, ", "))
	} else if len(na) > 0 {
		w.comment(w.whyNot(s, na))
		w.line("not_applicable = %s", hclNames(na))
	}
	if o := w.optional[s.id]; len(o) > 0 {
		w.comment("Who writes these may leave them out.")
		w.line("optional = %s", hclNames(o))
	}
}

// whyNot says why artifacts are proposed as not applicable.
func (w *starterText) whyNot(s *step, na []string) string {
	has, lacks := map[string]bool{}, []string{}
	for _, id := range na {
		found := false
		for _, other := range siblings(s, id) {
			if !slices.Contains(na, other) {
				has[other], found = true, true
			}
		}
		if !found {
			lacks = append(lacks, id)
		}
	}
	var out []string
	if len(has) > 0 {
		out = append(out, "Its skill reads these in pipelines of other sources; here it has "+strings.Join(sortedKeys(has), ", ")+".")
	}
	if len(lacks) > 0 {
		out = append(out, "Nothing in this pipeline gives "+strings.Join(lacks, ", ")+", nor one of its kind: bring one as an input if the worker needs it.")
	}
	return strings.Join(out, " ")
}

// available are the artifacts that a step may read: inputs, what is written
// before it, and in a loop what its body writes.
func (w *starterText) available(s *step) []string {
	out := sortedKeys(w.inputs)
	for _, t := range w.c.walk {
		if t == s && s.unit.kind != unitLoop {
			break
		}
		if t.number > s.number && t.unit != s.unit {
			break
		}
		for _, o := range t.outputs {
			out = append(out, o.Artifact)
		}
	}
	return sortedSet(out)
}
