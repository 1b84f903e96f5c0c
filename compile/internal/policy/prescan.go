package policy

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"foundry/compile/internal/diag"
)

// Bounds on the shape of a file, checked before hcl's parser sees it: parser
// and evaluator recurse, and a stack that is exhausted ends the process (at
// 70,000 brackets, measured). A real policy nests 10 deep.
const (
	maxNesting = 100       // brackets, blocks and templates within each other
	maxChain   = 1000      // operators, dots and indexes since the last comma or line
	maxDepth   = 4000      // nesting and chains along one path through the tree
	maxWords   = 2_000_000 // words and signs of all files: what lexing costs memory for
	maxDigits  = 100       // characters of a number
	maxExp     = 30        // its exponent, either sign
)

// prescan reports whether src may be parsed. What it finds that does not
// endanger the parser is reported and does not stop it.
func prescan(name string, src []byte, words *int, d *diag.List) bool {
	if i := invalidUTF8(src); i >= 0 {
		d.Errorat(byteRange(name, src, i), "Not UTF-8", fmt.Sprintf("Byte %d (0x%02x) is no UTF-8. Save the file as UTF-8.", i, src[i]))
		return false
	}
	if i := bytes.Index(src, []byte("\uFEFF")); i >= 0 {
		d.Errorat(byteRange(name, src, i), "Byte order mark", "A byte order mark (U+FEFF) may stand at the start of a file only. Two files were perhaps put together; take it out.")
		return false
	}
	if *words += countWords(src); *words > maxWords {
		d.Errorat(diag.Range{File: name}, "Policy too large", fmt.Sprintf("All files of a policy may have at most %d words and signs together.", maxWords))
		return false
	}
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // its diagnostics come again from the parser
	s := scanner{levels: make([]level, 1, 16)}
	for i := range tokens {
		if summary, detail := s.token(&tokens[i], d); summary != "" {
			d.Errorat(At(tokens[i].Range), summary, detail)
			return false
		}
	}
	return true
}

// level is one open bracket, quote or interpolation.
type level struct {
	close hclsyntax.TokenType
	chain int
}

type scanner struct {
	levels []level
	depth  int // sum of the chains, and the levels
}

// token takes the next token; a summary means that the file is refused.
func (s *scanner) token(t *hclsyntax.Token, d *diag.List) (summary, detail string) {
	top := &s.levels[len(s.levels)-1]
	switch t.Type {
	case hclsyntax.TokenOParen:
		return s.open(hclsyntax.TokenCParen)
	case hclsyntax.TokenOBrack:
		return s.open(hclsyntax.TokenCBrack)
	case hclsyntax.TokenOBrace:
		return s.open(hclsyntax.TokenCBrace)
	case hclsyntax.TokenOQuote:
		return s.open(hclsyntax.TokenCQuote)
	case hclsyntax.TokenOHeredoc:
		return s.open(hclsyntax.TokenCHeredoc)
	case hclsyntax.TokenTemplateInterp:
		return s.open(hclsyntax.TokenTemplateSeqEnd)
	case hclsyntax.TokenTemplateControl:
		d.Errorat(At(t.Range), "Template directive", "Text in a policy has no directives such as %{if} and %{for}: write a conditional or a for expression, or a local. To keep %{ as it is, write %%{.")
		top.chain++ // nests until its end, which is not worth finding
		s.depth++
		if summary, detail = s.bounded(); summary != "" {
			return summary, detail
		}
		return s.open(hclsyntax.TokenTemplateSeqEnd)
	case hclsyntax.TokenCParen, hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
		// A closer that fits nothing leaves its level open: the count may then
		// be too high, never too low.
		if len(s.levels) > 1 && top.close == t.Type {
			s.depth -= top.chain + 1
			s.levels = s.levels[:len(s.levels)-1]
		}
	case hclsyntax.TokenComma:
		s.reset(top)
	case hclsyntax.TokenNewline:
		if top.close == 0 || top.close == hclsyntax.TokenCBrace {
			s.reset(top)
		}
	case hclsyntax.TokenNumberLit:
		return number(t.Bytes)
	case hclsyntax.TokenIdent:
		if c := firstNonASCII(t.Bytes); c != 0 {
			d.Errorat(At(t.Range), "Look-alike name", fmt.Sprintf("The name %q holds U+%04X. Names are ASCII letters, digits, '_' and '-', so that two names that look alike are one.", t.Bytes, c))
		}
	case hclsyntax.TokenDot, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenPercent,
		hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
		hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang, hclsyntax.TokenQuestion, hclsyntax.TokenColon, hclsyntax.TokenDoubleColon, hclsyntax.TokenFatArrow:
		top.chain++
		s.depth++
		return s.bounded()
	}
	return "", ""
}

// open enters a bracket that ends with c.
func (s *scanner) open(c hclsyntax.TokenType) (summary, detail string) {
	if top := &s.levels[len(s.levels)-1]; top.close != hclsyntax.TokenCQuote && top.close != hclsyntax.TokenCHeredoc {
		top.chain++ // an index or a call is a step of the chain around it
		s.depth++
	}
	s.levels = append(s.levels, level{close: c})
	s.depth++
	if len(s.levels)-1 > maxNesting {
		return "Nested too deeply", fmt.Sprintf("Brackets, blocks and templates may nest %d deep. Give the inner parts names as locals.", maxNesting)
	}
	return s.bounded()
}

// reset starts a new expression.
func (s *scanner) reset(top *level) {
	s.depth -= top.chain
	top.chain = 0
}

func (s *scanner) bounded() (summary, detail string) {
	if s.levels[len(s.levels)-1].chain > maxChain || s.depth > maxDepth {
		return "Expression too long", fmt.Sprintf("One expression may have at most %d operators, dots and indexes in a row. Give parts of it names as locals.", maxChain)
	}
	return "", ""
}

// number checks a number literal: big numbers cost minutes once they are
// written out.
func number(lit []byte) (summary, detail string) {
	if len(lit) > maxDigits {
		return "Number too long", fmt.Sprintf("A number may have at most %d characters.", maxDigits)
	}
	if i := bytes.IndexAny(lit, "eE"); i >= 0 {
		exp, err := strconv.Atoi(string(lit[i+1:]))
		if err != nil || exp > maxExp || exp < -maxExp {
			return "Number out of range", fmt.Sprintf("The exponent of a number is from -%d to %d. A limit that is never reached is no limit: write the number that is meant.", maxExp, maxExp)
		}
	}
	return "", ""
}

// countWords counts the words and signs of src, which bounds the number of
// its tokens but for one each at a line and at the end.
func countWords(src []byte) int {
	n, inWord := 0, false
	for _, c := range src {
		switch {
		case c == ' ' || c == '\t':
			inWord = false
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80:
			if !inWord {
				n++
				inWord = true
			}
		default:
			n++
			inWord = false
		}
	}
	return n
}

func invalidUTF8(src []byte) int {
	if utf8.Valid(src) {
		return -1
	}
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return -1
}

func firstNonASCII(b []byte) rune {
	for i, c := range b {
		if c >= utf8.RuneSelf {
			r, _ := utf8.DecodeRune(b[i:])
			return r
		}
	}
	return 0
}

// byteRange is the place of byte i, with the column counted in bytes.
func byteRange(name string, src []byte, i int) diag.Range {
	line := 1 + bytes.Count(src[:i], []byte("\n"))
	col := i - (bytes.LastIndexByte(src[:i], '\n') + 1) + 1
	return diag.Range{File: name,
		Start: diag.Pos{Line: line, Column: col, Byte: i},
		End:   diag.Pos{Line: line, Column: col + 1, Byte: i + 1}}
}
