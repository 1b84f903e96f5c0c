package plan

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// drawValue fills any value of the format; depth bounds predicates.
func drawValue(t *rapid.T, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawValue(t, v.Field(i), depth+1)
		}
	case reflect.Slice:
		most := 3
		if depth > 7 {
			most = 0
		}
		n := rapid.IntRange(0, most).Draw(t, "length")
		if n == 0 && rapid.Bool().Draw(t, "nil") {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			drawValue(t, v.Index(i), depth+1)
		}
	case reflect.Pointer:
		if depth < 9 && rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			drawValue(t, v.Elem(), depth+1)
		}
	case reflect.String:
		v.SetString(rapid.OneOf(
			rapid.String(),
			rapid.SampledFrom([]string{"", "<&>", "\u2028\u2029", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "é e\u0301 ſ 🧬", "\ufffd", "\ufeff"}),
		).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	default:
		t.Fatalf("the format has a %s", v.Type())
	}
}

func TestRandomPlansRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := new(Plan)
		drawValue(t, reflect.ValueOf(p).Elem(), 0)
		p.FormatVersion = FormatVersion
		data, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p, back, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("another value came back:\n%s", d)
		}
		// encoding/json agrees about the bytes, once it is told to write [] and
		// not to escape HTML.
		if theirs := stdlib(t, back); !bytes.Equal(theirs, data) {
			t.Fatalf("encoding/json writes it differently:\n%s", cmp.Diff(string(theirs), string(data)))
		}
		Validate(back) // must not panic
	})
}

// stdlib encodes a decoded plan, which has no nil lists that are written.
func stdlib(t interface{ Fatal(...any) }, v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGoldenPlansAgreeWithEncodingJSON(t *testing.T) {
	for name, build := range samples() {
		data, err := Encode(build())
		if err != nil {
			t.Fatal(err)
		}
		p, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(stdlib(t, p), data) {
			t.Errorf("%s: encoding/json writes it differently", name)
		}
	}
}

func TestStringsAreEscapedAsEncodingJSONDoes(t *testing.T) {
	check := func(s string) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		if want, got := strings.TrimSuffix(b.String(), "\n"), string(appendString(nil, s)); got != want {
			t.Errorf("%q is written as %s, encoding/json writes %s", s, got, want)
		}
	}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if utf8.ValidRune(r) && (r < 0x3000 || r%97 == 0 || r > 0xfff0 && r < 0x10010) {
			check("a" + string(r) + "z")
		}
	}
}

func TestEncodeRefusesWhatHasNoCanonicalForm(t *testing.T) {
	for name, v := range map[string]any{
		"a float": struct {
			F float64 `json:"f"`
		}{1},
		"a map": struct {
			M map[string]int `json:"m"`
		}{},
		"an interface": struct {
			A any `json:"a"`
		}{1},
		"invalid UTF-8": struct {
			S string `json:"s"`
		}{"\xff"},
		"an unsigned": struct {
			U uint64 `json:"u"`
		}{math.MaxUint64},
		"a nested float": []struct {
			F []float32 `json:"f"`
		}{{[]float32{1}}},
	} {
		if data, err := EncodeCanonical(v); err == nil {
			t.Errorf("%s was written as %s", name, data)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	swap := func(old, new string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("the sample does not hold %s", old)
		}
		return strings.Replace(string(good), old, new, 1)
	}
	bound := `"max_iterations": 10000`
	for name, c := range map[string]struct{ data, want string }{
		"duplicate key":             {swap(bound, `"max_iterations": 3,`+"\n      "+bound), "not canonical"},
		"duplicate list":            {swap(`"tools": [`+"\n    {", `"tools": [],`+"\n  "+`"tools": [`+"\n    {"), "not canonical"},
		"key in another case":       {swap(bound, `"Max_Iterations": 10000`), "not canonical"},
		"both cases":                {swap(bound, bound+",\n      "+`"Max_Iterations": 99`), "not canonical"},
		"key with U+017F":           {swap(bound, `"max_iteration`+"\u017f"+`": 10000`), "not canonical"},
		"escaped key with U+017F":   {swap(bound, bound+",\n      "+`"max_iteration\u017f": 99`), "not canonical"},
		"escaped key":               {swap(bound, `"max_iteration\u0073": 10000`), "not canonical"},
		"unknown key":               {swap(bound, bound+`, "note": "x"`), "unknown field"},
		"no newline at the end":     {strings.TrimSuffix(string(good), "\n"), "not canonical"},
		"two newlines at the end":   {string(good) + "\n", "not canonical"},
		"CRLF":                      {strings.ReplaceAll(string(good), "\n", "\r\n"), "not canonical"},
		"tabs":                      {strings.ReplaceAll(string(good), "  ", "\t"), "not canonical"},
		"byte order mark":           {"\ufeff" + string(good), "invalid character"},
		"space in front":            {" " + string(good), "not canonical"},
		"exponent":                  {swap(bound, `"max_iterations": 1e4`), "cannot unmarshal number"},
		"float":                     {swap(bound, `"max_iterations": 10000.0`), "cannot unmarshal number"},
		"minus zero":                {swap(`"source_revision": 4`, `"source_revision": -0`), "not canonical"},
		"2^63":                      {swap(bound, `"max_iterations": 9223372036854775808`), "cannot unmarshal number"},
		"number as text":            {swap(bound, `"max_iterations": "10000"`), "cannot unmarshal string"},
		"null for a list":           {swap(`"needs": []`, `"needs": null`), "not canonical"},
		"null for a number":         {swap(bound, `"max_iterations": null`), "not canonical"},
		"null for nothing":          {swap(bound, bound+`,`+"\n      "+`"until": null`), "not canonical"},
		"empty list that is absent": {swap(`"not_applicable": [`+"\n        "+`"paper-brief"`+"\n      ]", `"not_applicable": []`), "not canonical"},
		"escape that is not needed": {swap(`"ok <&>`, `"ok \u003c&>`), "not canonical"},
		"escaped slash":             {swap(`docs/notes`, `docs\/notes`), "not canonical"},
		"lone surrogate":            {swap(`"ok <&>`, `"ok \ud800`), "not canonical"},
		"invalid UTF-8":             {swap(`"ok <&>`, "\"ok \xff"), "not canonical"},
		"control character":         {swap(`"ok <&>`, "\"ok \x01"), "invalid character"},
		"comment":                   {swap(bound, bound+` // ten thousand`), "invalid character"},
		"order of keys":             {swap(`"mode": "trace",`+"\n  "+`"order": "dataflow"`, `"order": "dataflow",`+"\n  "+`"mode": "trace"`), "not canonical"},
		"second document":           {string(good) + string(good), "something follows"},
		"something after it":        {string(good) + "x", "something follows"},
		"newer version":             {swap(`"format_version": 1`, `"format_version": 2`), "format_version is 2"},
		"newer version, new key":    {swap(`"format_version": 1`, `"format_version": 2, "new": 1`), "format_version is 2"},
		"no version":                {swap(`"format_version": 1,`+"\n  ", ""), "not canonical"},
		"version zero":              {swap(`"format_version": 1`, `"format_version": 0`), "format_version is 0"},
		"nothing":                   {"", "EOF"},
		"null":                      {"null\n", "not canonical"},
		"a list":                    {"[]\n", "cannot unmarshal array"},
		"half":                      {string(good[:len(good)/2]), "unexpected EOF"},
	} {
		if p, err := Decode([]byte(c.data)); err == nil || p != nil {
			t.Errorf("%s was accepted", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the message %q does not hold %q", name, err, c.want)
		}
	}
	if _, err := Decode(good); err != nil {
		t.Errorf("the plan itself is refused: %v", err)
	}
}

func TestExactIntegers(t *testing.T) {
	p := minimal()
	p.Nodes[0].Budget.Tokens = 9007199254740993 // 2^53 + 1
	data, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(data)
	if err != nil || back.Nodes[0].Budget.Tokens != 9007199254740993 {
		t.Errorf("2^53+1 came back as %d (%v)", back.Nodes[0].Budget.Tokens, err)
	}
	p.Nodes[0].Budget.Tokens = math.MaxInt64
	data, _ = Encode(p)
	if back, err = Decode(data); err != nil || back.Nodes[0].Budget.Tokens != math.MaxInt64 {
		t.Errorf("2^63-1 did not come back (%v)", err)
	}
}

// A deeply nested predicate has a canonical form that is far longer than a
// dense spelling of it. Refusing must not build it.
func TestDecodeOfDeepNestingIsCheap(t *testing.T) {
	const depth = 4000
	var b strings.Builder
	b.WriteString(`{"format_version": 1, "loops": [{"id": "x", "until": `)
	b.WriteString(strings.Repeat(`{"op":"not","args":[`, depth))
	b.WriteString(strings.Repeat(`]}`, depth))
	b.WriteString(`}]}` + "\n")
	data := []byte(b.String())
	if _, err := Decode(data); err == nil {
		t.Error("it was accepted")
	}
	e := encoder{limit: len(data)}
	p := new(Plan)
	if err := json.Unmarshal(data, p); err != nil {
		t.Fatal(err)
	}
	if err := e.value(reflect.ValueOf(p), 0); err != errLimit {
		t.Errorf("the encoder did not stop at the limit: %v", err)
	}
	if len(e.buf) > 2*len(data) {
		t.Errorf("%d bytes were written for %d", len(e.buf), len(data))
	}
}
