package bundle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"foundry/plan"
)

// maxCheck bounds an availability check, in bytes: the longest real one has 46.
const maxCheck = 1024

// builtins are words that only a shell knows.
var builtins = []string{"command", "type", "eval", "exec", "source", ".", "builtin", "hash", "cd", "export", "set", "alias", "trap", "ulimit", "umask", "wait", "read", "exit", "return"}

// ParseCheck translates the availability check of a tool, a line written for a
// shell, into argv and the word that its output must hold ("" when exit code 0
// is enough). It understands "CMD ARGS" and "CMD ARGS | grep -q WORD", of
// literal words; nothing is run. For everything else bad says why, and which
// attribute of the policy to write in its place.
func ParseCheck(tool, check string) (argv []string, expect, bad string) {
	argv, expect, why := parseCheck(check)
	if why == "" {
		return argv, expect, ""
	}
	return nil, "", fmt.Sprintf("%s. Write in the policy what to run in its place: probe %s { argv = [%s, \"--version\"] }, with expect = \"WORD\" if its output must hold a word", capital(why), strconv.Quote(tool), strconv.Quote(tool))
}

func parseCheck(check string) (argv []string, expect, why string) {
	switch {
	case strings.TrimSpace(check) == "":
		return nil, "", "there is no availability check"
	case len(check) > maxCheck:
		return nil, "", fmt.Sprintf("the availability check has %d bytes, more than %d", len(check), maxCheck)
	case strings.ContainsFunc(check, unprintable) || strings.ContainsRune(check, '\uFFFD') || strings.ToValidUTF8(check, "") != check:
		return nil, "", "the availability check has more than one line, or characters that cannot be seen"
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(check), "")
	if err != nil {
		return nil, "", "the availability check is no shell line that can be parsed"
	}
	if len(file.Stmts) != 1 {
		return nil, "", "the availability check is not exactly one command"
	}
	stmt := file.Stmts[0]
	if len(file.Last) > 0 || len(stmt.Comments) > 0 {
		return nil, "", "the availability check holds a comment"
	}
	if pipe, ok := stmt.Cmd.(*syntax.BinaryCmd); ok {
		if why := plainStmt(stmt); why != "" {
			return nil, "", why
		}
		if pipe.Op != syntax.Pipe {
			return nil, "", fmt.Sprintf("the availability check joins commands with %q", pipe.Op)
		}
		if expect, why = grepWord(pipe.Y); why != "" {
			return nil, "", why
		}
		stmt = pipe.X
	}
	if argv, why = simple(stmt); why != "" {
		return nil, "", why
	}
	if why := programWhy(argv); why != "" {
		return nil, "", why
	}
	return argv, expect, ""
}

// plainStmt refuses what may stand around a command.
func plainStmt(s *syntax.Stmt) string {
	switch {
	case s.Negated:
		return "the availability check is negated with \"!\""
	case s.Background || s.Coprocess || s.Disown:
		return "the availability check runs in the background"
	case len(s.Redirs) > 0:
		return "the availability check redirects input or output"
	}
	return ""
}

// simple returns the words of one simple command of literal words.
func simple(s *syntax.Stmt) ([]string, string) {
	if why := plainStmt(s); why != "" {
		return nil, why
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return nil, "the availability check is more than one simple command"
	}
	if len(call.Assigns) > 0 {
		return nil, "the availability check sets a variable"
	}
	if len(call.Args) == 0 {
		return nil, "the availability check names no command"
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		word, why := literal(w)
		if why != "" {
			return nil, why
		}
		words[i] = word
	}
	return words, ""
}

// literal returns the text of a word that no shell would change.
func literal(w *syntax.Word) (string, string) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "\\*?[]{}~^!#=") && !plainEquals(p.Value) {
				return "", fmt.Sprintf("the word %q of the availability check has characters that a shell may change: only quoted ones are literal", clip(p.Value))
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", "the availability check uses $'…'"
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			text, why := doubleQuoted(p)
			if why != "" {
				return "", why
			}
			b.WriteString(text)
		default:
			return "", "the availability check uses a variable, a substitution or a pattern"
		}
	}
	return b.String(), ""
}

// plainEquals reports a word whose only special character is "=", as in
// "--format=json": a shell changes it only where it starts with "=" (zsh).
func plainEquals(s string) bool {
	return !strings.ContainsAny(s, "\\*?[]{}~^!#") && !strings.HasPrefix(s, "=")
}

func doubleQuoted(q *syntax.DblQuoted) (string, string) {
	var b strings.Builder
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || q.Dollar {
			return "", "the availability check uses a variable or a substitution"
		}
		if strings.ContainsAny(lit.Value, "\\!") {
			return "", "the availability check has a backslash or \"!\" in double quotes"
		}
		b.WriteString(lit.Value)
	}
	return b.String(), ""
}

// grepWord returns WORD of "grep -q WORD".
func grepWord(s *syntax.Stmt) (string, string) {
	words, why := simple(s)
	if why != "" {
		return "", why
	}
	if len(words) != 3 || words[0] != "grep" || words[1] != "-q" {
		return "", "the availability check pipes into something other than \"grep -q WORD\""
	}
	word := words[2]
	if word == "" || word[0] == '-' || strings.ContainsAny(word, `.*[]^$\`) {
		return "", fmt.Sprintf("the word that grep looks for, %q, is a pattern or an option", clip(word))
	}
	return word, ""
}

// programWhy refuses programs whose arguments are another program's text, or
// that fetch what they run.
func programWhy(argv []string) string {
	switch {
	case argv[0] == "" || argv[0][0] == '-':
		return "the availability check names no command"
	case slices.Contains(builtins, argv[0]):
		return fmt.Sprintf("%q is a word of the shell and no program", argv[0])
	}
	if why := plan.ShellReason(argv); why != "" {
		return "the availability check runs a shell: " + why
	}
	if why := plan.FetchReason(argv); why != "" {
		return "the availability check fetches code at run time: " + why
	}
	return ""
}
