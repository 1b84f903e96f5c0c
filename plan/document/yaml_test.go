package document

import (
	"strings"
	"testing"
	"time"
)

func TestYAMLAccepts(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "null",
		"# only a comment\n":             "null",
		"---\n":                          "null",
		"---\n...\n":                     "null",
		"a: 1\nb:\n- x\n- {c: d}\n":      `{"a":1,"b":["x",{"c":"d"}]}`,
		"yes":                            `"yes"`,
		"on: off":                        `{"on":"off"}`,
		"[true, False, NULL, ~, null, ]": "[true,false,null,null,null]",
		"[010, 0o17, 0xFF, +5, 1_000]":   `[10,15,255,5,"1_000"]`,
		"[1e3, .5, 1., -0, 1.50, 1e+2]":  "[1000,0.5,1,0,1.5,100]",
		"9007199254740993":               "9007199254740993",
		"[2001-12-14, 12:30:45, 0b11]":   `["2001-12-14","12:30:45","0b11"]`,
		"['1', \"true\", \"~\"]":         `["1","true","~"]`,
		"[!!str 1, !!int 0x10, !!float 1, !!null '', !!bool true, ! 12]": `["1",16,1,null,true,"12"]`,
		"!!map {a: !!seq []}":              `{"a":[]}`,
		"a: |\n  x\n  y\nb: >\n  p\n  q\n": `{"a":"x\ny\n","b":"p q\n"}`,
		"a: &x [1, 2]\nb: *x\nc: [*x, *x]": `{"a":[1,2],"b":[1,2],"c":[[1,2],[1,2]]}`,
		"? a\n: 1\n":                       `{"a":1}`,
		"'<<': 1":                          `{"<<":1}`,
		"a: \"\\u2028\\x41\"":              "{\"a\":\"\\u2028A\"}",
		"&k a: 1\nb: *k\n":                 `{"a":1,"b":"a"}`,
		"k: [\"-.inf\", --.inf]":           `{"k":["-.inf","--.inf"]}`,
		"\"\": 1":                          `{"":1}`,
		"[a: b]":                           `[{"a":"b"}]`,
	} {
		v, err := ParseYAML([]byte(in), Limits{})
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := show(t, v); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestYAMLRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"\xEF\xBB\xBFa: 1":             "1:1 byte order mark",
		"a: \xff":                      "1:4 UTF-8",
		"```yaml\na: 1\n```":           "1:1 Markdown fence & bare YAML document",
		"a: 1\n---\nb: 2\n":            "2:1 second document",
		"a: 1\nb: 2\na: 3\n":           "3:1 there twice, first at line 1, column 1",
		"max: 1\nMax: 2\n":             "2:1 letter case",
		"s: 1\n\u017f: 2\n":            "2:1 letter case",
		"x: &b {a: 1}\ny:\n  <<: *b\n": "3:3 merge key",
		"!!merge <<: {a: 1}":           "1:1 merge key",
		"1: a":                         "1:1 is a number & quotes",
		"x: {true: a}":                 "1:5 is a bool & quotes",
		"~: a":                         "1:1 is a null",
		"? [a]\n: b":                   "1:3 array or object as a key",
		"[.inf]":                       "1:2 not finite",
		"[-.INF]":                      "1:2 not finite",
		"[.nan]":                       "1:2 not finite",
		"1e100000000":                  "1:1 exponent is beyond",
		"!!timestamp 2001-12-14":       "1:1 tag",
		"!!binary aGk=":                "1:1 tag",
		"!mine {a: 1}":                 "1:1 tag",
		"!!set {a}":                    "1:1 tag",
		"!!seq {a: 1}":                 "1:1 tag",
		"!!int abc":                    "1:1 tag",
		"!!int 1.5":                    "1:1 tag",
		"!!bool 1":                     "1:1 tag",
		"a: &x [1, *x]":                "1:11 within what it names",
		"a: &x {b: {c: *x}}":           "1:15 within what it names",
		"a: *nope":                     "1:4 unknown anchor",
		"a: b\u2028c":                  "1:5 U+2028 & double quotes",
		"ä: \u0085":                    "1:5 U+0085",
		"a: [1, 2":                     "1:1 flow sequence",
		"a:\n\t- b":                    "2:1 tab",
		"a: 'x":                        "1:6 quoted scalar",
		"a: \x01":                      "1:4 control",
	} {
		t.Run(in, func(t *testing.T) {
			v, err := ParseYAML([]byte(in), Limits{})
			wantRefused(t, v, err, want)
		})
	}
}

// Each shape is one that is known to make YAML readers slow, large or
// recursive. The deadline is far above what the bounded work takes.
func TestYAMLHostileShapes(t *testing.T) {
	const many = 100_000
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		before := "*" + string(c-1)
		laughs += string(c) + ": &" + string(c) + " [" + strings.Repeat(before+",", 9) + before + "]\n"
	}
	var indented, sequences strings.Builder
	for i := range 2000 {
		indented.WriteString(strings.Repeat(" ", i) + "a:\n")
		sequences.WriteString(strings.Repeat(" ", i) + "-\n")
	}
	for name, c := range map[string]struct{ in, want string }{
		"billion laughs": {laughs, "2000000 values"},
		"open brackets":  {strings.Repeat("[", many), "nested deeper"},
		"open braces":    {strings.Repeat("{", many), "nested deeper"},
		"closed":         {strings.Repeat("[", many) + strings.Repeat("]", many), "nested deeper"},
		"pairs":          {strings.Repeat("[a: ", many), "nested deeper"},
		"dashes":         {strings.Repeat("- ", many), "nested deeper"},
		"questions":      {strings.Repeat("? ", many), "nested deeper"},
		"indented":       {indented.String(), "nested deeper"},
		"sequences":      {sequences.String(), "nested deeper"},
		"both":           {strings.Repeat("- ", 150) + strings.Repeat("[", 150) + strings.Repeat("]", 150), "nested deeper"},
		"alias depth":    {"a: &a [[[[]]]]\nb: &b [[*a]]\nc: " + strings.Repeat("[", 195) + "*b" + strings.Repeat("]", 195), "nested deeper"},
		"many values":    {"[" + strings.Repeat("a,", 3_000_000) + "]", "more than 250000"},
		"colons":         {strings.Repeat(":", many), ""},
		"flow colons":    {"{" + strings.Repeat("a:", many), "flow node"},
		"one long key":   {strings.Repeat("a", 1<<20) + ": 1", ""},
		"long quoted":    {"\"" + strings.Repeat("\\n", many) + "\"", ""},
		"comments":       {strings.Repeat("# c\n", many) + "a", ""},
		"blank lines":    {"a: |\n" + strings.Repeat("\n", many) + " x", ""},
		"plain words":    {strings.Repeat("a b\n", many), ""},
		"anchors":        {"[" + strings.Repeat("&a x, *a,", many/2) + "]", ""},
		"documents":      {strings.Repeat("---\n", many), "second document"},
		"directives":     {strings.Repeat("%TAG !a! b\n", many), "duplicate"},
		"hex":            {"0x" + strings.Repeat("f", 10_000_000), "digits"},
		"digits":         {strings.Repeat("9", 10_000_000), "digits"},
		"long one line":  {"[" + strings.Repeat("{\"ä\": 1}, ", many/2) + "]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				_, err := ParseYAML([]byte(c.in), Limits{})
				done <- err
			}()
			select {
			case err := <-done:
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			case <-time.After(time.Minute):
				t.Fatal("still running after a minute")
			}
		})
	}
}
