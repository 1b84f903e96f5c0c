package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// ParseYAML reads one YAML document with the types of the YAML 1.2 core
// schema: "yes" and dates are strings, "010" is ten. An empty document is
// Null. An error is an *Error.
//
// Refused, because readers differ: more than one document, a byte order mark,
// keys that are no strings, a key twice or in two letter cases, merge keys
// ("<<"), tags beyond the core schema, infinities and NaN, and the characters
// that YAML 1.1 takes for line breaks and YAML 1.2 does not.
//
// Aliases are expanded and each copy counts for Limits.Values. Before parsing,
// the characters that can begin a value (", : [ {", and "-" and "?" before a
// space) are counted too: at most an eighth of Limits.Values, because the
// library builds a tree of its own, of about 1.2 KB for each of them.
func ParseYAML(data []byte, l Limits) (v *Value, err error) {
	l = l.withDefaults()
	if err := checkYAMLText(data, l); err != nil {
		return nil, err
	}
	// The library reports bad input as an error. Should it panic on some, that
	// must not end a run: the bytes are a worker's.
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, &Error{Msg: fmt.Sprintf("the YAML parser failed: %v", r)}
		}
	}()
	root, loadErr := loadYAML(data, l)
	if loadErr != nil {
		return nil, loadErr
	}
	p := yamlParser{src: data, limits: l, line: 1, open: map[*yaml.Node]bool{}}
	if root == nil {
		return &Value{Pos: Pos{Line: 1, Column: 1}}, nil
	}
	doc, docErr := p.value(root, 0)
	if docErr != nil {
		return nil, docErr
	}
	return doc, nil
}

// valuesPerMark keeps the memory of the library in the range of our own tree's.
const valuesPerMark = 8

func checkYAMLText(data []byte, l Limits) error {
	if err := checkText(data, l, "YAML"); err != nil {
		return err
	}
	line, lineStart, marks := 1, 0, 0
	for i, c := range data {
		switch c {
		case '\n':
			line, lineStart = line+1, i+1
		case ',', ':', '[', '{':
			marks++
		case '\t', '\r':
		case '-', '?':
			if i+1 == len(data) || strings.IndexByte(" \t\r\n", data[i+1]) >= 0 {
				marks++
			}
		case 0xC2, 0xE2:
			switch r, _ := utf8.DecodeRune(data[i:]); r {
			case '\u0085', '\u2028', '\u2029':
				return &Error{Line: line, Column: i - lineStart + 1, Msg: fmt.Sprintf("the character %U is a line break to some readers only", r),
					Hint: fmt.Sprintf("write it as \"\\u%04X\" in double quotes", r)}
			}
		default:
			if c < 0x20 {
				return &Error{Line: line, Column: i - lineStart + 1, Msg: fmt.Sprintf("the control character 0x%02X", c), Hint: "write it as an escape in double quotes, such as \"\\x01\""}
			}
		}
	}
	if most := max(l.Values/valuesPerMark, 1000); marks > most {
		return &Error{Msg: fmt.Sprintf("the document has %d characters that can begin a value, more than %d", marks, most), Hint: "write data of this size as JSON"}
	}
	return nil
}

// depthLimit bounds nesting while the library scans, before it recurses.
type depthLimit int

func (d depthLimit) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > int(d) {
		return fmt.Errorf("arrays and objects are nested deeper than %d", int(d))
	}
	return nil
}

// CheckAlias has nothing to do: the library expands no alias into a Node.
func (depthLimit) CheckAlias(int, int) error { return nil }

// loadYAML returns the root of the one document, nil for an empty one.
func loadYAML(data []byte, l Limits) (*yaml.Node, *Error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(depthLimit(l.Depth)))
	if err != nil {
		return nil, &Error{Msg: "the YAML parser does not start: " + err.Error()}
	}
	var doc, second yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, yamlError(data, err)
	}
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, yamlError(data, err)
	default:
		return nil, &Error{Line: second.Line, Column: 1, Msg: "a second document follows", Hint: "the artifact must be one YAML document"}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	return doc.Content[0], nil
}

func yamlError(data []byte, err error) *Error {
	load, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return &Error{Msg: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	e := &Error{Msg: load.Message}
	if load.Mark.Line > 0 {
		p := yamlParser{src: data, line: 1}
		pos := p.pos(&yaml.Node{Line: load.Mark.Line, Column: load.Mark.Column})
		e.Line, e.Column = pos.Line, pos.Column
		if pos.Offset < len(data) && data[pos.Offset] == '\t' {
			e.Hint = "YAML is indented with spaces, not with tabs"
		}
	}
	if load.ContextMsg != "" {
		e.Msg = load.ContextMsg + ": " + e.Msg
	}
	return e
}

type yamlParser struct {
	src    []byte
	limits Limits
	values int
	open   map[*yaml.Node]bool // anchored nodes that are being expanded
	alias  *Pos                // the place of the alias that is being expanded

	// The last place that was converted: nodes come in the order of the text,
	// so each byte is passed once.
	line, column, offset, lineStart int
}

func (p *yamlParser) fail(n *yaml.Node, msg, hint string) *Error {
	pos := p.pos(n)
	return &Error{Line: pos.Line, Column: pos.Column, Msg: msg, Hint: hint}
}

// pos gives the place of n. The library counts columns in characters.
func (p *yamlParser) pos(n *yaml.Node) Pos {
	if p.alias != nil {
		return *p.alias
	}
	if n.Line < p.line { // not in the order of the text: start again
		p.line, p.column, p.offset, p.lineStart = 1, 0, 0, 0
	}
	for p.line < n.Line {
		next := bytes.IndexAny(p.src[p.offset:], "\r\n")
		if next < 0 {
			break
		}
		p.offset += next + 1
		if p.src[p.offset-1] == '\r' && p.offset < len(p.src) && p.src[p.offset] == '\n' {
			p.offset++
		}
		p.line, p.column, p.lineStart = p.line+1, 0, p.offset
	}
	for ; p.column+1 < n.Column && p.offset < len(p.src); p.column++ {
		_, size := utf8.DecodeRune(p.src[p.offset:])
		p.offset += size
	}
	for ; p.column+1 > n.Column && p.offset > p.lineStart; p.column-- {
		_, size := utf8.DecodeLastRune(p.src[:p.offset])
		p.offset -= size
	}
	return Pos{Line: p.line, Column: p.offset - p.lineStart + 1, Offset: p.offset}
}

func (p *yamlParser) value(n *yaml.Node, depth int) (*Value, *Error) {
	if n.Kind == yaml.AliasNode {
		return p.expand(n, depth)
	}
	if p.values++; p.values > p.limits.Values {
		return nil, p.fail(n, fmt.Sprintf("the document has more than %d values, aliases expanded", p.limits.Values), "")
	}
	if n.Kind == yaml.ScalarNode {
		return p.scalar(n)
	}
	if depth >= p.limits.Depth {
		return nil, p.fail(n, fmt.Sprintf("arrays and objects are nested deeper than %d", p.limits.Depth), "")
	}
	if n.Anchor != "" {
		p.open[n] = true
		defer delete(p.open, n)
	}
	v := &Value{Pos: p.pos(n)}
	switch n.Kind {
	case yaml.SequenceNode:
		v.Kind = Array
		if err := p.tag(n, "!!seq"); err != nil {
			return nil, err
		}
		for _, c := range n.Content {
			item, err := p.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, item)
		}
		return v, nil
	case yaml.MappingNode:
		v.Kind = Object
		if err := p.tag(n, "!!map"); err != nil {
			return nil, err
		}
		return v, p.members(v, n, depth)
	default:
		return nil, p.fail(n, fmt.Sprintf("a node of an unknown kind (%d)", n.Kind), "")
	}
}

// expand copies what an alias stands for. The copies have the alias' place.
func (p *yamlParser) expand(n *yaml.Node, depth int) (*Value, *Error) {
	if n.Alias == nil || p.open[n.Alias] {
		return nil, p.fail(n, fmt.Sprintf("the alias %s stands within what it names", quote("*"+n.Value)), "a document cannot hold itself")
	}
	if p.alias == nil {
		pos := p.pos(n)
		p.alias = &pos
		defer func() { p.alias = nil }()
	}
	return p.value(n.Alias, depth)
}

func (p *yamlParser) members(v *Value, n *yaml.Node, depth int) *Error {
	var keys keySet
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		keyPos := p.pos(k)
		if k.Kind == yaml.AliasNode && k.Alias != nil {
			k = k.Alias
		}
		key, err := p.key(k)
		if err != nil {
			err.Line, err.Column = keyPos.Line, keyPos.Column
			return err
		}
		v.Members = append(v.Members, Member{Key: key, KeyPos: keyPos})
		if err := keys.add(v.Members); err != nil {
			return err
		}
		if v.Members[len(v.Members)-1].Value, err = p.value(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (p *yamlParser) key(k *yaml.Node) (string, *Error) {
	if k.Kind != yaml.ScalarNode {
		return "", &Error{Msg: "an array or object as a key", Hint: "keys must be strings"}
	}
	if k.Value == "<<" && plain(k) && k.Style&yaml.TaggedStyle == 0 || k.Style&yaml.TaggedStyle != 0 && k.Tag == "!!merge" {
		return "", &Error{Msg: "a merge key (\"<<\")", Hint: "YAML 1.2 has none and readers differ: write the members out"}
	}
	v, err := p.scalar(k)
	if err != nil {
		return "", err
	}
	if v.Kind != String {
		return "", &Error{Msg: fmt.Sprintf("the key %s is a %s", quote(k.Value), v.Kind), Hint: "keys must be strings: put it in quotes"}
	}
	return v.Str, nil
}

// tag refuses an explicit tag other than want.
func (p *yamlParser) tag(n *yaml.Node, want string) *Error {
	if n.Style&yaml.TaggedStyle == 0 || n.Tag == want {
		return nil
	}
	return p.fail(n, fmt.Sprintf("the tag %s", quote(n.Tag)), "only the tags of the core schema that fit the value are allowed; leave it out")
}

func plain(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

// The scalars of the YAML 1.2 core schema (10.3.2).
var (
	coreNumber    = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
	coreOctal     = regexp.MustCompile(`^0o[0-7]+$`)
	coreHex       = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	coreNotFinite = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
	coreInteger   = regexp.MustCompile(`^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
)

func (p *yamlParser) scalar(n *yaml.Node) (*Value, *Error) {
	v := &Value{Kind: String, Str: n.Value, Pos: p.pos(n)}
	tagged := n.Style&yaml.TaggedStyle != 0
	// "!" alone says: not resolved, a string.
	if tagged && n.Tag == "!!str" || !tagged && (!plain(n) || n.Tag == "!") {
		return v, nil
	}
	if err := p.resolve(v, n); err != nil || !tagged {
		return v, err
	}
	fits := false
	switch n.Tag {
	case "!!null":
		fits = v.Kind == Null
	case "!!bool":
		fits = v.Kind == Bool
	case "!!int":
		fits = v.Kind == Number && coreInteger.MatchString(n.Value)
	case "!!float":
		fits = v.Kind == Number && coreNumber.MatchString(n.Value)
	}
	if !fits {
		return nil, p.tag(n, "")
	}
	return v, nil
}

// resolve sets the type that the core schema gives the text of n.
func (p *yamlParser) resolve(v *Value, n *yaml.Node) *Error {
	number := n.Value
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		v.Kind, v.Str = Null, ""
		return nil
	case "true", "True", "TRUE", "false", "False", "FALSE":
		v.Kind, v.Str, v.Bool = Bool, "", n.Value[0] == 't' || n.Value[0] == 'T'
		return nil
	}
	if coreNotFinite.MatchString(n.Value) {
		return p.fail(n, fmt.Sprintf("the number %s is not finite", quote(n.Value)), "put it in quotes if it is text")
	}
	switch {
	case coreNumber.MatchString(n.Value):
	case coreOctal.MatchString(n.Value) || coreHex.MatchString(n.Value):
		if len(n.Value) > MaxDigits/2 { // hex digits are worth more than decimal ones
			return p.fail(n, fmt.Sprintf("a number of more than %d digits", MaxDigits/2), "")
		}
		i, _ := new(big.Int).SetString(n.Value, 0)
		number = i.String()
	default:
		return nil
	}
	canonical, err := CanonicalNumber(number)
	if err != nil {
		return p.fail(n, err.Error(), "put it in quotes if it is no number to count with")
	}
	v.Kind, v.Str, v.Number = Number, "", canonical
	return nil
}
