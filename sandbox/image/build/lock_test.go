package build

import (
	"strings"
	"testing"
)

const goodLock = `{"format":1,"suite":"trixie","architecture":"amd64","packages":[` +
	`{"name":"a0","version":"1:2.0-1","architecture":"amd64","sha256":"` + zeros + `"},` +
	`{"name":"b0","version":"1","architecture":"all","sha256":"` + zeros + `"}]}`

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func TestDecodeLock(t *testing.T) {
	for what, c := range map[string]struct{ old, new, want string }{
		"good":         {"", "", ""},
		"format":       {`"format":1`, `"format":2`, "the format 2, and this program reads 1"},
		"key":          {`"suite"`, `"suit"`, `unknown field "suit"`},
		"suite":        {`trixie`, `../x`, "not for a suite of Debian on amd64"},
		"architecture": {`"architecture":"amd64","packages"`, `"architecture":"arm64","packages"`, "not for a suite of Debian on amd64"},
		"name":         {`"a0"`, `"-o"`, "package 1 is not one"},
		"version":      {`"1:2.0-1"`, `"1/2"`, "package 1 is not one"},
		"hash":         {`"` + zeros + `"}]`, `"0"}]`, "package 2 is not one"},
		"of another":   {`"all"`, `"arm64"`, "package 2 is not one"},
		"order":        {`"b0"`, `"a0"`, "not sorted by name, each once: a0"},
		"cut":          {`]}`, ``, "unexpected EOF"},
	} {
		_, err := decodeLock([]byte(strings.Replace(goodLock, c.old, c.new, 1)))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", what, err, c.want)
		}
	}
}

// What a lock may hold is what apt and a file system take: never an option, a
// place outside of a folder, or a second line.
func FuzzDecodeLock(f *testing.F) {
	f.Add([]byte(goodLock))
	f.Add([]byte(`{"format":1,"suite":"x","architecture":"amd64","with":["apt:jq"],"packages":[],"npm":{"a":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeLock(b)
		if err != nil {
			return
		}
		for _, p := range l.Packages {
			for _, s := range []string{p.Name, p.Version, p.file(), p.SHA256} {
				if s == "" || strings.HasPrefix(s, "-") || strings.ContainsAny(s, "/ \n\x00") || s == ".." {
					t.Errorf("%q", s)
				}
			}
		}
		encoded, err := l.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeLock(encoded); err != nil {
			t.Errorf("what it writes it does not read: %v", err)
		}
	})
}

func TestUpstream(t *testing.T) {
	for in, want := range map[string]string{
		"14.1.1-1+b4": "14.1.1", "10.2.0-1+b5": "10.2.0", "1:2.41.5-0+deb13u1": "2.41.5", "6.3.0+dfsg-3": "6.3.0",
		"1:1.3.dfsg+really1.3.1-1+deb13u1": "1.3", "39+nmu2": "39+nmu2", "1.7.1-6+deb13u1": "1.7.1", "2024-01-02-3": "2024-01-02",
	} {
		if got := (Package{Version: in}).upstream(); got != want {
			t.Errorf("%s: %s, not %s", in, got, want)
		}
	}
}
