package containerd

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foundry/plan"
)

// A container with its provider has the broker's socket and nothing else: the
// same lo, no route, no resolver, no other socket.
func TestBrokerSocketIsAllOfTheNetwork(t *testing.T) {
	rt := runtimeOf(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "broker.sock")
	broker, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	came := make(chan struct{}, 8)
	go func() {
		for {
			c, err := broker.Accept()
			if err != nil {
				return
			}
			came <- struct{}{}
			c.Close()
		}
	}()
	other := filepath.Join(dir, "other.sock")
	l, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	own := "unix=" + plan.BrokerSocketPath
	closed := []string{"unix=" + other, "unix=" + socket, "unix=/run/containerd/containerd.sock", "tcp=" + tcp.Addr().String(), "tcp=169.254.169.254:80", "tcp=[::1]:80"}
	task := demo(t, "broker", append([]string{"inspect", own}, closed...)...)
	task.Sandbox.Network, task.BrokerSocket = plan.NetworkProvider, socket
	r := run(t, rt, task, nil)
	var p probeResult
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
		t.Fatalf("%v: %s %s", err, r.stdout, r.stderr)
	}
	if got := p.Connect[own]; got != "" || len(came) != 1 {
		t.Errorf("connecting to the broker gives %q, %d connections came", got, len(came))
	}
	for _, target := range closed {
		if got, asked := p.Connect[target]; !asked || got == "" {
			t.Errorf("it could connect to %s", target)
		}
	}
	if len(p.Interfaces) != 1 || !strings.HasPrefix(p.Interfaces[0], "lo ") || p.Routes > 0 || p.Resolve == "" {
		t.Errorf("interfaces %v, %d routes, resolving gives %q", p.Interfaces, p.Routes, p.Resolve)
	}
	if r.facts.Network != plan.NetworkProvider {
		t.Errorf("the network is recorded as %q", r.facts.Network)
	}
	for _, prop := range r.facts.Properties {
		if prop.Name == "network" && (prop.State != "enforced" || !strings.Contains(prop.Detail, "the broker's socket")) {
			t.Errorf("%+v", prop)
		}
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("the socket is the broker's own to remove: %v", err)
	}
}

func TestSocketAndNetworkGoTogether(t *testing.T) {
	rt := runtimeOf(t)
	for _, c := range []struct{ network, socket string }{
		{plan.NetworkProvider, ""}, {plan.NetworkNone, "/tmp/x.sock"}, {plan.NetworkProvider, "relative.sock"},
		{plan.NetworkEgress, ""}, {plan.NetworkBridge, ""},
	} {
		task := demo(t, "mixed", "exit", "0")
		task.Sandbox.Network, task.BrokerSocket = c.network, c.socket
		if _, err := rt.Prepare(t.Context(), task); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
