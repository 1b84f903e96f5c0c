package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// show writes a tree as JSON text with canonical numbers, members in order.
func show(t testing.TB, v *Value) string {
	t.Helper()
	switch v.Kind {
	case Null:
		return "null"
	case Bool:
		return fmt.Sprint(v.Bool)
	case Number:
		n, err := CanonicalNumber(v.Number)
		if err != nil {
			t.Fatalf("an accepted document holds a number without canonical form: %v", err)
		}
		return n
	case String:
		return quoteJSON(v.Str)
	case Array:
		parts := make([]string, len(v.Items))
		for i, item := range v.Items {
			parts[i] = show(t, item)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case Object:
		parts := make([]string, len(v.Members))
		for i, m := range v.Members {
			parts[i] = quoteJSON(m.Key) + ":" + show(t, m.Value)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	t.Fatalf("unknown %v", v.Kind)
	return ""
}

func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// wantRefused checks place and words of a refusal: "line:column words".
func wantRefused(t *testing.T, v *Value, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted as %s, want the refusal %q", show(t, v), want)
	}
	if v != nil {
		t.Errorf("an error and a value")
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("the error is a %T", err)
	}
	place, words, _ := strings.Cut(want, " ")
	if got := fmt.Sprintf("%d:%d", e.Line, e.Column); got != place {
		t.Errorf("refused at %s, want %s: %v", got, place, err)
	}
	for _, w := range strings.Split(words, " & ") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("refused with %q, want it to hold %q", err, w)
		}
	}
}

func TestJSONAccepts(t *testing.T) {
	for in, want := range map[string]string{
		`null`:                          `null`,
		" \t\r\n true\n":                `true`,
		`""`:                            `""`,
		`"a\u0041\n\"\\\/\ud83d\ude00"`: `"aA\n\"\\/😀"`,
		`[]`:                            `[]`,
		`{}`:                            `{}`,
		`[1,[2,[3]],{"a":{"b":[]}}]`:    `[1,[2,[3]],{"a":{"b":[]}}]`,
		`9007199254740993`:              `9007199254740993`,
		`9223372036854775808`:           `9223372036854775808`,
		`0.1`:                           `0.1`,
		`1e3`:                           `1000`,
		`1.0`:                           `1`,
		`-0`:                            `0`,
		`-0.0e-5`:                       `0`,
		`1E+2`:                          `100`,
		`12.5e-1`:                       `1.25`,
		`{"b":1,"a":2}`:                 `{"b":1,"a":2}`,
		`{"":1," ":2}`:                  `{"":1," ":2}`,
		"\"\u2028\u007f\"":              "\"\\u2028\u007f\"",
	} {
		v, err := ParseJSON([]byte(in), Limits{})
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := show(t, v); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestJSONKeepsNumberText(t *testing.T) {
	for _, in := range []string{"1e3", "1.0", "-0", "9007199254740993", "0.10"} {
		v, err := ParseJSON([]byte(in), Limits{})
		if err != nil || v.Number != in {
			t.Errorf("%s: got %q, %v", in, v.Number, err)
		}
	}
}

var jsonRefusals = map[string]string{
	"":                    "1:1 empty",
	" \n ":                "2:2 empty",
	"\xEF\xBB\xBF{}":      "1:1 byte order mark",
	"\xFF\xFE{\x00}\x00":  "1:1 UTF-16",
	"{\n\"a\": \"\xff\"}": "2:7 0xFF & UTF-8",
	"```json\n{}\n```":    "1:1 Markdown fence & bare JSON document",
	"\n```\n{}\n```":      "2:1 Markdown fence",
	"{}\n```":             "2:1 follows & bare JSON document",
	"{} // done":          "1:4 follows & no comments",
	"{}{}":                "1:3 follows & one JSON document",
	"[1,]":                "1:4 no comma before it",
	"{\"a\":1,}":          "1:8 key must be & no comma before it",
	"[1 2]":               "1:4 '2' in an array",
	"{\"a\" 1}":           "1:6 must follow the key",
	"{a:1}":               "1:2 double quotes",
	"{'a':1}":             "1:2 double quotes",
	"['a']":               "1:2 double quotes",
	"[True]":              "1:2 lower case",
	"[None]":              "1:2 write null",
	"[NaN]":               "1:2 finite",
	"[Infinity]":          "1:2 finite",
	"[-Infinity]":         "1:2 finite",
	"[+1]":                "1:2 start with a digit",
	"[.5]":                "1:2 start with a digit",
	"[01]":                "1:2 starts with 0",
	"[1.]":                "1:2 ends with its point",
	"[1e]":                "1:2 exponent",
	"1e100000000":         "1:1 exponent is beyond 400",
	"[1e-401]":            "1:2 exponent is beyond 400",
	"{\"a\":1,\n\"a\":2}": "2:1 there twice, first at line 1, column 2",
	"{\"max_iterations\":3,\"Max_Iterations\":99}":       "1:21 letter case & line 1, column 2",
	"{\"max_iterations\":3,\"max_iteration\\u017f\":99}": "1:21 letter case",
	"{\"k\":1,\"\u212a\":2}":                             "1:8 letter case",
	"\"\\ud800\"":                                        "1:2 surrogate & D800",
	"\"\\udc00\\ud800\"":                                 "1:2 surrogate",
	"\"\\ud800\\u0041\"":                                 "1:2 surrogate",
	"\"\\u12\"":                                          "1:2 four hexadecimal",
	"\"\\u+123\"":                                        "1:2 four hexadecimal",
	"\"\\x\"":                                            "1:2 no escape",
	"\"a\nb\"":                                           "1:3 control character 0x0A",
	"\"a":                                                "1:1 closing quote",
	"\"\\":                                               "1:2 within an escape",
	"[1":                                                 "1:3 ends within an array",
	"{\"a\":":                                            "1:6 ends where a value",
	"{":                                                  "1:2 key must be",
	"[\x00]":                                             "1:2 where a value must be",
	"{\"äö\":tru}":                                       "1:9 text stands in double quotes",
}

func TestJSONRefuses(t *testing.T) {
	for in, want := range jsonRefusals {
		t.Run(in, func(t *testing.T) {
			v, err := ParseJSON([]byte(in), Limits{})
			wantRefused(t, v, err, want)
		})
	}
}

func TestManyKeys(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "\"key%d\": %d,\n", i, i)
	}
	if _, err := ParseJSON([]byte("{"+b.String()+"\"last\":1}"), Limits{}); err != nil {
		t.Error(err)
	}
	v, err := ParseJSON([]byte("{"+b.String()+"\"KEY4711\":1}"), Limits{})
	wantRefused(t, v, err, "5001:1 letter case & line 4712, column 1")
	v, err = ParseYAML([]byte(b.String()[:0]+"{"+b.String()+"\"key3\":1}"), Limits{})
	wantRefused(t, v, err, "5001:1 there twice & line 4, column 1")
}

// The two ways to find keys, pair by pair and by map, must agree.
func TestKeysThatFoldTogether(t *testing.T) {
	for _, fill := range []int{0, 3, fewKeys, 4 * fewKeys} {
		var b strings.Builder
		for i := range fill {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		for _, pair := range [][2]string{{"s", "\u017f"}, {"\u017f", "S"}, {"K", "\u212a"}, {"ä", "Ä"}, {"σ", "ς"}, {"Σ", "ς"}, {"ǆ", "ǅ"}, {"a1", "A1"}} {
			v, err := ParseJSON([]byte("{"+b.String()+`"`+pair[0]+`":1,"`+pair[1]+`":2}`), Limits{})
			if err == nil || !strings.Contains(err.Error(), "letter case") {
				t.Errorf("%d keys before %q: got %v, %v", fill, pair, v, err)
			}
		}
		// Equal only after full folding or normalization: two keys to every reader.
		for _, pair := range [][2]string{{"ß", "ss"}, {"é", "e\u0301"}, {"i", "ı"}, {"a", "b"}} {
			if _, err := ParseJSON([]byte("{"+b.String()+`"`+pair[0]+`":1,"`+pair[1]+`":2}`), Limits{}); err != nil {
				t.Errorf("%d keys before %q: %v", fill, pair, err)
			}
		}
	}
}

// What a schema validator sees of a number is what was written.
func TestAnyFeedsTheSchemaValidator(t *testing.T) {
	parse := func(text string) any {
		v, err := ParseJSON([]byte(text), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return v.Any()
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///s.json", parse(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer","maximum":9007199254740992}}}`)); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("mem:///s.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, valid := range map[string]bool{`{"n":9007199254740992}`: true, `{"n":9007199254740993}`: false, `{"n":1.0}`: true, `{"n":1.5}`: false, `{"n":"1"}`: false, `{}`: false} {
		if err := schema.Validate(parse(text)); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLimits(t *testing.T) {
	parsers := map[string]func([]byte, Limits) (*Value, error){"json": ParseJSON, "yaml": ParseYAML}
	for name, parse := range parsers {
		for _, c := range []struct {
			in     string
			limits Limits
			want   string // "" = accepted
		}{
			{"[[[1]]]", Limits{Depth: 3}, ""},
			{"[[[[1]]]]", Limits{Depth: 3}, "nested deeper than 3"},
			{`{"a":{"b":{"c":{}}}}`, Limits{Depth: 3}, "nested deeper than 3"},
			{"[1,2,3]", Limits{Values: 4}, ""},
			{"[1,2,3,4]", Limits{Values: 4}, "4 values"},
			{"[1,2]", Limits{Bytes: 5}, ""},
			{"[1,2] ", Limits{Bytes: 5}, "6 bytes"},
			{strings.Repeat("[", 200) + strings.Repeat("]", 200), Limits{}, ""},
			{strings.Repeat("[", 201) + strings.Repeat("]", 201), Limits{}, "nested deeper than 200"},
			{strings.Repeat("[", 100_000), Limits{}, "nested deeper than 200"},
			{strings.Repeat("{\"a\":", 100_000), Limits{}, "nested deeper than 200"},
			{strings.Repeat("[{\"a\":", 50_000), Limits{}, "nested deeper than 200"},
			{strings.Repeat("[", 200_000), Limits{Depth: 1 << 40}, "nested deeper than 10000"},
		} {
			v, err := parse([]byte(c.in), c.limits)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %.40s: %v", name, c.in, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: %.40s: got %v, %v, want the refusal %q", name, c.in, v, err, c.want)
			}
		}
	}
}

func TestPositions(t *testing.T) {
	want := map[string]Pos{
		"":       {2, 1, 1},
		"/a":     {2, 8, 8},
		"/ä":     {3, 8, 18},
		"/ä/0":   {3, 9, 19},
		"/ä/1/b": {4, 7, 31},
	}
	const text = "\n{ \"a\": 1,\n  \"ä\":[\"ö\",\n {\"b\":null}]}"
	for name, parse := range map[string]func([]byte, Limits) (*Value, error){"json": ParseJSON, "yaml": ParseYAML} {
		v, err := parse([]byte(text), Limits{})
		if err != nil {
			t.Fatal(name, err)
		}
		for ptr, pos := range want {
			at, err := v.Pointer(ptr)
			if err != nil || at.Pos != pos {
				t.Errorf("%s %q: got %v, %v, want %v", name, ptr, at.Pos, err, pos)
			}
		}
		if got, want := v.Members[1].KeyPos, (Pos{3, 3, 13}); got != want {
			t.Errorf("%s: key at %v, want %v", name, got, want)
		}
	}
}

func TestGetAndPointer(t *testing.T) {
	v, err := ParseJSON([]byte(`{"a/b":{"~":[10,[20]]},"":{"":7},"x":null,"0":"zero","~1":"tilde one"}`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for ptr, want := range map[string]string{
		"/a~1b/~0/0": "10", "/a~1b/~0/1/0": "20", "/": `{"":7}`, "//": "7", "/x": "null", "/0": `"zero"`, "/~01": `"tilde one"`,
	} {
		got, err := v.Pointer(ptr)
		if err != nil || show(t, got) != want {
			t.Errorf("%q: got %v, %v, want %s", ptr, got, err, want)
		}
	}
	for ptr, words := range map[string]string{
		"/missing":   `step 1: there is no such value: "missing": the object (line 1)`,
		"/X":         `spelled "x"`,
		"/a~1b/~0/2": "has 2 items", "/a~1b/~0/-": "no index", "/a~1b/~0/01": "no index", "/a~1b/~0/+1": "no index",
		"/a~1b/~0/99999999999": "no index",
		"/x/y":                 "is a null",
	} {
		_, err := v.Pointer(ptr)
		if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: got %v, want ErrMissing with %q", ptr, err, words)
		}
	}
	for _, ptr := range []string{"a", "a/b", "/~", "/~2", "/a~", "/~~0", " /a"} {
		if _, err := v.Pointer(ptr); err == nil || errors.Is(err, ErrMissing) {
			t.Errorf("%q: got %v, want a refusal of the pointer", ptr, err)
		}
	}
	var none *Value
	if _, err := none.Pointer("/a"); !errors.Is(err, ErrMissing) || none.Get("a") != nil || v.Get("X") != nil || v.Get("0").Get("a") != nil || none.Any() != nil {
		t.Error("a missing document or member is not reported as missing")
	}
}

func TestAny(t *testing.T) {
	v, err := ParseJSON([]byte(`{"a":[1.50,true,null,"s",{}],"b":9007199254740993}`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": []any{json.Number("1.50"), true, nil, "s", map[string]any{}},
		"b": json.Number("9007199254740993"),
	}
	if d := cmp.Diff(want, v.Any()); d != "" {
		t.Error(d)
	}
}

// The corpus is what users have: none of its JSON and YAML may be refused.
func TestCorpus(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "corpus")
	if _, err := os.Stat(root); err != nil {
		t.Skip("no ../shared/corpus beside the repository: it is not part of it")
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		parse := ParseJSON
		switch filepath.Ext(path) {
		case ".json":
		case ".yml", ".yaml":
			parse = ParseYAML
		default:
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if _, err := parse(data, Limits{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files read, %v", files, err)
	}
}
