package image

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// closure lists what a dynamically linked program needs beside itself: its
// loader and every library, each as path in the image → file on the host. A
// static program needs nothing. Libraries are searched as the loader does:
// DT_RPATH or DT_RUNPATH, the folders of ld.so.conf, the default ones.
func closure(program string) (map[string]string, error) {
	main, err := readELF(program)
	if err != nil {
		return nil, err
	}
	if main.interpreter == "" {
		return nil, nil
	}
	found := map[string]string{main.interpreter: main.interpreter}
	system := append(configured("/etc/ld.so.conf", 0), defaults(main.class, main.machine)...)
	done := map[string]bool{filepath.Base(main.interpreter): true}
	queue := []object{main}
	for len(queue) > 0 {
		o := queue[0]
		queue = queue[1:]
		for _, name := range o.needed {
			if done[name] {
				continue
			}
			done[name] = true
			if strings.Contains(name, "/") {
				return nil, fmt.Errorf("image: %s needs the library %q by path, which cannot be placed in an image: build with CGO_ENABLED=0", o.path, name)
			}
			// A loader asks the program's own RPATH for every library.
			lib, err := locate(name, slices.Concat(o.search, main.search, system), main)
			if err != nil {
				return nil, fmt.Errorf("%w (needed by %s)", err, o.path)
			}
			found[lib.path] = lib.path
			queue = append(queue, lib)
		}
	}
	return found, nil
}

// Loader is the path of the loader that a dynamically linked program names; ""
// of a static one.
func Loader(program string) (string, error) {
	o, err := readELF(program)
	return o.interpreter, err
}

// object is what matters of an ELF file.
type object struct {
	path        string
	class       elf.Class
	machine     elf.Machine
	interpreter string
	needed      []string
	search      []string // DT_RPATH and DT_RUNPATH
}

func readELF(name string) (object, error) {
	f, err := elf.Open(name)
	if err != nil {
		return object{}, fmt.Errorf("image: %s is no ELF file that can be read: %w", name, err)
	}
	defer f.Close()
	o := object{path: name, class: f.Class, machine: f.Machine}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		if p.Filesz > 4096 {
			return object{}, fmt.Errorf("image: %s names a loader of %d bytes", name, p.Filesz)
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return object{}, fmt.Errorf("image: reading the loader's name of %s: %w", name, err)
		}
		o.interpreter = strings.TrimRight(string(b), "\x00")
	}
	if o.needed, err = f.ImportedLibraries(); err != nil {
		return object{}, fmt.Errorf("image: reading the libraries of %s: %w", name, err)
	}
	origin := filepath.Dir(name)
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, err := f.DynString(tag)
		if err != nil {
			continue // a static file has no dynamic section
		}
		for _, list := range paths {
			for p := range strings.SplitSeq(list, ":") {
				p = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(p)
				if filepath.IsAbs(p) {
					o.search = append(o.search, p)
				}
			}
		}
	}
	return o, nil
}

// locate finds a library of the same kind of machine as the program.
func locate(name string, folders []string, like object) (object, error) {
	for _, folder := range folders {
		candidate := filepath.Join(folder, name)
		if info, err := os.Stat(candidate); err != nil || !info.Mode().IsRegular() {
			continue
		}
		o, err := readELF(candidate)
		if err == nil && o.class == like.class && o.machine == like.machine {
			return o, nil
		}
	}
	return object{}, fmt.Errorf("image: the library %s was not found: install it, or build with CGO_ENABLED=0", name)
}

// configured reads the library folders of ld.so.conf and what it includes.
func configured(file string, depth int) []string {
	b, err := os.ReadFile(file)
	if err != nil || depth > 8 {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "include":
			for _, pattern := range fields[1:] {
				if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(filepath.Dir(file), pattern)
				}
				matches, _ := filepath.Glob(pattern) // sorted; a bad pattern matches nothing, as for the loader
				for _, m := range matches {
					out = append(out, configured(m, depth+1)...)
				}
			}
		default:
			out = append(out, fields[0])
		}
	}
	return out
}

// defaults are the folders that a loader looks into by itself.
func defaults(class elf.Class, machine elf.Machine) []string {
	triplet := map[elf.Machine]string{
		elf.EM_X86_64: "x86_64-linux-gnu", elf.EM_AARCH64: "aarch64-linux-gnu",
		elf.EM_RISCV: "riscv64-linux-gnu", elf.EM_PPC64: "powerpc64le-linux-gnu", elf.EM_S390: "s390x-linux-gnu",
	}[machine]
	var out []string
	if triplet != "" {
		out = append(out, "/lib/"+triplet, "/usr/lib/"+triplet)
	}
	if class == elf.ELFCLASS64 {
		out = append(out, "/lib64", "/usr/lib64")
	}
	return append(out, "/lib", "/usr/lib", "/usr/local/lib")
}
