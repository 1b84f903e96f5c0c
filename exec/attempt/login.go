package attempt

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"foundry/harness"
	"foundry/sandbox"
)

// maxLogin bounds the file of a login.
const maxLogin = 1 << 20

// minLoginValue is how long a text in a login's file must be to be taken for a
// secret: "oauth" is none.
const minLoginValue = 20

// login is the file of the login that the job's agent is lent, "" for none.
func (a *attempt) login() string {
	if a.job.Harness == nil || a.job.Harness.AuthStore == "" {
		return ""
	}
	return a.Logins[a.job.Harness.AuthStore]
}

// lend links a login of the agent's own to where the agent looks for it. What
// is returned takes the link away again: no folder that is kept has it.
func (a *attempt) lend(sb sandbox.Sandbox) (unlend func() error, err error) {
	none := func() error { return nil }
	file := a.login()
	if file == "" {
		if a.job.Harness != nil && a.job.Harness.AuthStore != "" {
			return none, fmt.Errorf("nobody says where the login %s is", a.job.Harness.AuthStore)
		}
		return none, nil
	}
	lender, ok := a.job.Adapter.(harness.Lender)
	if !ok {
		return none, fmt.Errorf("the adapter %s has no login of its own", a.job.Adapter.Name())
	}
	link, err := sb.Expand(lender.AuthFile())
	if err != nil {
		return none, err
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		return none, err
	}
	if err := os.Symlink(file, link); err != nil {
		return none, err
	}
	return func() error {
		// Where the agent put a file in the link's place, it goes with the folder.
		if target, err := os.Readlink(link); err == nil && target == file {
			return os.Remove(link)
		}
		return nil
	}, nil
}

// loginValues are the texts in a login's file that may be secrets.
func loginValues(file string) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil // the agent will say so
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxLogin))
	if err != nil {
		return nil
	}
	var doc any
	if json.Unmarshal(data, &doc) != nil {
		return nil
	}
	var found []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if len(v) >= minLoginValue {
				found = append(found, v)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(doc)
	return found
}
