package view

import (
	"fmt"
	"io"
	"strings"

	"foundry/sandbox/containerd"
)

// DoctorUnavailable is the state of the properties of a sandbox that cannot be
// had at all.
const DoctorUnavailable = "unavailable"

// Doctor is what a machine can do, and what a plan would lack on it. It holds
// names of credentials and never a value.
type Doctor struct {
	System     string            `json:"system"`
	Containers bool              `json:"containers"` // they can run
	Machine    []containerd.Fact `json:"machine"`
	Install    []string          `json:"install"` // packages of Debian and Ubuntu
	Properties []DoctorProperty  `json:"properties"`
	Plan       *DoctorPlan       `json:"plan,omitempty"`
}

// DoctorProperty is a promise of a sandbox, in both of them.
type DoctorProperty struct {
	Name            string `json:"name"`
	Local           string `json:"local"`
	LocalDetail     string `json:"local_detail"`
	Container       string `json:"container"`
	ContainerDetail string `json:"container_detail,omitempty"`
}

// DoctorPlan is a plan on this machine.
type DoctorPlan struct {
	Pipeline    string             `json:"pipeline"`
	Digest      string             `json:"digest"`
	Modes       []string           `json:"sandboxes"`
	Credentials []DoctorCredential `json:"credentials"`
	Problems    []string           `json:"problems"`
	Runs        bool               `json:"runs"` // nothing is known that would keep it from running
}

// DoctorCredential is a credential by name.
type DoctorCredential struct {
	Name string   `json:"name"`
	Set  bool     `json:"set"` // in the environment of this program
	For  []string `json:"for"`
}

// WriteDoctor writes it for people.
func WriteDoctor(w io.Writer, d Doctor) error {
	var b strings.Builder
	b.WriteString("This machine\n")
	for _, f := range d.Machine {
		fmt.Fprintf(&b, "  %-8s %-16s %s\n", f.State, f.Name, Safe(f.Detail))
		if f.Fix != "" {
			fix := f.Fix
			if f.Package != "" {
				fix += ": apt-get install " + f.Package
			}
			for _, line := range wrap(Safe(fix), wrapColumns-27) {
				fmt.Fprintf(&b, "%27s%s\n", "", line)
			}
		}
	}
	if len(d.Install) > 0 {
		fmt.Fprintf(&b, "  To install: apt-get install %s\n", strings.Join(d.Install, " "))
	}
	b.WriteString("\nWhat a sandbox gives here\n")
	fmt.Fprintf(&b, "  %-14s %-14s %s\n", "", "local", "container")
	for _, p := range d.Properties {
		detail := ""
		if p.ContainerDetail != "" {
			detail = " (" + p.ContainerDetail + ")"
		}
		fmt.Fprintf(&b, "  %-14s %-14s %s%s\n", p.Name, p.Local, p.Container, Safe(detail))
	}
	b.WriteString("  The local sandbox is no security boundary.\n")
	if d.Plan != nil {
		d.Plan.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *DoctorPlan) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nThe plan of %s\n  %s\n  sandboxes: %s\n", Safe(p.Pipeline), p.Digest, strings.Join(p.Modes, ", "))
	for _, c := range p.Credentials {
		state := "not set"
		if c.Set {
			state = "set"
		}
		fmt.Fprintf(b, "  credential %s: %s, for %s\n", Safe(c.Name), state, Safe(strings.Join(c.For, ", ")))
	}
	if len(p.Credentials) == 0 {
		b.WriteString("  It needs no credential.\n")
	}
	if p.Runs {
		b.WriteString("  Nothing is known that would keep it from running here.\n")
		return
	}
	b.WriteString("  It cannot run here:\n")
	for _, problem := range p.Problems {
		for i, line := range wrap(Safe(problem), wrapColumns) {
			lead := "    "
			if i == 0 {
				lead = "  - "
			}
			fmt.Fprintf(b, "%s%s\n", lead, line)
		}
	}
}
