package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"foundry/cmd/foundry/internal/view"
	"foundry/plan"
	"foundry/sandbox"
	"foundry/sandbox/containerd"
	"foundry/sandbox/local"
)

func (a *app) doctorCommand() *cobra.Command {
	var f compileFlags
	var address string
	var asJSON, envNames bool
	cmd := &cobra.Command{
		Use:   "doctor [POLICY|PLAN|DIR]",
		Short: "Say what this machine can run, and what a plan would lack here",
		Long: "Say what this machine gives a sandbox, what each property would be, and what to install. With a\n" +
			"policy, a plan file or a closure: which credentials its harnesses need and whether they are set,\n" +
			"by name alone, and what would keep it from running here; exit 3 then. Nothing of it is run.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if len(args) == 0 {
				if envNames || f.used() {
					return usage("name a policy, a plan or a closure: without one there is nothing to ask for")
				}
				return a.doctor(ctx, address, nil, asJSON)
			}
			s, err := a.load(args[0], &f, nil)
			if err != nil {
				return err
			}
			if s.policy == "" && f.used() {
				return usage("%s is a plan: variables and overrides change nothing of it", args[0])
			}
			if envNames {
				for _, c := range credentials(s.plan) {
					fmt.Fprintln(a.stdout, c.Name)
				}
				return nil
			}
			return a.doctor(ctx, address, s, asJSON)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&address, "containerd", os.Getenv("CONTAINERD_ADDRESS"), "`ADDRESS` of a system containerd; default: an embedded one")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&envNames, "env-names", false, "print the names of the credentials that the plan needs, and nothing else")
	return cmd
}

// doctor looks at the machine, and at what a plan needs of it.
func (a *app) doctor(ctx context.Context, address string, s *source, asJSON bool) error {
	o := containerd.Options{Address: address, Base: containerBase()}
	m := containerd.Inspect(ctx, o)
	d := view.Doctor{
		System: runtime.GOOS + "/" + runtime.GOARCH, Containers: len(m.Missing()) == 0, Machine: m.Facts, Install: toInstall(m.Facts),
		Properties: bothProperties(local.Properties(), m.Properties),
	}
	if s != nil {
		p := diagnose(s.plan, m)
		p.Digest = plan.Digest(s.encoded)
		if d.Containers {
			p.Problems = append(p.Problems, a.imageProblems(ctx, o, s.plan)...)
		}
		p.Runs = len(p.Problems) == 0
		d.Plan = &p
	}
	write := view.WriteDoctor
	if asJSON {
		write = func(_ io.Writer, d view.Doctor) error { return a.json(d) }
	}
	if err := write(a.stdout, d); err != nil {
		return err
	}
	if d.Plan != nil && !d.Plan.Runs {
		return &exitError{code: exitInfrastructure}
	}
	return nil
}

// toInstall lists the packages that are missing, sorted.
func toInstall(facts []containerd.Fact) []string {
	list := []string{}
	for _, f := range facts {
		if f.Package != "" && f.State != containerd.FactOK {
			list = append(list, f.Package)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// bothProperties joins what the two sandboxes give, by name.
func bothProperties(here, container []sandbox.Property) []view.DoctorProperty {
	byName := map[string]sandbox.Property{}
	for _, p := range container {
		byName[p.Name] = p
	}
	list := make([]view.DoctorProperty, 0, len(here))
	for _, p := range here {
		c := byName[p.Name]
		list = append(list, view.DoctorProperty{
			Name: p.Name, Local: p.State, LocalDetail: p.Detail,
			Container: cmp.Or(c.State, view.DoctorUnavailable), ContainerDetail: c.Detail,
		})
	}
	return list
}

// diagnose says what would keep a plan from running, images apart.
func diagnose(p *plan.Plan, m containerd.Machine) view.DoctorPlan {
	d := view.DoctorPlan{Pipeline: p.Pipeline.Name, Modes: modes(p), Credentials: credentials(p), Problems: []string{}}
	add := func(format string, args ...any) { d.Problems = append(d.Problems, fmt.Sprintf(format, args...)) }
	if slices.Contains(d.Modes, plan.SandboxContainer) {
		for _, f := range m.Missing() {
			problem := "containers: " + f.Name + ": " + f.Detail
			if f.Fix != "" {
				problem += "; " + f.Fix
			}
			add("%s", problem)
		}
	}
	for _, c := range d.Credentials {
		if !c.Set {
			add("the credential %s is not set in the environment; %s needs it", c.Name, strings.Join(c.For, ", "))
		}
	}
	known := adapters()
	for _, h := range p.Harnesses {
		ad := known[h.Adapter]
		if ad == nil {
			add("the adapter %q of harness %s is not in this program", h.Adapter, h.Name)
		} else if _, err := ad.Capabilities(h.Version); err != nil {
			add("harness %s: %v", h.Name, err)
		}
	}
	networks := map[string]bool{}
	programs := map[string]bool{}
	for _, n := range p.Nodes {
		switch n.Sandbox.Mode {
		case plan.SandboxContainer:
			if !slices.Contains(containerd.SupportedNetworks(), n.Sandbox.Network) {
				networks[n.Sandbox.Network] = true
			}
		case plan.SandboxLocal:
			programs[n.Process.Argv[0]] = true
		}
	}
	if bounded := diskBounds(p, m); bounded != "" {
		add("%s", bounded)
	}
	for _, n := range slices.Sorted(maps.Keys(networks)) {
		add("the network %q is not built yet for containers (built: %s)", n, strings.Join(containerd.SupportedNetworks(), ", "))
	}
	for _, program := range slices.Sorted(maps.Keys(programs)) {
		if strings.HasPrefix(program, "{") { // this program, or one that the plan brings
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			add("the program %q, which a local step runs, is not on the PATH: install it, or use --sandbox container with an image that holds it", program)
		}
	}
	return d
}

// diskBounds says why an output folder could not be bounded: one that does not
// fit into the step's memory needs a file system on disk.
func diskBounds(p *plan.Plan, m containerd.Machine) string {
	var lacking []string
	for _, f := range m.Facts {
		if (f.Name == "loop devices" || f.Name == "mkfs.ext4") && f.State != containerd.FactOK {
			lacking = append(lacking, f.Name+": "+f.Detail)
		}
	}
	if len(lacking) == 0 {
		return ""
	}
	for _, n := range p.Nodes {
		if n.Sandbox.Mode == plan.SandboxContainer && n.Budget.OutputBytes > 0 && n.Budget.OutputBytes >= n.Sandbox.Resources.MemoryBytes {
			return fmt.Sprintf("the output of step %s, %d bytes, does not fit into its memory, and cannot be bounded on disk: %s", n.ID, n.Budget.OutputBytes, strings.Join(lacking, "; "))
		}
	}
	return ""
}

// modes are the sandboxes of a plan, sorted.
func modes(p *plan.Plan) []string {
	list := []string{}
	for _, n := range p.Nodes {
		list = append(list, n.Sandbox.Mode)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// credentials are those that a plan's steps may use, by name alone, sorted.
func credentials(p *plan.Plan) []view.DoctorCredential {
	users := map[string]map[string]bool{}
	use := func(name, by string) {
		if name == "" {
			return
		}
		if users[name] == nil {
			users[name] = map[string]bool{}
		}
		users[name][by] = true
	}
	providers := map[string]string{}
	for _, pr := range p.Providers {
		providers[pr.Name] = pr.Credential
	}
	for _, h := range p.Harnesses {
		use(providers[h.Provider], "harness "+h.Name)
	}
	for _, n := range p.Nodes {
		by := "step " + n.ID
		if n.Harness != "" {
			by = "harness " + n.Harness
		}
		for _, name := range append(slices.Clone(n.Sandbox.Credentials), n.Sandbox.WorkerCredentials...) {
			use(name, by)
		}
	}
	list := []view.DoctorCredential{}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		list = append(list, view.DoctorCredential{Name: name, Set: credentialSet(name), For: slices.Sorted(maps.Keys(users[name]))})
	}
	return list
}

// imageProblems looks for the images of a plan in the store that its run would
// use.
func (a *app) imageProblems(ctx context.Context, o containerd.Options, p *plan.Plan) []string {
	needed := map[string]bool{}
	for _, n := range p.Nodes {
		if n.Sandbox.Mode == plan.SandboxContainer && n.Sandbox.Image != plan.ImageBuiltin {
			needed[n.Sandbox.Image] = true
		}
	}
	if len(needed) == 0 {
		return nil
	}
	var problems []string
	err := a.withStore(ctx, o.Address, func(r *containerd.Runtime) error {
		images, err := r.Images(ctx)
		for _, ref := range slices.Sorted(maps.Keys(needed)) {
			_, digest, _ := strings.Cut(ref, "@")
			i := slices.IndexFunc(images, func(s containerd.StoredImage) bool { return s.Digest == digest || s.Index == digest })
			if i < 0 {
				problems = append(problems, "the image "+ref+" is not in the store: `foundry image import` brings it in")
			} else if images[i].Problem != "" {
				problems = append(problems, "the image "+ref+": "+images[i].Problem)
			} else if err := sandbox.CheckLabels(ref, images[i].Labels, nil); err != nil {
				problems = append(problems, err.Error())
			}
		}
		return err
	})
	if err != nil {
		problems = append(problems, "the store of images: "+err.Error())
	}
	return problems
}
