package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func seeds(f *testing.F) {
	for in := range jsonRefusals {
		f.Add([]byte(in))
	}
	for _, in := range []string{
		`{"a":[1,2.50,{"b":null}],"c":"\u00e4\ud83d\ude00","d":true}`, `[-0.0e1,1e3]`, "a: &x [1]\nb: *x\n", "- |\n  t\n- >-\n  u\n",
		"{\"a\": \"b\nc\"}", "? [a]\n: !!str 1", "%YAML 1.2\n---\na: 0x1F # c\n",
	} {
		f.Add([]byte(in))
	}
}

// FuzzJSON: what is accepted, the standard library reads alike.
func FuzzJSON(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseJSON(data, Limits{})
		if err != nil {
			if e, ok := err.(*Error); !ok || v != nil || e.Msg == "" {
				t.Fatalf("a refusal without a message, or with a value: %#v", err)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("the standard library refuses %q: %v", data, err)
		}
		if got := v.Any(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %v, want %v", data, got, want)
		}
		checkPositions(t, data, v)
	})
}

// FuzzYAML: never a panic or a hang; and a text that is both JSON and YAML
// means the same in the two.
func FuzzYAML(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		y, err := ParseYAML(data, Limits{})
		if d := time.Since(start); d > 20*time.Second {
			t.Fatalf("%d bytes took %v", len(data), d)
		}
		if err != nil {
			if strings.Contains(err.Error(), "the YAML parser failed") {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		show(t, y)
		if j, err := ParseJSON(data, Limits{}); err == nil {
			if a, b := show(t, j), show(t, y); a != b {
				t.Fatalf("%q: JSON %s, YAML %s", data, a, b)
			}
		}
	})
}

// FuzzPointer: steps that are escaped and joined come back; a pointer of a
// value's own keys leads to that value.
func FuzzPointer(f *testing.F) {
	for _, ptr := range []string{"", "/", "//", "/a/b", "/~0~1", "/~", "/~2", "a", "/0", "/01", "/-", "/~01"} {
		f.Add(ptr, "a/b~c")
	}
	f.Fuzz(func(t *testing.T, ptr, key string) {
		if steps, err := SplitPointer(ptr); err == nil {
			again := ""
			for _, s := range steps {
				again += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
			}
			if again != ptr {
				t.Fatalf("%q became %q", ptr, again)
			}
		}
		leaf := &Value{Kind: String, Str: key}
		doc := &Value{Kind: Object, Members: []Member{{Key: key, Value: &Value{Kind: Array, Items: []*Value{leaf}}}}}
		if v, err := doc.Pointer(ptr); (v == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", ptr, v, err)
		}
		own := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key) + "/0"
		if v, err := doc.Pointer(own); v != leaf {
			t.Fatalf("%q does not lead to its value: %v", own, err)
		}
	})
}

// checkPositions looks at the byte that each value claims to start at.
func checkPositions(t *testing.T, data []byte, v *Value) {
	t.Helper()
	starts := map[Kind]string{Null: "n", Bool: "tf", Number: "-0123456789", String: `"`, Array: "[", Object: "{"}
	lineStart := bytes.LastIndexByte(data[:v.Pos.Offset], '\n') + 1
	if !strings.Contains(starts[v.Kind], string(data[v.Pos.Offset])) ||
		v.Pos.Line != 1+bytes.Count(data[:v.Pos.Offset], []byte{'\n'}) || v.Pos.Column != v.Pos.Offset-lineStart+1 {
		t.Fatalf("%q: a %v at %v", data, v.Kind, v.Pos)
	}
	for _, item := range v.Items {
		checkPositions(t, data, item)
	}
	for _, m := range v.Members {
		checkPositions(t, data, m.Value)
	}
}

func benchmarkText(n int) []byte {
	var b strings.Builder
	b.WriteString("[\n")
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `  {"id": "step-%d", "class": "tool", "index": %d, "score": %d.25, "done": true, "note": null, "inputs": [{"name": "reads", "path": "data/reads_%d.fq"}, "plain \"quoted\" text"]}`, i, i, i%100, i)
	}
	b.WriteString("\n]\n")
	return []byte(b.String())
}

// BenchmarkParse reads the same text with this package and, as the floor, with
// the standard library into any.
func BenchmarkParse(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		data := benchmarkText(n)
		run := func(name string, parse func() error) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if err := parse(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("document", func() error { _, err := ParseJSON(data, Limits{}); return err })
		run("encoding-json", func() error {
			dec := json.NewDecoder(bytes.NewReader(data))
			dec.UseNumber()
			var v any
			return dec.Decode(&v)
		})
		run("yaml", func() error { _, err := ParseYAML(data, Limits{}); return err })
	}
}
