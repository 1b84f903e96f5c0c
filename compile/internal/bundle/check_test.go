package bundle

import (
	"slices"
	"strings"
	"testing"
)

func TestParseCheck(t *testing.T) {
	good := []struct {
		check  string
		argv   []string
		expect string
	}{
		{"adder --version", []string{"adder", "--version"}, ""},
		{"  adder   --version ", []string{"adder", "--version"}, ""},
		{"adder --help | grep -q sum", []string{"adder", "--help"}, "sum"},
		{`adder 'two words' "and two" --x=y | grep -q 'a b'`, []string{"adder", "two words", "and two", "--x=y"}, "a b"},
		{"adder '$HOME' '*' '`x`'", []string{"adder", "$HOME", "*", "`x`"}, ""},
		{"/opt/a/adder -v", []string{"/opt/a/adder", "-v"}, ""},
		{"ad\"der\"'s'", []string{"adders"}, ""},
		{"python3 -m adder", []string{"python3", "-m", "adder"}, ""},
		{"npm --version", []string{"npm", "--version"}, ""},
	}
	for _, c := range good {
		argv, expect, bad := ParseCheck("adder", c.check)
		if bad != "" || !slices.Equal(argv, c.argv) || expect != c.expect {
			t.Errorf("%q: argv %q, expect %q, bad %q", c.check, argv, expect, bad)
		}
	}
	bad := map[string]string{
		"":                                      "no availability check",
		" \t ":                                  "no availability check",
		"adder; adder":                          "not exactly one command",
		"adder\nadder":                          "more than one line",
		"adder && true":                         "joins commands",
		"adder || true":                         "joins commands",
		"adder |& grep -q sum":                  "joins commands",
		"adder | grep -q a | grep -q b":         "more than one simple command",
		"adder | grep sum":                      "other than",
		"adder | grep -qi sum":                  "other than",
		"adder | grep -q sum file":              "other than",
		"adder | egrep -q sum":                  "other than",
		"adder | grep -q 1.8":                   "a pattern",
		"adder | grep -q -v":                    "a pattern or an option",
		"adder | grep -q ''":                    "a pattern or an option",
		"adder | grep -q $X":                    "a variable",
		"adder | FOO=1 grep -q sum":             "sets a variable",
		"adder > /dev/null":                     "redirects",
		"adder 2>&1 | grep -q sum":              "redirects",
		"adder | grep -q sum < x":               "redirects",
		"adder &":                               "background",
		"! adder":                               "negated",
		"! adder | grep -q x":                   "negated",
		"adder $HOME":                           "a variable",
		"adder \"$HOME\"":                       "a variable",
		"adder ${X:-y}":                         "a variable",
		"adder $(id)":                           "a variable",
		"adder `id`":                            "a variable",
		"adder \"$(id)\"":                       "a variable",
		"adder $((1+1))":                        "a variable",
		"adder $'x'":                            "$'",
		"adder *.py":                            "may change",
		"adder a?":                              "may change",
		"adder [ab]":                            "may change",
		"adder {a,b}":                           "may change",
		"~/adder":                               "may change",
		"ad\\der":                               "may change",
		"adder \"a\\\"b\"":                      "backslash",
		"FOO=1 adder":                           "sets a variable",
		"FOO=1":                                 "sets a variable",
		"(adder)":                               "more than one simple command",
		"{ adder; }":                            "more than one simple command",
		"if adder; then b; fi":                  "more than one simple command",
		"f() { adder; }":                        "more than one simple command",
		"[[ -x adder ]]":                        "more than one simple command",
		"time adder":                            "more than one simple command",
		"adder # sum":                           "comment",
		"adder 'open":                           "no shell line",
		"adder <(id)":                           "a variable",
		"sh -c 'adder'":                         "runs a shell",
		"/bin/bash -lc adder":                   "runs a shell",
		"env FOO=1 sh -c adder":                 "runs a shell",
		"busybox sh -c adder":                   "runs a shell",
		"timeout 5 bash -c adder":               "runs a shell",
		"npx adder --version":                   "fetches code",
		"uvx adder":                             "fetches code",
		"env npx adder":                         "fetches code",
		"uv run adder":                          "fetches code",
		"command -v adder":                      "word of the shell",
		"type adder":                            "word of the shell",
		"eval adder":                            "word of the shell",
		". ./adder":                             "word of the shell",
		"'' x":                                  "names no command",
		"-x":                                    "names no command",
		"adder \u202e":                          "cannot be seen",
		"adder \xff":                            "cannot be seen",
		"adder " + strings.Repeat("x", 2000):    "more than 1024",
		"adder " + strings.Repeat("((", 500):    "no shell line",
		"adder " + strings.Repeat("$(", 500):    "no shell line",
		"adder " + strings.Repeat("`", 501):     "no shell line",
		"adder " + strings.Repeat("{1..9}", 90): "may change",
	}
	for check, want := range bad {
		argv, expect, why := ParseCheck("adder", check)
		if argv != nil || expect != "" || !strings.Contains(why, want) {
			t.Errorf("%q: argv %q, expect %q, bad %q, want %q", clip(check), argv, expect, why, want)
		}
		if !strings.Contains(why, `probe "adder" { argv = [`) {
			t.Errorf("%q: %q does not name the attribute", clip(check), why)
		}
	}
}
