package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"foundry/exec/broker/redact"
	"foundry/plan"
)

// API is the protocol that the broker speaks.
const API = "anthropic-messages"

// Config is the broker of one run.
type Config struct {
	Journal string // file of the spend journal, absolute
	// Mark is where a link to the folder of the sockets is made, so that Sweep
	// finds what a killed broker left; absolute.
	Mark      string
	Providers []plan.Provider // of the plan
	// Credential gives the value of a credential by its name. It is asked once
	// for each, when the first attempt needs it.
	Credential func(name string) (string, error)
	// Script gives the file of a scripted provider by its bundle's id.
	Script func(bundle string) ([]byte, error)
	// Transport carries the requests to real providers. nil is one that verifies
	// TLS, follows no redirect, and takes the proxy of this process's environment
	// for what is not on this machine.
	Transport http.RoundTripper
}

// Broker is safe for concurrent use.
type Broker struct {
	cfg       Config
	transport http.RoundTripper
	sockets   string // private folder

	mu       sync.Mutex
	journal  *journal
	attempts map[string]*ledger // of this broker and those before it
	open     map[*Endpoint]bool
	values   map[string]string // of credentials
	scripts  map[string]*Script
	closed   bool
}

// Open begins a run's broker, or goes on with the journal of one that was
// killed.
func Open(cfg Config) (*Broker, error) {
	sockets, err := os.MkdirTemp("", socketPrefix) // a short name: the path of a socket has 107 bytes at most
	if err != nil {
		return nil, fmt.Errorf("broker: the folder of its sockets: %w", err)
	}
	if cfg.Mark != "" {
		if err := os.Symlink(sockets, cfg.Mark); err != nil {
			return nil, errors.Join(fmt.Errorf("broker: the mark of its sockets: %w", err), os.RemoveAll(sockets))
		}
	}
	j, attempts, err := openJournal(cfg.Journal)
	if err != nil {
		return nil, errors.Join(err, Sweep(cfg.Mark), os.RemoveAll(sockets))
	}
	b := &Broker{cfg: cfg, transport: cfg.Transport, sockets: sockets, journal: j, attempts: attempts,
		open: map[*Endpoint]bool{}, values: map[string]string{}, scripts: map[string]*Script{}}
	if b.transport == nil {
		b.transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			TLSHandshakeTimeout:   30 * time.Second,
			ResponseHeaderTimeout: 10 * time.Minute,
			IdleConnTimeout:       90 * time.Second,
		}
	}
	return b, nil
}

// Close ends all endpoints and removes the sockets.
func (b *Broker) Close() error {
	b.mu.Lock()
	open := make([]*Endpoint, 0, len(b.open))
	for e := range b.open {
		open = append(open, e)
	}
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if closed {
		return nil
	}
	for _, e := range open {
		e.Close()
	}
	if t, ok := b.transport.(*http.Transport); ok && b.cfg.Transport == nil {
		t.CloseIdleConnections()
	}
	return errors.Join(b.journal.f.Close(), os.RemoveAll(b.sockets), Sweep(b.cfg.Mark))
}

// socketPrefix begins the name of a folder of sockets.
const socketPrefix = "foundry-broker-"

// Sweep removes the sockets of a killed broker by its mark, and the mark. A
// worker may have changed where the mark leads: nothing but sockets goes, out of
// a folder that has a broker's name, and only where such folders are.
func Sweep(mark string) error {
	if mark == "" {
		return nil
	}
	dir, err := os.Readlink(mark)
	if err != nil {
		return nil // there is none
	}
	if filepath.Dir(dir) == filepath.Clean(os.TempDir()) && strings.HasPrefix(filepath.Base(dir), socketPrefix) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if e.Type() == fs.ModeSocket {
				err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
			}
		}
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(mark)
}

// Spent is what an attempt has spent, also one of an earlier broker of the run.
func (b *Broker) Spent(attempt string) Spend {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.attempts[attempt]; l != nil {
		return l.total()
	}
	return Spend{}
}

// Secrets are the values that nothing may keep: those of the credentials that
// were asked for, and the tokens of the attempts.
func (b *Broker) Secrets() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, v := range b.values {
		out = append(out, v)
	}
	for e := range b.open {
		out = append(out, e.token)
	}
	slices.Sort(out)
	return out
}

// EndpointOptions is one attempt's way to its provider.
type EndpointOptions struct {
	Attempt  string // unique in the run
	Provider string
	Model    string
	// TCP listens on the loopback interface beside the socket, for a process that
	// has no relay.
	TCP bool
	// Node, Iteration and Expand are for a scripted provider.
	Node      string
	Iteration int64
	Expand    func(string) (string, error)
	// Transcripts is the folder for requests and answers, "" for none. It is made
	// with the first of them.
	Transcripts string
}

// Endpoint opens the way of one attempt. Until Arm everything is refused.
func (b *Broker) Endpoint(o EndpointOptions) (*Endpoint, error) {
	p, m, err := b.find(o.Provider, o.Model)
	if err != nil {
		return nil, err
	}
	pr, err := priceOf(*m)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{b: b, o: o, model: m.ID, price: pr, ledger: newLedger(), ending: make(chan struct{})}
	if p.Credential != "" {
		if e.credential, err = b.value(p.Credential); err != nil {
			return nil, err
		}
	}
	if err := e.reach(p); err != nil {
		return nil, err
	}
	if e.secrets, err = redact.New(e.credential); err != nil {
		return nil, fmt.Errorf("broker: the credential %s: %w", p.Credential, err)
	}
	var token [32]byte
	rand.Read(token[:]) // never fails
	e.token = hex.EncodeToString(token[:])
	if err := e.listen(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		e.shut()
		return nil, errors.New("broker: it is closed")
	}
	if b.attempts[o.Attempt] != nil {
		e.shut()
		return nil, fmt.Errorf("broker: attempt %s has spent before: an attempt has one endpoint", o.Attempt)
	}
	b.attempts[o.Attempt], b.open[e] = e.ledger, true
	return e, nil
}

func (b *Broker) find(provider, model string) (*plan.Provider, *plan.Model, error) {
	for i := range b.cfg.Providers {
		p := &b.cfg.Providers[i]
		if p.Name != provider {
			continue
		}
		if p.API != API {
			return nil, nil, fmt.Errorf("broker: the provider %s speaks %q, and this version speaks %s alone", p.Name, p.API, API)
		}
		for k := range p.Models {
			if p.Models[k].ID == model {
				return p, &p.Models[k], nil
			}
		}
		return nil, nil, fmt.Errorf("broker: the provider %s has no model %q in the plan", provider, model)
	}
	return nil, nil, fmt.Errorf("broker: the plan has no provider %q", provider)
}

// value asks for a credential once.
func (b *Broker) value(name string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.values[name]; ok {
		return v, nil
	}
	if b.cfg.Credential == nil {
		return "", fmt.Errorf("broker: the credential %s is needed, and nobody gives it", name)
	}
	v, err := b.cfg.Credential(name)
	if err != nil {
		return "", fmt.Errorf("broker: the credential %s: %w", name, err)
	}
	if v == "" || strings.ContainsAny(v, "\r\n\x00") {
		return "", fmt.Errorf("broker: the credential %s is empty, or holds a line end", name)
	}
	b.values[name] = v
	return v, nil
}

// reach sets where the requests go.
func (e *Endpoint) reach(p *plan.Provider) error {
	if p.Script == "" {
		base, err := url.Parse(p.BaseURL)
		if err != nil || base.Host == "" {
			return fmt.Errorf("broker: the provider %s has the address %q", p.Name, p.BaseURL)
		}
		e.base, e.upstream = base, e.b.transport
		return nil
	}
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	s := e.b.scripts[p.Script]
	if s == nil {
		if e.b.cfg.Script == nil {
			return fmt.Errorf("broker: nobody gives the script of the provider %s", p.Name)
		}
		data, err := e.b.cfg.Script(p.Script)
		if err != nil {
			return fmt.Errorf("broker: the script of the provider %s: %w", p.Name, err)
		}
		if s, err = DecodeScript(data); err != nil {
			return fmt.Errorf("broker: the script of the provider %s: %w", p.Name, err)
		}
		e.b.scripts[p.Script] = s
	}
	e.base = &url.URL{Scheme: "http", Host: "script.invalid"}
	e.upstream = s.player(e.o)
	return nil
}

// listen opens the socket, and the port where one is asked for.
func (e *Endpoint) listen() error {
	e.socket = filepath.Join(e.b.sockets, hex.EncodeToString([]byte(e.token[:8]))+".sock")
	l, err := net.Listen("unix", e.socket)
	if err != nil {
		return fmt.Errorf("broker: the socket of attempt %s: %w", e.o.Attempt, err)
	}
	listeners := []net.Listener{l}
	if e.o.TCP {
		t, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			l.Close()
			return fmt.Errorf("broker: the port of attempt %s: %w", e.o.Attempt, err)
		}
		e.url = "http://" + t.Addr().String()
		listeners = append(listeners, t)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.server = &http.Server{
		Handler:           e,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          silent,
	}
	for _, l := range listeners {
		e.serving.Go(func() { _ = e.server.Serve(l) }) // it ends with the server
	}
	return nil
}
