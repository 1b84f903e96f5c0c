package plan

import (
	"strings"
	"testing"
)

func TestShellReason(t *testing.T) {
	for _, argv := range []string{
		"sh", "/bin/sh -c true", "bash -lc x", "dash", "zsh", "ksh", "fish", "ash", "/usr/bin/bash5", "zsh-5.9", "BASH.EXE", "pwsh -Command x", "cmd.exe /c x", `C:\Windows\cmd.exe`,
		"busybox sh", "/bin/busybox ash -c x", "env sh", "env -i FOO=1 bash -c x", "/usr/bin/env bash", "env -S bash", "env -i -S x", "env --split-string=x", "timeout 10 sh", "nice -n 5 sh",
		"xargs sh -c x", "find . -exec sh -c x", "nohup setsid bash", "sudo -u x sh", "su -c x", "watch ls", "script -c x", "env FOO=1 nice busybox sh", "../../bin/sh",
	} {
		if ShellReason(strings.Fields(argv)) == "" {
			t.Errorf("%s runs a shell", argv)
		}
	}
	for _, argv := range []string{"", "pi --mode rpc", "python3 run.py", "shellcheck x.sh", "env FOO=1 python3 x", "bashful", "ls sh", "timeout 10 planemo", "{foundry} worker", "{skill}/scripts/run.sh", "sha256sum x", "env -u SHELL pi", "git --version"} {
		if reason := ShellReason(strings.Fields(argv)); reason != "" {
			t.Errorf("%s: %s", argv, reason)
		}
	}
}

func TestFetchReason(t *testing.T) {
	for _, argv := range []string{
		"npx x", "bunx x", "uvx planemo", "pnpx x", "pipx run x", "npm exec x", "npm --yes exec x", "npm --prefix dir exec x", "npm x", "uv run x", "uv tool run x", "uv --offline run x", "yarn dlx x", "pnpm dlx x", "bun x y",
		"/usr/bin/npx x", "env npx x", "env A=1 npm exec x", "timeout 5 uvx x", "python3 -m pipx run x", "go run example.com/x@v1", "deno run npm:x", "nix run x", "pip3 install x", "NPX.exe x",
	} {
		if FetchReason(strings.Fields(argv)) == "" {
			t.Errorf("%s downloads code", argv)
		}
	}
	for _, argv := range []string{"", "npm test", "npm run exec", "node x.js", "pipx list", "uv --version", "python3 -m json.tool", "go run ./cmd/x", "deno run x.ts", "echo npx", "planemo test", "pip list"} {
		if reason := FetchReason(strings.Fields(argv)); reason != "" {
			t.Errorf("%s: %s", argv, reason)
		}
	}
}

func TestValidImage(t *testing.T) {
	d := "@" + digestOf("x")
	for _, s := range []string{"builtin", "debian" + d, "debian:12" + d, "images.example:5000/a/b-c_d.e" + d, "localhost/x" + d, "A.example/x" + d} {
		if !ValidImage(s) {
			t.Errorf("%s is refused", s)
		}
	}
	for _, s := range []string{"", "debian", "debian:12", "debian@sha256:1", d, "Debian" + d, "a b" + d, "a//b" + d, "a/" + d, "-a" + d, "https://x/y" + d, "debian" + d + d, "debian" + d + "\n", "Builtin"} {
		if ValidImage(s) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestValidDecimal(t *testing.T) {
	for _, s := range []string{"0", "7", "-7", "10", "0.5", "-0.5", "9007199254740993", "0.1000000000000000000001", "-12.34"} {
		if !ValidDecimal(s) {
			t.Errorf("%s is refused", s)
		}
	}
	for _, s := range []string{"", "-", "-0", "00", "01", "1.", ".1", "1.0", "1.50", "-0.0", "+1", "1e3", "1E3", "0x1", "1_000", "1,5", " 1", "1 ", "NaN", "Inf", "--1", "1.-5", "٣", "1.2.3"} {
		if ValidDecimal(s) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestFoldKey(t *testing.T) {
	for _, pair := range [][2]string{{"Report.md", "report.md"}, {"\u00e9", "e\u0301"}, {"\u00c9", "e\u0301"}, {"\u017fkill", "SKILL"}, {"K", "\u212a"}, {"\u03a3", "\u03c2"}, {"ẞ", "ss"}, {"\u0345\u0301", "\u0301\u0345"}} {
		if foldKey(pair[0]) != foldKey(pair[1]) {
			t.Errorf("%q and %q are told apart", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{{"a", "b"}, {"e", "é"}, {"a-b", "a_b"}, {"1", "\u00b9"}} {
		if foldKey(pair[0]) == foldKey(pair[1]) {
			t.Errorf("%q and %q are not told apart", pair[0], pair[1])
		}
	}
}

func TestTokens(t *testing.T) {
	s := "{skill} {skill:a.b} {in:x} {out}{scratch} {{out}} {nothing} {in:} {skill:a b} { } {"
	want := "skill|skill:a.b|in:x|out|scratch|out"
	if got := strings.Join(TokensIn(s), "|"); got != want {
		t.Errorf("tokens %s, want %s", got, want)
	}
	got, err := Expand(s, func(token string) (string, bool) { return "<" + token + ">", true })
	if want := "<skill> <skill:a.b> <in:x> <out><scratch> {<out>} {nothing} {in:} {skill:a b} { } {"; err != nil || got != want {
		t.Errorf("expanded to %s (%v)", got, err)
	}
	if _, err := Expand("{out}", func(string) (string, bool) { return "", false }); err == nil {
		t.Error("a token without a value is no error")
	}
	long := "{in:" + strings.Repeat("x", maxIDBytes) + "}"
	if len(TokensIn(long)) != 1 || len(TokensIn("{in:x"+long[4:])) != 0 {
		t.Error("the longest id is not the longest")
	}
	long = "{skill:" + strings.Repeat("x", maxIDBytes) + "}"
	if len(TokensIn(long)) != 1 {
		t.Error("the longest token is not found")
	}
}
