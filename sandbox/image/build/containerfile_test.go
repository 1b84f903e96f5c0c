package build

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"foundry/sandbox/image"
)

// The Containerfile of an adapter makes the image that this program would: the
// same versions of what is added to Debian, the same npm lock and places, the
// same labels and user.
func TestContainerfile(t *testing.T) {
	l, err := readLock("")
	if err != nil {
		t.Fatal(err)
	}
	for adapter, r := range recipes {
		b, err := os.ReadFile(filepath.Join("..", adapter, "Containerfile"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, name := range basePackages {
			p, _ := l.find(name)
			if name != "usr-is-merged" && !strings.Contains(text, " "+name+"="+p.Version+" ") { // that one is in Debian's image
				t.Errorf("%s: it does not install %s=%s", adapter, name, p.Version)
			}
		}
		pins := regexp.MustCompile(`\s[a-z0-9+.-]+=[0-9]\S*`).FindAllString(text[strings.LastIndex(text, "FROM "):], -1)
		if len(pins) != len(basePackages)-1 {
			t.Errorf("%s: it pins %q", adapter, pins)
		}
		program := path.Join("../lib/foundry", adapter, "node_modules", r.npm, r.program)
		for _, want := range []string{
			"FROM debian:" + l.Suite + "-slim\n", "FROM debian:" + l.Suite + "-slim AS npm\n",
			"COPY ${VERSION}/package.json ${VERSION}/package-lock.json ./\n", "npm ci --ignore-scripts --omit=dev ",
			"mv node_modules/" + nodePackage + "/bin/node ", "rm -rf node_modules/" + nodePackage + " ",
			"ln -s ../../bin/fdfind /usr/local/bin/fd ", "ln -s " + program + " /usr/local/bin/" + adapter + "\n",
			"COPY --from=npm /build/node /usr/local/bin/node\n", "COPY --from=npm /build/node_modules /usr/local/lib/foundry/" + adapter + "/node_modules\n",
			"\nUSER 65534:65534\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: it has no %q", adapter, want)
			}
		}
		have := map[string]string{}
		for _, m := range regexp.MustCompile(`\s(foundry\.[a-z.]+)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			have[m[1]] = m[2]
		}
		for _, version := range Versions(adapter) {
			content, err := image.Recipes.ReadFile(path.Join(adapter, version, "package.json"))
			if err != nil {
				t.Fatal(err)
			}
			var m manifest
			if err := json.Unmarshal(content, &m); err != nil {
				t.Fatal(err)
			}
			want, err := (&builder{Options: Options{Adapter: adapter, Version: version}}).labels(l, m.Dependencies[nodePackage])
			if err != nil {
				t.Fatal(err)
			}
			got := maps.Clone(have)
			for name, value := range got {
				got[name] = strings.ReplaceAll(value, "${VERSION}", version)
			}
			if !maps.Equal(got, want) || m.Dependencies[r.npm] != version {
				t.Errorf("%s %s: its labels are %v, not %v", adapter, version, got, want)
			}
		}
	}
}
