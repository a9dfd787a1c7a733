package config

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// assembler merges the files of a module.
type assembler struct {
	decoder
	m        *Module
	required *requiredProviders          // the block of the primary files
	imported map[addr.Instance]hcl.Range // targets of import blocks
}

// assemble makes a module from its primary files, then from the override files, each in order.
func assemble(dir string, primary, override []*file) (*Module, diag.List) {
	a := &assembler{m: &Module{
		SourceDir: dir,
		Providers: map[addr.LocalProvider]*ProviderConfig{},
		Meta:      map[addr.Provider]*ProviderMeta{},
		Variables: map[string]*Variable{},
		Locals:    map[string]*Local{},
		Outputs:   map[string]*Output{},
		Calls:     map[string]*ModuleCall{},
		Resources: map[addr.Resource]*Resource{},
		Checks:    map[string]*Check{},
	}, imported: map[addr.Instance]hcl.Range{}}
	a.requirements(primary, override)
	for _, f := range primary {
		a.add(f)
	}
	for _, f := range override {
		a.merge(f)
	}
	a.imply()
	return a.m, a.diags
}

// requirements resolves the local names of providers. Everything else depends on it.
func (a *assembler) requirements(primary, override []*file) {
	a.m.Required = map[string]*RequiredProvider{}
	for _, f := range primary {
		for _, r := range f.required {
			if a.required != nil {
				a.err(r.rng, "Duplicate required providers configuration",
					"A module has one required_providers block. The first is at %s.", a.required.rng)
				continue
			}
			a.required = r
			for name, entry := range r.entries {
				a.m.Required[name] = entry
			}
		}
	}
	for _, f := range override {
		for _, r := range f.required {
			for name, entry := range r.entries {
				a.m.Required[name] = entry
			}
		}
	}
}

// add adds the declarations of a primary file.
func (a *assembler) add(f *file) {
	m := a.m
	m.Engine = append(m.Engine, f.engine...)
	a.addSettings(f)
	for _, p := range f.providers {
		if first, dup := m.Providers[p.Local()]; dup {
			hint := "Give all but one of them an alias"
			if p.Alias != "" {
				hint = "Give each its own alias"
			}
			a.err(p.Range, "Duplicate provider configuration", "Provider %s is configured already, at %s. %s.",
				p.Local(), first.Range, hint)
			continue
		}
		m.Providers[p.Local()] = p
	}
	for _, v := range f.variables {
		if first, dup := m.Variables[v.Name]; dup {
			a.duplicate(v.Range, "Duplicate variable declaration", "variable", v.Name, first.Range)
		}
		m.Variables[v.Name] = v
	}
	for _, l := range f.locals {
		if first, dup := m.Locals[l.Name]; dup {
			a.duplicate(l.Range, "Duplicate local value definition", "local value", l.Name, first.Range)
		}
		m.Locals[l.Name] = l
	}
	for _, o := range f.outputs {
		if first, dup := m.Outputs[o.Name]; dup {
			a.duplicate(o.Range, "Duplicate output definition", "output", o.Name, first.Range)
		}
		m.Outputs[o.Name] = o
	}
	for _, c := range f.calls {
		if first, dup := m.Calls[c.Name]; dup {
			a.duplicate(c.Range, "Duplicate module call", "module call", c.Name, first.Range)
		}
		m.Calls[c.Name] = c
	}
	for _, r := range f.resources {
		a.addResource(r)
	}
	for _, c := range f.checks {
		a.addCheck(c)
	}
	m.Moved = append(m.Moved, f.moved...)
	m.Removed = append(m.Removed, f.removed...)
	for _, i := range f.imports {
		a.addImport(i)
	}
}

func (a *assembler) duplicate(at hcl.Range, summary, what, name string, first hcl.Range) {
	a.err(at, summary, "The module has a %s %q already, at %s.", what, name, first)
}

// addSettings adds the settings of terraform blocks.
func (a *assembler) addSettings(f *file) {
	m := a.m
	for _, b := range f.backends {
		if m.Backend != nil {
			a.err(b.Range, "Duplicate backend configuration", "A module has one backend block. The first is at %s.",
				m.Backend.Range)
			continue
		}
		m.Backend = b
	}
	for _, c := range f.clouds {
		if m.Cloud != nil {
			a.err(c.Range, "Duplicate cloud configurations", "A module has one cloud block. The first is at %s.",
				m.Cloud.Range)
			continue
		}
		m.Cloud = c
	}
	if m.Backend != nil && m.Cloud != nil && len(f.backends)+len(f.clouds) > 0 {
		a.err(m.Backend.Range, "Both a backend and a cloud configuration are present",
			"A backend block and a cloud block (at %s) store the state in two different places. Keep one of "+
				"them.", m.Cloud.Range)
	}
	for _, meta := range f.metas {
		p := m.ProviderFor(meta.name)
		if first, dup := m.Meta[p]; dup {
			a.err(meta.rng, "Duplicate provider_meta block", "The module has one for provider %s already, at %s.",
				meta.name, first.Range)
		}
		m.Meta[p] = &ProviderMeta{Provider: p, Config: meta.body, Range: meta.rng, NameRange: meta.at}
	}
	for _, e := range f.encryption {
		if m.Encryption != nil {
			a.err(e.rng, "Duplicate encryption configuration", "A module has one encryption block. The first is at %s.",
				m.EncryptionRange)
			continue
		}
		m.Encryption, m.EncryptionRange = e.body, e.rng
	}
}

var resourceWords = map[addr.Mode]string{addr.Managed: "resource", addr.Data: "data",
	addr.Ephemeral: "ephemeral resource", addr.List: "list", addr.Action: "action"}

func (a *assembler) addResource(r *Resource) bool {
	if first, dup := a.m.Resources[r.Addr]; dup {
		word := resourceWords[r.Addr.Mode]
		a.err(r.Range, "Duplicate "+word+` "`+r.Addr.Type+`" configuration`, "The module has %s already, at %s.",
			r.Addr, first.Range)
		return false
	}
	a.m.Resources[r.Addr] = r
	a.resourceSource(r)
	return true
}

// resourceSource finds the provider of a resource. Invalid local names are reported when the providers of the tree
// are checked.
func (a *assembler) resourceSource(r *Resource) {
	if _, err := addr.ParseProviderLabel(r.Provider.Name); err == nil {
		r.Source = a.m.ProviderFor(r.Provider.Name)
	}
}

func (a *assembler) addCheck(c *Check) {
	if c.Data != nil && !a.addResource(c.Data) {
		return
	}
	if first, dup := a.m.Checks[c.Name]; dup {
		a.duplicate(c.Range, `Duplicate check "`+first.Name+`" configuration`, "check", c.Name, first.Range)
		return
	}
	a.m.Checks[c.Name] = c
}

func (a *assembler) addImport(i *Import) {
	if i.ResolvedTo != nil {
		if first, dup := a.imported[*i.ResolvedTo]; dup {
			a.err(i.Range, `Duplicate import configuration for "`+i.ResolvedTo.String()+`"`,
				"There is an import block for this already, at %s.", first)
		} else {
			a.imported[*i.ResolvedTo] = i.Range
		}
	}
	if _, err := addr.ParseProviderLabel(i.Provider.Name); err == nil {
		i.Source = a.m.ProviderFor(i.Provider.Name)
	}
	a.m.Imports = append(a.m.Imports, i)
}

// ProviderFor returns the provider that a local name means in the module.
func (m *Module) ProviderFor(localName string) addr.Provider {
	if r, ok := m.Required[localName]; ok {
		return r.Source
	}
	return addr.DefaultProvider(localName)
}

// imply adds the local names that are used without being declared to the required providers.
func (a *assembler) imply() {
	m := a.m
	use := func(name string, at hcl.Range) {
		if _, known := m.Required[name]; known {
			return
		}
		if _, err := addr.ParseProviderLabel(name); err == nil {
			m.Required[name] = &RequiredProvider{Name: name, Source: addr.DefaultProvider(name),
				Range: at, Implied: true}
		}
	}
	for local, p := range m.Providers {
		use(local.Name, p.Range)
	}
	for _, r := range m.Resources {
		use(r.Provider.Name, r.Range)
	}
	for _, i := range m.Imports {
		if i.Provider.Name != "" {
			use(i.Provider.Name, i.Range)
		}
	}
	for _, c := range m.Calls {
		for _, p := range c.Providers {
			use(p.InParent.Name, p.InParentRange)
		}
	}
}
