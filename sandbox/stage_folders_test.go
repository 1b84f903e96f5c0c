package sandbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"foundry/plan"
)

func TestOwnFolders(t *testing.T) {
	p := plan.Process{
		Cwd: "{scratch}/work",
		Env: []string{"HOME={scratch}/home", "XDG_CACHE_HOME={scratch}/home/.cache", "TMPDIR={scratch}/home", "XDG_DATA_HOME=/elsewhere",
			"XDG_STATE_HOME={scratch}/../up", "OTHER={scratch}/other", "XDG_CONFIG_HOME={scratch}"},
	}
	expand := func(s string) (string, error) { return strings.ReplaceAll(s, "{scratch}", "/s"), nil }
	got, err := OwnFolders(p, expand, "/s")
	if diff := cmp.Diff([]string{"home", "home/.cache", "work"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	unknown := errors.New("unknown")
	if _, err := OwnFolders(p, func(string) (string, error) { return "", unknown }, "/s"); !errors.Is(err, unknown) {
		t.Error(err)
	}
}
