package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"foundry/compile/internal/diag"
)

// attrSpec is one attribute of a block in the table of words.
type attrSpec struct {
	name, kind, doc string
	required        bool
	set             func(d *decoder, target any, a *hclsyntax.Attribute)
}

// blockSpec is one block in the table of words.
type blockSpec struct {
	name, doc string
	label     labelKind
	anyAttrs  bool // its attributes are the policy's own names
	attrs     []attrSpec
	blocks    []*blockSpec
	// open makes the block's value within that of its parent, nil when the
	// block was read before or cannot stand here.
	open func(d *decoder, parent any, label string, at diag.Range) any
	// check says what is wrong with the whole block.
	check func(d *decoder, target any, at diag.Range)
}

// labelKind says what a block's label is; a block without one stands once.
type labelKind struct {
	kind  string
	valid func(string) bool
}

var noLabel = labelKind{}

// decoder walks the bodies along the table.
type decoder struct {
	ev     *eval
	diags  *diag.List
	dir    string // folder of the file under way, for paths
	top    map[string]diag.Range
	failed bool
	// stopped: maxDiags was reached.
	stopped bool
	broken  []diag.Range // syntax errors of the file under way
	todos   bool         // the file under way may hold open decisions
}

// maxDiags bounds what one policy may print; past it nothing new is decoded.
const maxDiags = 1000

// full reports that enough was said, once.
func (d *decoder) full(at diag.Range) bool {
	if len(*d.diags) < maxDiags || !d.diags.HasErrors() {
		return false
	}
	if !d.stopped {
		d.stopped = true
		d.diags.Errorat(at, "Too many errors", fmt.Sprintf("There are %d and more errors; what follows this place was not looked at.", maxDiags))
	}
	return true
}

func (d *decoder) errorf(at diag.Range, summary, format string, args ...any) {
	d.failed = true
	if d.full(at) {
		return
	}
	d.diags.Errorat(at, summary, fmt.Sprintf(format, args...))
}

// body decodes one body into target. what names the block in a message; seen
// holds what a multi-file body has
// already; nil makes a new one where it is needed.
func (d *decoder) body(spec *blockSpec, target any, body *hclsyntax.Body, header diag.Range, what string, seen map[string]diag.Range) {
	found := 0
	for i := range spec.attrs {
		as := &spec.attrs[i]
		a := body.Attributes[as.name]
		if a == nil {
			if as.required && len(d.broken) == 0 {
				d.errorf(header, "Missing attribute", "%s needs %q: %s.", what, as.name, as.doc)
			}
			continue
		}
		found++
		if seen != nil && as.name != "include" && d.twice(seen, "", as.name, At(a.NameRange)) {
			continue
		}
		if len(d.broken) > 0 && d.half(a) {
			continue
		}
		if d.open(as, a) {
			continue
		}
		as.set(d, target, a)
	}
	if found < len(body.Attributes) && !spec.anyAttrs {
		d.unknownAttrs(spec, body)
	}
	if len(body.Blocks) > 1 && seen == nil {
		seen = make(map[string]diag.Range, len(body.Blocks))
	}
	for _, b := range body.Blocks {
		if len(*d.diags) > 0 && d.full(At(b.TypeRange)) {
			return
		}
		d.block(spec, target, b, seen)
	}
}

// half reports whether a syntax error lies in an attribute.
func (d *decoder) half(a *hclsyntax.Attribute) bool {
	at := At(a.SrcRange)
	return slices.ContainsFunc(d.broken, func(b diag.Range) bool {
		return b.Start.Byte <= at.End.Byte && b.End.Byte >= at.Start.Byte
	})
}

// block decodes one block of a body.
func (d *decoder) block(parent *blockSpec, target any, b *hclsyntax.Block, seen map[string]diag.Range) {
	at := At(b.DefRange())
	var spec *blockSpec
	for _, s := range parent.blocks {
		if s.name == b.Type {
			spec = s
			break
		}
	}
	if spec == nil {
		d.unknownBlock(parent, b)
		return
	}
	label, ok := d.label(spec, b, at)
	if !ok {
		return
	}
	if seen != nil && !spec.anyAttrs && d.twice(seen, b.Type, label, at) {
		return
	}
	t := spec.open(d, target, label, at)
	if t == nil {
		return
	}
	before := d.failed
	d.failed = false
	d.body(spec, t, b.Body, at, named(spec, label), nil)
	if spec.check != nil && !d.failed && len(d.broken) == 0 { // on half a block it would guess
		spec.check(d, t, at)
	}
	d.failed = d.failed || before
}

// twice remembers a block or, with an empty type, an attribute; true when it
// was there before, which is then reported.
func (d *decoder) twice(seen map[string]diag.Range, kind, name string, at diag.Range) bool {
	key := kind + "\x00" + name
	first, there := seen[key]
	if !there {
		seen[key] = at
		return false
	}
	what := fmt.Sprintf("attribute %q", name)
	switch {
	case kind != "" && name != "":
		what = fmt.Sprintf("block %s %q", kind, name)
	case kind != "":
		what = fmt.Sprintf("block %q", kind)
	}
	d.errorf(at, "Written twice", "The %s stands in %s, line %d, already. It is written once, in one place: no later file overrides an earlier one. Take one of the two out.", what, first.File, first.Start.Line)
	return true
}

// label checks the labels of a block.
func (d *decoder) label(spec *blockSpec, b *hclsyntax.Block, at diag.Range) (string, bool) {
	if spec.label.kind == "" {
		if len(b.Labels) > 0 {
			d.errorf(At(b.LabelRanges[0]), "Wrong label", "%s has no label: write %s { … }.", where(spec), spec.name)
			return "", false
		}
		return "", true
	}
	switch {
	case len(b.Labels) == 0:
		d.errorf(at, "Wrong label", "%s has one label, %s: write %s \"NAME\" { … }.", where(spec), spec.label.kind, spec.name)
		return "", false
	case len(b.Labels) > 1:
		d.errorf(At(b.LabelRanges[1]), "Wrong label", "%s has one label, %s.", where(spec), spec.label.kind)
		return "", false
	case !spec.label.valid(b.Labels[0]):
		d.errorf(At(b.LabelRanges[0]), "Invalid name", "%q cannot be %s: names have 1 to 128 of the ASCII letters, digits, '.', '_' and '-', and start with a letter or digit%s.", b.Labels[0], spec.label.kind, more(spec.label))
		return "", false
	}
	d.openLabel(spec, b)
	return b.Labels[0], true
}

func more(l labelKind) string {
	switch l.kind {
	case phaseLabel.kind, loopLabel.kind, branchLabel.kind:
		return "; NAME#2 is the second phase of one skill"
	case modelLabel.kind:
		return "; the name of a model may hold '/', ':', '@' and '+' too"
	}
	return ""
}

func (d *decoder) unknownAttrs(spec *blockSpec, body *hclsyntax.Body) {
	names := make([]string, len(spec.attrs))
	for i, a := range spec.attrs {
		names[i] = a.name
	}
	for _, name := range sortedKeys(body.Attributes) {
		if slices.Contains(names, name) {
			continue
		}
		at := At(body.Attributes[name].NameRange)
		if d.full(at) {
			return
		}
		if i := slices.IndexFunc(spec.blocks, func(b *blockSpec) bool { return b.name == name }); i >= 0 {
			d.errorf(at, "Unknown word", "%q is a block, not an attribute: write %s { … } without the equals sign.", name, strings.TrimSpace(name+" "+labelForm(spec.blocks[i])))
			continue
		}
		d.errorf(at, "Unknown word", "%s has no attribute %q.%s", where(spec), name, suggest(spec, name, names))
	}
}

func (d *decoder) unknownBlock(spec *blockSpec, b *hclsyntax.Block) {
	names := make([]string, len(spec.blocks))
	for i, s := range spec.blocks {
		names[i] = s.name
	}
	at := At(b.TypeRange)
	if slices.ContainsFunc(spec.attrs, func(a attrSpec) bool { return a.name == b.Type }) {
		d.errorf(at, "Unknown word", "%q is an attribute, not a block: write %s = …", b.Type, b.Type)
		return
	}
	d.errorf(at, "Unknown word", "%s has no block %q.%s", where(spec), b.Type, suggest(spec, b.Type, names))
}

// suggest names the nearest word of one kind, else all of that kind.
func suggest(spec *blockSpec, word string, names []string) string {
	if s := diag.DidYouMean(word, names); s != "" {
		return s
	}
	var all []string
	for _, a := range spec.attrs {
		all = append(all, a.name)
	}
	for _, b := range spec.blocks {
		all = append(all, b.name)
	}
	if s := diag.DidYouMean(word, all); s != "" {
		return s
	}
	hint := " It has: " + diag.OneOf(all) + "."
	if homes := homesOf(word); len(homes) > 0 {
		hint = fmt.Sprintf(" %q is a word of %s.", word, strings.Join(homes, ", ")) + hint
	}
	return hint
}

// homesOf lists the blocks that have a word.
func homesOf(word string) []string {
	var homes []string
	for _, w := range Words() {
		if home, found := strings.CutSuffix(w.Path, "."+word); found && !slices.Contains(homes, home) {
			homes = append(homes, home)
		} else if w.Path == word {
			homes = append(homes, "the policy itself")
		}
	}
	return homes
}

func where(spec *blockSpec) string {
	if spec.name == "" {
		return "A policy"
	}
	return strings.ToUpper(aWord(spec.name)[:1]) + aWord(spec.name)[1:] + " block"
}

// named is a block with its label, as a message names it.
func named(spec *blockSpec, label string) string {
	if label == "" {
		return where(spec)
	}
	return fmt.Sprintf("The %s %q", spec.name, label)
}

func aWord(s string) string {
	if strings.IndexByte("aeiou", s[0]) >= 0 {
		return "an " + s
	}
	return "a " + s
}

func labelForm(b *blockSpec) string {
	if b.label.kind == "" {
		return ""
	}
	return `"NAME"`
}
