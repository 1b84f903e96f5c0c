package policy

import (
	"fmt"
	"strings"
	"testing"
)

// Each open decision is one error at its place, and nothing else is said.
func TestTodo(t *testing.T) {
	for _, c := range []struct {
		src  string
		want []string // line, summary, a part of the detail
	}{
		{`assembly = todo("which pipeline")`, []string{"1 Decision is open|Which pipeline. `assembly` takes a path: the _assembly.json"}},
		{"input \"a\" {\n  path = todo(\"where is it?\")\n}", []string{"2 Decision is open|Where is it? `path` takes a path"}},
		{"input \"a\" {\n  path = \"x/${todo(\"which\")}\"\n}", []string{"2 Decision is open|Which."}},
		{"loop \"l\" {\n  max_iterations = todo(\"bound\")\n  until = check.a.exit_code == todo(\"code\") || todo(\"more\")\n}",
			[]string{"2 Decision is open|Bound. `max_iterations` takes a whole number from 1 to 10000", "3 Decision is open|Code.", "3 Decision is open|More."}},
		{"provider \"p\" {\n  api = \"x\"\n  model \"todo\" {\n    price = { input = todo(\"price\") }\n    max_output = todo(\"most\")\n  }\n}",
			[]string{"3 Decision is open|model's id", "4 Decision is open|Price.", "5 Decision is open|Most."}},
		{"tool \"t\" {\n  image = todo(\"image\")\n}", []string{"2 Decision is open|Image. `image` takes an image by digest"}},
		{"locals {\n  x = todo(\"value\")\n}\nphase \"p\" {\n  task = local.x\n}", []string{"2 Decision is open|Value. Write the value"}},
		{"variable \"v\" {\n  type = string\n  default = todo(\"value\")\n}", []string{"3 Decision is open|Value."}},
		{"phase \"p\" {\n  inputs = [\"a\", todo(\"second\")]\n}", []string{"2 Decision is open|Second."}},
		{"phase \"p\" {\n  task = todo()\n}", []string{"2 Wrong call of todo|with one plain text"}},
		{"phase \"p\" {\n  task = todo(\"a\", \"b\")\n}", []string{"2 Wrong call of todo|"}},
		{"phase \"p\" {\n  task = todo(\"${1}\")\n}", []string{"2 Wrong call of todo|"}},
		{"phase \"p\" {\n  task = \"todo(x) and $${todo}\"\n}", nil},
		{"phase \"todo\" {\n  task = \"x\"\n}", nil},
		{"phase \"p\" {\n  task = todo(\"keep $${HOME} and %%{if}\")\n}", []string{"2 Decision is open|Keep ${HOME} and %{if}. `task` takes text"}},
	} {
		_, ds := load(t, map[string]string{"p.hcl": c.src}, "p.hcl")
		ds.Sort()
		var got []string
		for _, d := range ds {
			got = append(got, fmt.Sprintf("%d %s|%s", d.Subject.Start.Line, d.Summary, d.Detail))
		}
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			head, part, _ := strings.Cut(c.want[i], "|")
			ok = strings.HasPrefix(got[i], head+"|") && strings.Contains(got[i], part)
		}
		if !ok {
			t.Errorf("%s\ngives %q\nwant  %q", c.src, got, c.want)
		}
	}
}
