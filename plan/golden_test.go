package plan

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write schema.json and the golden files again")

// golden compares data with a file, or writes it.
func golden(t *testing.T, name string, data []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", name, cmp.Diff(string(want), string(data)))
	}
}

func TestGoldenPlans(t *testing.T) {
	var digests []string
	for name, build := range samples() {
		p := build()
		data, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", name+".plan.json"), data)
		digests = append(digests, fmt.Sprintf("%s  %s.plan.json\n", Digest(data), name))

		back, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(p, back, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: another value came back:\n%s", name, d)
		}
		again, err := Encode(back)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s: encode, decode, encode gives other bytes (%v)", name, err)
		}
		for _, problem := range Validate(back) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	sort.Strings(digests)
	golden(t, filepath.Join("testdata", "digests.txt"), []byte(strings.Join(digests, "")))
}
