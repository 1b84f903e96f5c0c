package plan

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Upper bounds of a plan. With them every sum that is made of a plan stays
// below 2^63: nodes × iterations × the bound of one attempt is at most
// 10^5 × 10^4 × 5·10^9 = 5·10^18.
const (
	MaxNodes           = 100_000
	MaxAttemptCost     = 5_000_000_000     // micro-USD of one attempt: 5,000 USD
	MaxAttemptTokens   = 5_000_000_000     // of one attempt
	MaxRunCost         = 1_000_000_000_000 // micro-USD of a run: a million USD
	MaxRunTokens       = 1_000_000_000_000
	MaxWallSeconds     = 366 * 24 * 3600 // of an attempt or a run: a year
	MaxTurns           = 1_000_000       // also of tool calls
	MaxBytes           = 1 << 40         // of one file, one mount, the outputs of one attempt
	MaxFiles           = 1_000_000
	MaxMemoryBytes     = 1 << 44
	MaxPIDs            = 1 << 22 // the kernel's own bound
	MaxCPUMillis       = 1_024_000
	MaxSubmitAttempts  = 16
	MaxCalls           = 10_000 // of one skill by a black-box parent
	MaxProblems        = 100    // that Validate returns, beside a count of the rest
	maxOutputTokensCap = 100_000_000
)

// Problem is one rule that a plan breaks. Path leads to the place, such as
// nodes[3](summarize-cwl).inputs[0].from; Summary is constant for a rule;
// Detail says what, why and the way out.
type Problem struct {
	Path    string
	Summary string
	Detail  string
}

func (p Problem) String() string { return p.Path + ": " + p.Summary + ": " + p.Detail }

// Validate returns everything that is wrong with p, sorted by place; none means
// that the executor can rely on every reference, bound and path in it. After
// MaxProblems it ends with one problem that counts the rest. It takes time
// linear in the size of the plan and never panics.
func Validate(p *Plan) []Problem {
	if p == nil {
		return []Problem{{Path: "plan", Summary: "no plan", Detail: "there is nothing to validate"}}
	}
	v := &validator{p: p, images: map[string]bool{}}
	v.index()
	v.head()
	v.bundleList()
	v.providerList()
	v.harnessList()
	v.runBudget("budget", p.Budget)
	v.worstCase()
	v.loopList()
	v.branchList()
	for i := range p.Nodes {
		v.node(i)
	}
	v.flow()
	v.toolList()
	v.packageOf()
	v.guardList()
	v.evaluation()
	return v.result()
}

type validator struct {
	p        *Plan
	problems []Problem

	bundles     map[string]*Bundle
	inputs      map[string]*Input
	providers   map[string]*Provider
	harnesses   map[string]*Harness
	tools       map[string]*Tool
	nodes       map[string]int
	loops       map[string]int
	branches    map[string]int
	loopOf      []int // of a node: index of its loop, -1 for none
	branchOf    []int // of a node: index of the branch it is an alternative of, -1 for none
	produced    map[production]*NodeOutput
	given       map[production]bool // of a branch's artifacts; node is the branch's index
	models      map[[2]string]bool  // provider and model
	credentials map[string]bool
	checksOf    map[string][]int // node, loop or branch id → indexes of its check nodes
	images      map[string]bool  // memo of ValidImage
}

type production struct {
	node     int
	artifact string
}

func (v *validator) add(summary, detail string, path ...string) {
	v.problems = append(v.problems, Problem{Path: strings.Join(path, ""), Summary: summary, Detail: detail})
}

func (v *validator) result() []Problem {
	slices.SortFunc(v.problems, func(a, b Problem) int {
		return cmp.Or(comparePaths(a.Path, b.Path), cmp.Compare(a.Summary, b.Summary), cmp.Compare(a.Detail, b.Detail))
	})
	v.problems = slices.Compact(v.problems)
	if rest := len(v.problems) - MaxProblems; rest > 0 {
		v.problems = append(v.problems[:MaxProblems:MaxProblems], Problem{
			Path: "plan", Summary: "more problems", Detail: strconv.Itoa(rest) + " more problems are not listed",
		})
	}
	return v.problems
}

// comparePaths compares numbers in paths by value.
func comparePaths(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(na, nb)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// quote makes a value of the plan safe to print, and short.
func quote(s string) string {
	if len(s) > 200 {
		return strconv.QuoteToASCII(s[:200]) + "…"
	}
	return strconv.Quote(s)
}

func at(list string, i int, id string) string {
	if !ValidID(id) && !ValidNodeID(id) {
		class, name, _ := strings.Cut(id, ":")
		if !ValidID(class) || !ValidID(name) {
			return list + "[" + strconv.Itoa(i) + "]"
		}
	}
	return list + "[" + strconv.Itoa(i) + "](" + id + ")"
}

// index collects the ids, and says which are used twice.
func (v *validator) index() {
	p := v.p
	v.bundles = byID(v, "bundles", p.Bundles, func(b *Bundle) string { return b.ID })
	v.inputs = byID(v, "inputs", p.Inputs, func(in *Input) string { return in.ID })
	v.providers = byID(v, "providers", p.Providers, func(x *Provider) string { return x.Name })
	v.harnesses = byID(v, "harnesses", p.Harnesses, func(h *Harness) string { return h.Name })
	v.tools = byID(v, "tools", p.Tools, func(t *Tool) string { return t.Name })
	v.nodes = indexes(v, "nodes", p.Nodes, func(n *Node) string { return n.ID })
	v.loops = indexes(v, "loops", p.Loops, func(l *Loop) string { return l.ID })
	v.branches = indexes(v, "branches", p.Branches, func(b *Branch) string { return b.ID })
	v.produced = map[production]*NodeOutput{}
	v.given = map[production]bool{}
	v.models = map[[2]string]bool{}
	v.checksOf = map[string][]int{}
	v.credentials = map[string]bool{}
	v.loopOf, v.branchOf = make([]int, len(p.Nodes)), make([]int, len(p.Nodes))
	for i := range p.Nodes {
		v.loopOf[i], v.branchOf[i] = -1, -1
		n := &p.Nodes[i]
		for o := range n.Outputs {
			v.produced[production{i, n.Outputs[o].Artifact}] = &n.Outputs[o]
		}
		if n.Check != nil {
			v.checksOf[n.Check.Of] = append(v.checksOf[n.Check.Of], i)
		}
	}
	for i := range p.Branches {
		for _, id := range p.Branches[i].Artifacts {
			v.given[production{i, id}] = true
		}
	}
	for i := range p.Providers {
		for _, m := range p.Providers[i].Models {
			v.models[[2]string{p.Providers[i].Name, m.ID}] = true
		}
		if c := p.Providers[i].Credential; c != "" {
			v.credentials[c] = true
		}
	}
}

// byID also requires the order of the ids: it is no property of the sources.
func byID[T any](v *validator, list string, items []T, id func(*T) string) map[string]*T {
	for i := 1; i < len(items); i++ {
		if a, b := id(&items[i-1]), id(&items[i]); a > b {
			v.add("not sorted", quote(b)+" stands after "+quote(a)+": the list is sorted by the bytes of its ids", at(list, i, b))
		}
	}
	m := make(map[string]*T, len(items))
	for name, i := range indexes(v, list, items, id) {
		m[name] = &items[i]
	}
	return m
}

func indexes[T any](v *validator, list string, items []T, id func(*T) string) map[string]int {
	m := make(map[string]int, len(items))
	for i := range items {
		name := id(&items[i])
		if first, twice := m[name]; twice {
			v.add("id used twice", quote(name)+" is also the id of "+list+"["+strconv.Itoa(first)+"]", at(list, i, name))
			continue
		}
		m[name] = i
	}
	return m
}

// sortedSet requires strictly ascending entries that satisfy valid.
func (v *validator) sortedSet(list []string, valid func(string) bool, path ...string) {
	for i, s := range list {
		where := "[" + strconv.Itoa(i) + "]"
		if !valid(s) {
			v.add("invalid name", quote(s)+" may not stand here", append(slices.Clone(path), where)...)
		}
		if i > 0 && list[i-1] >= s {
			v.add("not sorted", quote(s)+" stands after "+quote(list[i-1])+": the list is sorted by bytes, without doubles", append(slices.Clone(path), where)...)
		}
	}
}

// word requires one of a closed set of words.
func (v *validator) word(got string, words []string, path ...string) {
	if !slices.Contains(words, got) {
		v.add("unknown word", quote(got)+" is none of "+strings.Join(words, ", "), path...)
	}
}

// within requires a number in [least, most].
func (v *validator) within(got, least, most int64, path ...string) {
	if got < least || got > most {
		v.add("number out of range", fmt.Sprintf("%d is not between %d and %d: nothing in a plan is unlimited", got, least, most), path...)
	}
}

func (v *validator) name(s string, path ...string) {
	if !ValidID(s) {
		v.add("invalid name", quote(s)+" is no name: 1 to 128 of a-z, A-Z, 0-9, '.', '_' and '-', the first a letter or digit", path...)
	}
}

func (v *validator) digest(s string, path ...string) {
	if !ValidDigest(s) {
		v.add("invalid digest", quote(s)+" is not sha256: and 64 lower-case hex digits", path...)
	}
}

func (v *validator) text(s string, path ...string) {
	if fault := textFault(s); fault != "" {
		v.add("invalid text", fault, path...)
	}
}

func (v *validator) head() {
	p := v.p
	if p.FormatVersion != FormatVersion {
		v.add("wrong format version", fmt.Sprintf("it is %d, this program reads %d: compile the policy again", p.FormatVersion, FormatVersion), "format_version")
	}
	v.word(p.Mode, modes, "mode")
	v.word(p.Order, orders, "order")
	v.name(p.Pipeline.Name, "pipeline.name")
	if p.Pipeline.SourceRevision < 0 {
		v.add("number out of range", "a revision is not below 0", "pipeline.source_revision")
	}
	v.sortedSet(p.Pipeline.Options, ValidID, "pipeline.options")
	v.digest(p.Pipeline.Digest, "pipeline.digest")
	if p.Pipeline.Scenario != "" {
		v.name(p.Pipeline.Scenario, "pipeline.scenario")
	}
	if len(p.Nodes) == 0 {
		v.add("nothing to do", "a plan has at least one node", "nodes")
	}
	if len(p.Nodes) > MaxNodes {
		v.add("number out of range", fmt.Sprintf("%d nodes are more than %d", len(p.Nodes), MaxNodes), "nodes")
	}
	for i := range p.Inputs {
		in := &p.Inputs[i]
		where := at("inputs", i, in.ID)
		v.name(in.ID, where, ".id")
		v.bundle(in.Bundle, []string{BundleInput}, where, ".bundle")
		v.word(in.Kind, kinds, where, ".kind")
		switch {
		case in.Kind == KindDirectory && in.Filename != "":
			v.add("misplaced filename", "a folder has none: its bundle is mounted whole", where, ".filename")
		case in.Kind != KindDirectory && (!ValidPath(in.Filename) || strings.Contains(in.Filename, "/")):
			v.add("invalid filename", quote(in.Filename)+" is no base name of a file", where, ".filename")
		case in.Kind != KindDirectory && v.bundles[in.Bundle] != nil && !holds(v.bundles[in.Bundle], in.Filename):
			v.add("dangling reference", quote(in.Filename)+" is no file of "+in.Bundle, where, ".filename")
		}
	}
}

// holds reports whether a bundle, whose files are sorted, has a file of a path.
func holds(b *Bundle, path string) bool {
	i, ok := slices.BinarySearchFunc(b.Files, path, func(f BundleFile, path string) int { return strings.Compare(f.Path, path) })
	return ok && b.Files[i].Mode != ModeDir
}

// The words of the format; the JSON Schema has the same.
var (
	modes      = []string{ModeTrace, ModeBlackBox}
	orders     = []string{OrderAssembly, OrderDataflow}
	kinds      = []string{KindJSON, KindYAML, KindMarkdown, KindText, KindFile, KindDirectory, KindProvenance}
	fileModes  = []string{ModeRegular, ModeExecutable, ModeDir}
	nodeKinds  = []string{NodeAgent, NodeCheck, NodeJudge, NodeParent}
	required   = []string{RequiredAlways, RequiredAtEnd, Optional}
	sandboxes  = []string{SandboxLocal, SandboxContainer}
	networks   = []string{NetworkNone, NetworkProvider, NetworkEgress, NetworkBridge}
	mountModes = []string{MountReadOnly, MountReadWrite}
	toolWays   = []string{ToolImage, ToolSchema, ToolUnavailable}
	verdicts   = []string{GuardPass, GuardWarn, GuardFail}
	properties = []string{PropertyDeterministic, PropertyJudged}
	requires   = []string{"all", "supported"}
	unknowns   = []string{UnknownFail, UnknownWarn}
	sources    = []string{FactOutput, FactCheck, FactIteration, FactWorker}
	literals   = []string{TypeString, TypeNumber, TypeBool, TypeNull}
	classes    = []string{BundleSkill, BundleSchema, BundleInput, BundleRecorded, BundlePackage, BundleOracle, BundleScript}
)

func (v *validator) providerList() {
	for i := range v.p.Providers {
		x := &v.p.Providers[i]
		where := at("providers", i, x.Name)
		v.name(x.Name, where, ".name")
		v.name(x.API, where, ".api")
		if x.BaseURL != "" {
			u, err := url.Parse(x.BaseURL)
			if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || textFault(x.BaseURL) != "" {
				v.add("invalid address", "a base_url is http or https with a host, and without user, query or fragment", where, ".base_url")
			}
		}
		if x.Credential != "" && !credentialForm.MatchString(x.Credential) {
			v.add("invalid name", "a credential is named like an environment variable, and only its name stands in a plan", where, ".credential")
		}
		v.providerScript(x, where)
		for m := range x.Models {
			model := &x.Models[m]
			at := where + ".models[" + strconv.Itoa(m) + "]"
			if model.ID == "" || len(model.ID) > 256 {
				v.add("invalid name", quote(model.ID)+" is no id of a model: 1 to 256 bytes", at, ".id")
			}
			v.text(model.ID, at, ".id")
			if m > 0 && x.Models[m-1].ID >= model.ID {
				v.add("not sorted", "models are sorted by the bytes of their ids, without doubles", at, ".id")
			}
			v.within(model.MaxOutput, 1, maxOutputTokensCap, at, ".max_output_tokens")
			for _, price := range []struct{ key, value string }{
				{"input", model.Price.Input}, {"output", model.Price.Output},
				{"cache_read", model.Price.CacheRead}, {"cache_write", model.Price.CacheWrite},
			} {
				if !ValidDecimal(price.value) || price.value[0] == '-' {
					v.add("invalid price", quote(price.value)+" is no canonical decimal number of at least 0", at, ".price_usd_per_million_tokens.", price.key)
				}
			}
		}
	}
}

// providerScript: a scripted provider is one file of the plan, and reaches
// nobody.
func (v *validator) providerScript(x *Provider, where string) {
	if x.Script == "" {
		return
	}
	b := v.bundles[x.Script]
	switch {
	case b == nil || !strings.HasPrefix(x.Script, BundleScript+":"):
		v.add("dangling reference", "there is no bundle "+quote(x.Script)+" of class "+BundleScript, where, ".script")
	case len(b.Files) != 1 || b.Files[0].Mode == ModeDir:
		v.add("misplaced content", "the bundle "+x.Script+" is not one file", where, ".script")
	}
	if x.BaseURL != "" {
		v.add("misplaced content", "a scripted provider reaches nobody, and has no base_url", where, ".base_url")
	}
}

func (v *validator) harnessList() {
	for i := range v.p.Harnesses {
		h := &v.p.Harnesses[i]
		where := at("harnesses", i, h.Name)
		v.name(h.Name, where, ".name")
		v.name(h.Adapter, where, ".adapter")
		if h.Version == "" || len(h.Version) > 128 {
			v.add("no version", "a harness pins the version of its agent", where, ".version")
		}
		v.text(h.Version, where, ".version")
		if h.Thinking != "" {
			v.name(h.Thinking, where, ".thinking")
		}
		if h.AuthStore != "" {
			v.name(h.AuthStore, where, ".auth_store")
		}
		v.sortedSet(h.Tools, func(s string) bool { return s != "" && len(s) <= 256 && textFault(s) == "" }, where, ".tools")
		x := v.providers[h.Provider]
		switch {
		case h.Provider == "" && h.Model != "":
			v.add("dangling reference", "a model needs a provider", where, ".model")
		case h.Provider != "" && x == nil:
			v.add("dangling reference", "there is no provider "+quote(h.Provider), where, ".provider")
		case x != nil && !v.models[[2]string{h.Provider, h.Model}]:
			v.add("dangling reference", "the provider "+h.Provider+" has no model "+quote(h.Model), where, ".model")
		}
	}
}

func (v *validator) runBudget(where string, b RunBudget) {
	v.within(b.WallSeconds, 1, MaxWallSeconds, where, ".wall_seconds")
	v.within(b.CostMicroUSD, 1, MaxRunCost, where, ".cost_micro_usd")
	v.within(b.Tokens, 1, MaxRunTokens, where, ".tokens")
	v.word(b.Unknown, unknowns, where, ".unknown")
}

func (v *validator) worstCase() {
	w, b := v.p.WorstCase, v.p.Budget
	for _, c := range []struct {
		key                    string
		capped, uncapped, most int64
	}{
		{"cost_micro_usd", w.CostMicroUSD, w.UncappedCostMicroUSD, b.CostMicroUSD},
		{"wall_seconds", w.WallSeconds, w.UncappedWallSeconds, b.WallSeconds},
		{"tokens", w.Tokens, w.UncappedTokens, b.Tokens},
	} {
		switch {
		case c.capped < 0 || c.uncapped < 0:
			v.add("number out of range", "a worst case is not below 0", "worst_case.", c.key)
		case c.capped > c.uncapped:
			v.add("wrong worst case", "with the run's cap it is more than without", "worst_case.", c.key)
		case c.capped > c.most:
			v.add("wrong worst case", "with the run's cap it is more than the cap", "worst_case.", c.key)
		}
	}
}
