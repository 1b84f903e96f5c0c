package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium, driven by chromedriver over WebDriver's
// plain HTTP.
type browser struct {
	t       *testing.T
	session string // URL
	client  *http.Client
}

// needChromium skips a test where there is no browser. In CI that is a failure.
func needChromium(t *testing.T) {
	t.Helper()
	for _, name := range []string{"chromium", "chromedriver"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%v, and in CI the pictures must be tested", err)
			}
			t.Skipf("%v: pages are tested in a real browser", err)
		}
	}
}

var driverPort = regexp.MustCompile(`started successfully on port (\d+)`)

// newBrowser starts a browser, which ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	needChromium(t)
	// Sockets are made below it: a test's own folder has too long a name.
	dir, err := os.MkdirTemp("", "chr")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromedriver", "--port=0")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, client: &http.Client{Timeout: time.Minute}}
	t.Cleanup(func() {
		if b.session != "" {
			if req, err := http.NewRequest(http.MethodDelete, b.session, nil); err == nil {
				if resp, err := b.client.Do(req); err == nil {
					resp.Body.Close()
				}
			}
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the browser left something: %v", err)
		}
	})
	port := ""
	for lines := bufio.NewScanner(out); port == "" && lines.Scan(); {
		if m := driverPort.FindStringSubmatch(lines.Text()); m != nil {
			port = m[1]
		}
	}
	if port == "" {
		t.Fatal("chromedriver did not start")
	}
	go func() { // it must not block on a full pipe
		for s := bufio.NewScanner(out); s.Scan(); {
		}
	}()
	b.session = "http://127.0.0.1:" + port
	var made struct{ SessionID string }
	b.do("/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:chromeOptions": map[string]any{"args": []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--window-size=1400,1000"}},
		"goog:loggingPrefs":  map[string]string{"browser": "ALL", "performance": "ALL"},
	}}}, &made)
	b.session += "/session/" + made.SessionID
	return b
}

// do sends a command; a body of nil is a GET.
func (b *browser) do(path string, body, result any) {
	b.t.Helper()
	method, data := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		var err error
		if data, err = json.Marshal(body); err != nil {
			b.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, b.session+path, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		b.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s: %.600s", path, resp.Status, answer.Value)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Value, result); err != nil {
			b.t.Fatalf("%s: %v in %.600s", path, err, answer.Value)
		}
	}
}

// devtools sends a command of Chromium's own protocol.
func (b *browser) devtools(cmd string, params any) {
	b.t.Helper()
	b.do("/goog/cdp/execute", map[string]any{"cmd": cmd, "params": params}, nil)
}

// open shows a file in one of the two colour schemes.
func (b *browser) open(file, scheme string) {
	b.t.Helper()
	b.devtools("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
	b.do("/url", map[string]string{"url": "file://" + file}, nil)
}

// run evaluates the body of a function in the page.
func (b *browser) run(script string, result any, args ...any) {
	b.t.Helper()
	if args == nil {
		args = []any{}
	}
	b.do("/execute/sync", map[string]any{"script": script, "args": args}, result)
}

// Keys, as WebDriver names them.
const (
	keyTab    = "\ue004"
	keyEnter  = "\ue007"
	keyEscape = "\ue00c"
	keySpace  = " "
	keyDown   = "\ue015"
)

// press presses a key and lets it go.
func (b *browser) press(key string) {
	b.t.Helper()
	b.do("/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keyboard", "actions": []any{
		map[string]string{"type": "keyDown", "value": key}, map[string]string{"type": "keyUp", "value": key},
	}}}}, nil)
}

// click clicks the middle of the element of a selector.
func (b *browser) click(selector string) {
	b.t.Helper()
	var found map[string]string
	b.do("/element", map[string]string{"using": "css selector", "value": selector}, &found)
	for _, id := range found {
		b.do("/element/"+id+"/click", map[string]any{}, nil)
	}
}

// complaints are what the page wrote to the console, and what it asked a host
// for, since the last call.
func (b *browser) complaints() []string {
	b.t.Helper()
	var out []string
	var entries []struct{ Level, Message string }
	b.do("/se/log", map[string]string{"type": "browser"}, &entries)
	for _, e := range entries {
		out = append(out, e.Level+" "+e.Message)
	}
	b.do("/se/log", map[string]string{"type": "performance"}, &entries)
	for _, e := range entries {
		var m struct {
			Message struct {
				Method string
				Params struct{ Request struct{ URL string } }
			}
		}
		if err := json.Unmarshal([]byte(e.Message), &m); err != nil {
			b.t.Fatal(err)
		}
		if url := m.Message.Params.Request.URL; m.Message.Method == "Network.requestWillBeSent" && !regexp.MustCompile(`^file:///`).MatchString(url) {
			out = append(out, fmt.Sprintf("request for %s", url))
		}
	}
	return out
}
