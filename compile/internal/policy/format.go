package policy

import (
	"bytes"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"foundry/compile/internal/diag"
)

// maxRounds bounds how often the layout is made anew: hcl's formatter needs a
// second look at some comments, and never more, as far as is known.
const maxRounds = 8

// Format lays a policy file out: line feeds, two spaces, equals signs in
// columns, one line feed at the end. Nothing but space between words changes.
// It returns nil when the file has errors, or when that cannot be kept.
func Format(name string, src []byte) ([]byte, diag.List) {
	var d diag.List
	src = normalise(src)
	if i := bytes.IndexByte(src, '\r'); i >= 0 {
		d.Errorat(byteRange(name, src, i), "Stray carriage return", "A carriage return stands here that is no end of a line (CR LF). Take it out.")
		return nil, d
	}
	words := 0
	if _, ok := parse(name, src, &words, &d); !ok || d.HasErrors() {
		return nil, d
	}
	out := src
	for range maxRounds {
		next := layOut(out)
		if bytes.Equal(next, out) {
			break
		}
		out = next
	}
	var again diag.List
	words = 0
	if _, ok := parse(name, out, &words, &again); !ok || again.HasErrors() || !sameTokens(src, out) || !bytes.Equal(layOut(out), out) {
		d.Errorat(diag.Range{File: name}, "Not formatted", "To lay this file out would change what it says, so it is left as it is. Does a number stand before a dot and a space?")
		return nil, d
	}
	return append([]byte{}, out...), d // an empty file is laid out too
}

// layOut is one round.
func layOut(src []byte) (out []byte) {
	defer func() {
		if recover() != nil { // of hcl's formatter: the file stays as it is
			out = src
		}
	}()
	out = bytes.TrimRight(hclwrite.Format(src), "\n")
	if len(out) == 0 {
		return out
	}
	return append(out, '\n')
}

// sameTokens reports whether two files have the same words, signs, texts and
// comments in the same lines, but for empty lines at the end.
func sameTokens(a, b []byte) bool {
	return slices.EqualFunc(tokens(a), tokens(b), func(x, y hclsyntax.Token) bool {
		if x.Type == hclsyntax.TokenComment { // the last one's end is not its own
			return y.Type == x.Type && bytes.Equal(bytes.TrimRight(x.Bytes, "\n"), bytes.TrimRight(y.Bytes, "\n"))
		}
		return x.Type == y.Type && bytes.Equal(x.Bytes, y.Bytes)
	})
}

func tokens(src []byte) []hclsyntax.Token {
	ts, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	for len(ts) > 0 && (ts[len(ts)-1].Type == hclsyntax.TokenEOF || ts[len(ts)-1].Type == hclsyntax.TokenNewline) {
		ts = ts[:len(ts)-1]
	}
	return ts
}
