package plan

import (
	"path"
	"slices"
	"strings"
)

// These are lints against accidents, not a boundary: the sandbox is that. They
// know programs by name, and look behind programs that only start others.
var (
	shells = []string{"sh", "ash", "bash", "csh", "cmd", "dash", "elvish", "fish", "ksh", "mksh", "nu", "oksh", "osh", "powershell", "pwsh", "rbash", "tcsh", "xonsh", "yash", "zsh"}
	// stringRunners hand a string to a shell by themselves.
	stringRunners = []string{"eval", "script", "su", "watch"}
	wrappers      = []string{"busybox", "chpst", "chroot", "chrt", "dbus-run-session", "doas", "env", "exec", "find", "flock", "gosu", "gtimeout", "ionice", "ltrace", "nice", "nohup", "nsenter", "numactl", "parallel", "pkexec", "prlimit", "runuser", "setarch", "setpriv", "setsid", "setuidgid", "stdbuf", "strace", "su-exec", "sudo", "taskset", "tini", "dumb-init", "time", "timeout", "toybox", "unbuffer", "unshare", "xargs"}
	fetchers      = []string{"bunx", "npx", "nix-shell", "pnpx", "pkgx", "uvx"}
	// fetchVerbs are subcommands that download what they run.
	fetchVerbs = map[string][]string{
		"bun":   {"x", "create"},
		"conda": {"install", "create"},
		"nix":   {"run", "shell", "develop"},
		"npm":   {"exec", "x", "init", "create", "install", "i", "ci"},
		"pip":   {"install", "download"},
		"pipx":  {"run", "install"},
		"pnpm":  {"dlx", "create", "install", "i"},
		"uv":    {"run", "tool", "pip", "sync"},
		"yarn":  {"dlx", "create", "install"},
	}
)

// ShellReason says why argv runs a shell, or "" if it does not: a shell as
// argv[0] or behind a program that starts others (env, timeout, busybox …), or
// a program that hands a string to a shell.
func ShellReason(argv []string) string {
	argv = Unrelayed(argv)
	for i := range candidates(argv) {
		name := program(argv[i])
		switch {
		case slices.Contains(shells, name):
			if i == 0 {
				return "argv[0] is the shell " + name
			}
			return program(argv[0]) + " starts the shell " + name
		case i == 0 && slices.Contains(stringRunners, name):
			return name + " hands a string to a shell"
		case name == "env" && hasSplit(argv[i+1:]):
			return "env -S splits a string as a shell does"
		}
	}
	return ""
}

// FetchReason says why argv downloads the code that it runs, or "" if it does
// not, as far as the names of the programs tell.
func FetchReason(argv []string) string {
	argv = Unrelayed(argv)
	for i := range candidates(argv) {
		name := program(argv[i])
		if slices.Contains(fetchers, name) {
			return name + " downloads the program that it runs"
		}
		rest := argv[i+1:]
		if (name == "python" || name == "python3") && len(rest) >= 2 && rest[0] == "-m" {
			name, rest = rest[1], rest[2:]
		}
		if verb := firstOf(rest, fetchVerbs[name]); verb != "" {
			return name + " " + verb + " downloads code at run time"
		}
		if name == "go" && firstOf(rest, []string{"run", "install"}) != "" && slices.ContainsFunc(rest, func(a string) bool { return strings.Contains(a, "@") }) {
			return "go run of a version downloads code at run time"
		}
		if name == "deno" && slices.ContainsFunc(rest, func(a string) bool {
			return strings.HasPrefix(a, "npm:") || strings.HasPrefix(a, "jsr:") || strings.HasPrefix(a, "https:") || strings.HasPrefix(a, "http:")
		}) {
			return "deno with a remote module downloads code at run time"
		}
	}
	return ""
}

// maxCandidates bounds the work on a long argv; no command line has a program
// that far behind.
const maxCandidates = 64

// candidates is how many of the first entries of argv may be the program that
// runs: the first, or all behind a program that starts others.
func candidates(argv []string) int {
	if len(argv) > 1 && slices.Contains(wrappers, program(argv[0])) {
		return min(len(argv), maxCandidates)
	}
	return min(len(argv), 1)
}

// program is the name of a program without folder, ending and version.
func program(arg string) string {
	name := strings.TrimSuffix(strings.ToLower(path.Base(strings.ReplaceAll(arg, `\`, "/"))), ".exe")
	if i := strings.IndexAny(name, "-.0123456789"); i > 0 && strings.Trim(name[i:], "-.0123456789") == "" {
		return name[:i]
	}
	return name
}

func hasSplit(args []string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, "-S") || strings.HasPrefix(a, "--split") || a == "-vS" || a == "-iS" {
			return true
		}
		if !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") {
			return false
		}
	}
	return false
}

// firstOf returns the subcommand of args if it is one of verbs. The value of an
// option before it cannot be told from it, so both are looked at.
func firstOf(args, verbs []string) string {
	option := false
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			option = true
			continue
		}
		if slices.Contains(verbs, a) {
			return a
		}
		if !option {
			return ""
		}
		option = false
	}
	return ""
}
