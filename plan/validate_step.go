package plan

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// step is what a node and a callable template have in common.
type step struct {
	where    string
	kind     string
	skill    string
	nested   []string
	harness  *Harness
	prompt   string
	process  *Process
	files    []File
	inputs   []NodeInput
	outputs  []NodeOutput
	sandbox  *Sandbox
	budget   NodeBudget
	template bool // of a callable: its inputs are known when it is called

	mounted  map[string]*Mount // by source
	places   map[string]int    // destination → index of its mount
	recorded bool              // some recorded bundle is mounted
	ids      map[string]bool   // artifacts of inputs
}

func (v *validator) step(s *step) {
	s.ids = make(map[string]bool, len(s.inputs))
	for i := range s.inputs {
		s.ids[s.inputs[i].Artifact] = true
	}
	v.attemptBudget(s)
	v.sandbox(s)
	v.mounts(s)
	v.argv(s.process.Argv, s.sandbox.AllowShell, s.sandbox.AllowFetch, s.where, ".process.argv")
	for i, arg := range s.process.Argv {
		if bad := v.value(s, arg, true); bad.Summary != "" {
			v.add(bad.Summary, bad.Detail, s.where, ".process.argv[", strconv.Itoa(i), "]")
		}
	}
	v.env(s)
	v.cwd(s)
	if u := s.process.User; !userForm.MatchString(u) && (u != "" || s.sandbox.Mode == SandboxContainer) {
		v.add("invalid user", quote(u)+" is not uid:gid, both above 0", s.where, ".process.user")
	}
	v.fileList(s)
	if !utf8.ValidString(s.prompt) || strings.ContainsRune(s.prompt, 0) {
		v.add("invalid text", "a prompt is UTF-8 without NUL", s.where, ".prompt")
	}
	if bad := v.value(s, s.prompt, false); bad.Summary != "" {
		v.add(bad.Summary, bad.Detail, s.where, ".prompt")
	}
	if s.prompt == "" && s.kind != NodeCheck && s.harness != nil && !s.harness.TestStub {
		v.add("no prompt", "a worker that is no test stub needs one", s.where, ".prompt")
	}
}

// attemptBudget: a check reaches no model, and a worker without a provider none
// either; there 0 is a bound (none at all), everywhere else a mistake.
func (v *validator) attemptBudget(s *step) {
	turns, spend, outputs := int64(1), int64(1), int64(1)
	if s.kind == NodeCheck {
		turns, spend = 0, 0
	}
	if s.harness != nil && s.harness.Provider == "" {
		spend = 0
	}
	if len(s.outputs) == 0 {
		outputs = 0
	}
	b, where := s.budget, s.where+".budget"
	v.within(b.WallSeconds, 1, MaxWallSeconds, where, ".wall_seconds")
	v.within(b.Turns, turns, MaxTurns, where, ".turns")
	v.within(b.ToolCalls, turns, MaxTurns, where, ".tool_calls")
	v.within(b.Tokens, spend, MaxAttemptTokens, where, ".tokens")
	v.within(b.CostMicroUSD, spend, MaxAttemptCost, where, ".cost_micro_usd")
	v.within(b.OutputBytes, outputs, MaxBytes, where, ".output_bytes")
	v.within(b.OutputFiles, outputs, MaxFiles, where, ".output_files")
}

func (v *validator) sandbox(s *step) {
	b, where := s.sandbox, s.where+".sandbox"
	v.word(b.Mode, sandboxes, where, ".mode")
	switch b.Mode {
	case SandboxContainer:
		v.image(b.Image, where, ".image")
	case SandboxLocal:
		if b.Image != "" {
			v.add("misplaced image", "a local process has none", where, ".image")
		}
	}
	if s.harness != nil && s.harness.AuthStore != "" {
		if b.Mode != SandboxLocal {
			v.add("misplaced login", "a login of the agent's own (auth_store) is lent to local processes alone", where, ".mode")
		}
		if b.Network != NetworkBridge {
			v.add("misplaced login", "an agent with a login of its own reaches its provider past the broker: its network is "+NetworkBridge, where, ".network")
		}
	}
	v.word(b.Network, networks, where, ".network")
	if (b.Network == NetworkEgress) != (len(b.EgressHosts) > 0) {
		v.add("misplaced hosts", "the network egress lists its hosts, and no other does", where, ".egress_hosts")
	}
	v.sortedSet(b.EgressHosts, func(h string) bool { return len(h) <= 260 && hostForm.MatchString(h) }, where, ".egress_hosts")
	v.sortedSet(b.Credentials, credentialForm.MatchString, where, ".credentials")
	v.sortedSet(b.WorkerCredentials, credentialForm.MatchString, where, ".worker_credentials")
	for i, name := range b.Credentials {
		if !v.credentials[name] {
			v.add("dangling reference", "no provider uses a credential "+quote(name)+": the broker would have nowhere to send it", where, ".credentials[", strconv.Itoa(i), "]")
		}
	}
	r := b.Resources
	v.within(r.MemoryBytes, 1, MaxMemoryBytes, where, ".resources.memory_bytes")
	v.within(r.PIDs, 1, MaxPIDs, where, ".resources.pids")
	v.within(r.CPUMillis, 1, MaxCPUMillis, where, ".resources.cpu_millis")
}

func (v *validator) image(ref string, path ...string) {
	ok, known := v.images[ref]
	if !known {
		ok = ValidImage(ref)
		v.images[ref] = ok
	}
	if !ok {
		v.add("invalid image", quote(ref)+" is neither NAME@sha256:… nor builtin: a tag can move, a digest cannot", path...)
	}
}

// reservedFolders belong to the kernel, the runtime or this program.
var reservedFolders = []string{"/proc", "/sys", "/dev", "/.foundry"}

func (v *validator) mounts(s *step) {
	s.mounted = make(map[string]*Mount, len(s.sandbox.Mounts))
	destinations := newNames()
	s.places = make(map[string]int, len(s.sandbox.Mounts))
	for i := range s.sandbox.Mounts {
		m := &s.sandbox.Mounts[i]
		bad := func(key, summary, detail string) {
			v.add(summary, detail, s.where, ".sandbox.mounts[", strconv.Itoa(i), "]", key)
		}
		v.mountSource(s, m, bad)
		if s.mounted[m.Source] != nil && m.Source != MountTmpfs {
			bad(".source", "id used twice", quote(m.Source)+" is mounted before: everything is mounted once")
		}
		s.mounted[m.Source] = m
		s.recorded = s.recorded || strings.HasPrefix(m.Source, BundleRecorded+":")
		switch fault := destinationFault(m.Destination); {
		case fault != "":
			bad(".destination", "invalid destination", quote(m.Destination)+": "+fault)
		default:
			if _, twice := s.places[m.Destination]; twice {
				bad(".destination", "colliding names", quote(m.Destination)+" is used twice")
			} else if clash := destinations.takeFolder(m.Destination[1:]); clash != "" {
				bad(".destination", "colliding names", quote(m.Destination)+clash)
			}
			s.places[m.Destination] = i
		}
	}
	for i := range s.sandbox.Mounts {
		v.nesting(s, i)
	}
	if s.kind != NodeCheck && s.kind != NodeJudge && s.mounted[MountOutput] == nil || len(s.outputs) > 0 && s.mounted[MountOutput] == nil {
		v.add("no output mount", "outputs are collected from the one mount of source output", s.where, ".sandbox.mounts")
	}
	for i := range s.inputs {
		if in := &s.inputs[i]; (in.From != FromNone || in.CarriedFrom != "") && s.mounted["in:"+in.Artifact] == nil {
			v.add("input without a mount", quote("in:"+s.inputs[i].Artifact)+" is no source of a mount: the process would not see it", s.where, ".inputs[", strconv.Itoa(i), "]")
		}
	}
	for _, id := range append(slices.Clone(s.nested), s.skill) {
		if id != "" && s.kind != NodeCheck && s.mounted[id] == nil {
			v.add("skill without a mount", quote(id)+" is no source of a mount: the worker would not see it", s.where, ".sandbox.mounts")
		}
	}
}

func (v *validator) mountSource(s *step, m *Mount, bad func(key, summary, detail string)) {
	class, id, _ := strings.Cut(m.Source, ":")
	writable := false
	switch {
	case m.Source == MountOutput, m.Source == MountScratch, m.Source == MountTmpfs:
		writable = true
	case class == "in" && s.template:
		if !ValidID(id) {
			bad(".source", "invalid name", quote(id)+" is no id of an artifact")
		}
	case class == "in":
		if !s.ids[id] {
			bad(".source", "dangling reference", quote(id)+" is no input of this node")
		}
	case class == BundleOracle:
		bad(".source", "mounted oracle", "what grades a worker is in no mount")
	case v.bundles[m.Source] == nil:
		bad(".source", "dangling reference", "there is no bundle "+quote(m.Source))
	}
	switch {
	case writable && m.Mode != MountReadWrite:
		bad(".mode", "wrong mode of a mount", m.Source+" is mounted rw")
	case !writable && m.Mode != MountReadOnly:
		bad(".mode", "wrong mode of a mount", "everything but output, scratch and tmpfs is mounted ro")
	}
	switch {
	case writable && (m.Bytes < 1 || m.Bytes > MaxBytes):
		bad(".bytes", "number out of range", strconv.FormatInt(m.Bytes, 10)+" is not between 1 and "+strconv.Itoa(MaxBytes)+": what can be written to has a bound")
	case !writable && m.Bytes != 0:
		bad(".bytes", "misplaced bound", "only what can be written to has one")
	}
}

func destinationFault(d string) string {
	if d == "" || d[0] != '/' {
		return "it is not absolute"
	}
	if d == "/" {
		return "it is the root"
	}
	if fault := pathFault(d[1:]); fault != "" {
		return fault
	}
	for _, r := range reservedFolders {
		if below(d, r) {
			return r + " belongs to the kernel, the runtime or this program"
		}
	}
	if strings.ContainsAny(d, "{},:") {
		return "it holds one of { } , :"
	}
	return ""
}

// below reports whether the clean absolute path p is dir or lies beneath it.
func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// nesting: only in a tmpfs or scratch, which stand before, can a mount point
// lie; anywhere else it would change what another mount shows.
func (v *validator) nesting(s *step, i int) {
	d := s.sandbox.Mounts[i].Destination
	if destinationFault(d) != "" {
		return
	}
	for outer := path.Dir(d); outer != "/"; outer = path.Dir(outer) {
		k, ok := s.places[outer]
		if !ok {
			continue
		}
		m := &s.sandbox.Mounts[k]
		switch {
		case m.Source != MountTmpfs && m.Source != MountScratch:
			v.add("nested mounts", quote(d)+" lies in "+quote(outer)+", the mount of "+quote(m.Source), s.where, ".sandbox.mounts[", strconv.Itoa(i), "].destination")
		case k > i:
			v.add("nested mounts", quote(outer)+" is mounted later and would hide it: list it before", s.where, ".sandbox.mounts[", strconv.Itoa(i), "].destination")
		}
		return
	}
}

// argv refuses what is no program and its arguments.
func (v *validator) argv(argv []string, allowShell, allowFetch bool, path ...string) {
	if len(argv) == 0 || argv[0] == "" {
		v.add("no program", "argv names at least the program", path...)
		return
	}
	for i, arg := range argv {
		if !utf8.ValidString(arg) || strings.ContainsRune(arg, 0) {
			v.add("invalid text", "an argument is UTF-8 without NUL", append(slices.Clone(path), "[", strconv.Itoa(i), "]")...)
		}
	}
	if reason := ShellReason(argv); reason != "" && !allowShell {
		v.add("runs a shell", reason+": name the program itself, or say allow_shell", path...)
	}
	if reason := FetchReason(argv); reason != "" && !allowFetch {
		v.add("fetches code", reason+": pin it in an image, or say allow_fetch", path...)
	}
}

var envKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (v *validator) env(s *step) {
	last := ""
	for i, entry := range s.process.Env {
		bad := func(summary, detail string) {
			v.add(summary, detail, s.where, ".process.env[", strconv.Itoa(i), "]")
		}
		key, value, ok := strings.Cut(entry, "=")
		if !ok || !envKey.MatchString(key) {
			bad("invalid environment", quote(key)+" is not the start of KEY=value")
			continue
		}
		if !utf8.ValidString(value) || strings.ContainsAny(value, "\x00\n\r") {
			bad("invalid environment", "a value is one line of UTF-8")
		}
		if i > 0 && key <= last {
			bad("not sorted", quote(key)+" stands after "+quote(last)+": the environment is sorted by its keys, without doubles")
		}
		last = key
		if problem := v.value(s, value, true); problem.Summary != "" {
			bad(problem.Summary, problem.Detail)
		}
		if v.secretKey(s, key) && !onlyToken(value) {
			bad("credential in a plan", "the value of "+quote(key)+" would stand in the plan: a worker gets {broker.token}, and the broker holds the credential")
		}
	}
}

// secretKey reports whether a variable is named like a credential.
func (v *validator) secretKey(s *step, key string) bool {
	if _, worker := slices.BinarySearch(s.sandbox.WorkerCredentials, key); worker || v.credentials[key] {
		return true
	}
	upper := strings.ToUpper(key)
	for _, end := range []string{"API_KEY", "APIKEY", "_TOKEN", "SECRET", "PASSWORD", "PASSWD", "_CREDENTIALS", "ACCESS_KEY", "PRIVATE_KEY", "SECRET_KEY"} {
		if strings.HasSuffix(upper, end) {
			return true
		}
	}
	return false
}

// onlyToken reports whether value is empty or nothing but one token.
func onlyToken(value string) bool {
	tokens := TokensIn(value)
	return value == "" || len(tokens) == 1 && value == "{"+tokens[0]+"}"
}

func (v *validator) cwd(s *step) {
	c := s.process.Cwd
	bad := func(detail string) { v.add("invalid working folder", detail, s.where, ".process.cwd") }
	tokens := TokensIn(c)
	if len(tokens) == 1 && strings.HasPrefix(c, "{"+tokens[0]+"}") && !strings.HasPrefix(tokens[0], "broker.") && !strings.HasPrefix(tokens[0], "subagent.") {
		rest := c[len(tokens[0])+2:]
		if rest != "" && (rest[0] != '/' || !ValidPath(rest[1:])) {
			bad(quote(c) + " is not a token and a clean path below it")
		}
		if problem := v.value(s, c, true); problem.Summary != "" {
			bad(problem.Detail)
		}
		return
	}
	if !strings.HasPrefix(c, "/") || path.Clean(c) != c || textFault(c) != "" || !s.inMount(c) {
		bad(quote(c) + " is neither a token such as {scratch} nor a folder of a mount")
	}
}

func (s *step) inMount(p string) bool {
	if len(p) > maxPathBytes {
		return false
	}
	for ; len(p) > 1; p = path.Dir(p) {
		if _, ok := s.places[p]; ok {
			return true
		}
	}
	return false
}

func (v *validator) fileList(s *step) {
	files := newNames()
	for i := range s.files {
		f := &s.files[i]
		rest, ok := strings.CutPrefix(f.Path, "{scratch}/")
		if fault := pathFault(rest); !ok || fault != "" {
			v.add("invalid path", quote(f.Path)+" is not {scratch}/ and a clean path", s.where, ".files[", strconv.Itoa(i), "].path")
		} else if clash := files.take(rest, false); clash != "" {
			v.add("colliding names", quote(f.Path)+clash, s.where, ".files[", strconv.Itoa(i), "].path")
		}
		if !utf8.ValidString(f.Content) {
			v.add("invalid text", "a file is UTF-8", s.where, ".files[", strconv.Itoa(i), "].content")
		}
		if problem := v.value(s, f.Content, false); problem.Summary != "" {
			v.add(problem.Summary, problem.Detail, s.where, ".files[", strconv.Itoa(i), "].content")
		}
	}
	if len(s.files) > 0 && s.mounted[MountScratch] == nil {
		v.add("no scratch mount", "files are written to scratch, which is not mounted", s.where, ".files")
	}
}

// brokenToken is text that is meant to be a token and is none: it would reach
// the process as it stands.
var brokenToken = regexp.MustCompile(`\{(?:skill:|in:|broker\.|subagent\.)[^{}\s"']*\}?`)

// value checks the tokens of one text and, in argv and env, that it holds no
// path of the host. It returns the first problem, without a path.
func (v *validator) value(s *step, text string, paths bool) Problem {
	if strings.Contains(text, "{") {
		for _, t := range TokensIn(text) {
			if reason := s.unresolved(t); reason != "" {
				return Problem{Summary: "token without a value", Detail: "{" + t + "}: " + reason}
			}
		}
		for _, m := range brokenToken.FindAllString(text, -1) {
			if tokens := TokensIn(m); len(tokens) == 0 {
				return Problem{Summary: "unknown token", Detail: quote(m) + " has no value: " + strings.Join(Tokens, " ")}
			}
		}
	}
	if paths {
		for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '=' || r == ':' || r == ',' }) {
			if isHostPath(part) && !s.inMount(path.Clean(part)) {
				return Problem{Summary: "host path", Detail: quote(part) + " is in no mount: a plan must mean the same on every machine"}
			}
		}
		if isDrivePath(text) {
			return Problem{Summary: "host path", Detail: quote(text) + " names a drive: a plan must mean the same on every machine"}
		}
	}
	return Problem{}
}

// systemFolders are those that an image or an operating system brings along;
// no user and no checkout lives there.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/etc", "/tmp", "/dev/null", "/.foundry"}

// isHostPath reports whether text is an absolute path of two names or more
// outside the folders of a system. One name is no path: /compact is a command
// of an agent.
func isHostPath(text string) bool {
	if len(text) < 2 || text[0] != '/' || text[1] == '/' || strings.ContainsAny(text, " \t\n") || !strings.Contains(text[1:], "/") {
		return false
	}
	clean := path.Clean(text)
	return !slices.ContainsFunc(systemFolders, func(dir string) bool { return below(clean, dir) })
}

// unresolved says why a token has no value in this step, "" if it has one.
func (s *step) unresolved(token string) string {
	mounted := func(source string) string {
		if s.mounted[source] == nil {
			return source + " is not mounted"
		}
		return ""
	}
	class, id, _ := strings.Cut(token, ":")
	switch {
	case token == "foundry":
		return ""
	case token == "skill":
		if s.skill == "" {
			return "there is no skill"
		}
		return mounted(s.skill)
	case token == "out":
		return mounted(MountOutput)
	case token == "scratch":
		return mounted(MountScratch)
	case token == "recorded":
		if s.recorded {
			return ""
		}
		return "no recorded bundle is mounted"
	case class == "skill":
		return mounted(token)
	case class == "in":
		if !s.ids[id] && !s.template {
			return quote(id) + " is no input of this node"
		}
		return mounted(token)
	case strings.HasPrefix(token, "broker."):
		if s.sandbox.Network == NetworkNone || s.kind == NodeCheck {
			return "without a network, and in a check, there is no broker"
		}
	case strings.HasPrefix(token, "subagent."):
		if s.kind != NodeParent {
			return "only the parent of a black-box plan may call subagents"
		}
	}
	return ""
}
