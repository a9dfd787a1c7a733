package estate

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/millipede-iac/millipede/backend"
	backendremote "github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/remote"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Delegated is an operation that the service of the configuration executes.
type Delegated struct {
	remote.Session
	// Dir is the directory to upload; empty if there is no configuration.
	Dir string
	// Variables are the given variables, except for those in files that are uploaded.
	Variables []tfc.RunVariable
}

// Service opens the service of the root module's cloud block or backend "remote"; nil if there is none.
func (e *backends) Service(ctx context.Context, root *config.Node) (*backendremote.Store, diag.List) {
	block := backendBlock(root)
	if e.Backend != nil || block == nil || !namesService(block) {
		return nil, nil
	}
	b, diags := e.OpenBackend(ctx, root, StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	s, _ := backend.Plain(b).(*backendremote.Store)
	return s, diags
}

// namesService reports whether a block refers to a service.
func namesService(block *config.Backend) bool {
	return block.OwnBlock || block.Type == backendremote.Remote().Name
}

// delegate returns the operation that the service executes; nil if it is executed locally.
func (e *Estate) delegate(ctx context.Context, c *Configuration) (*Delegated, diag.List) {
	d, diags := e.atService(ctx, c.Tree.Root)
	if d == nil || diags.HasErrors() {
		return nil, diags
	}
	if c.HasFiles() {
		d.Dir = e.Dir
	}
	given, more := c.Given.Given(c.Tree.Root.Module.Variables)
	for name, v := range given {
		if v.Source != config.FromAutoFile {
			text := string(hclwrite.TokensForValue(v.Value).Bytes())
			d.Variables = append(d.Variables, tfc.RunVariable{Key: name, Value: text})
		}
	}
	return d, diags.Append(more)
}

// atService returns the workspace of the service that executes runs; nil if they are executed locally.
func (e *Estate) atService(ctx context.Context, root *config.Node) (*Delegated, diag.List) {
	s, diags := e.Service(ctx, root)
	if s == nil || diags.HasErrors() {
		return nil, diags
	}
	w, err := s.Workspace(ctx, e.Workspace())
	switch {
	case errors.Is(err, backendremote.ErrNoSuchWorkspace):
		return nil, diags.Append(diag.New(diag.Error, "The workspace is not there", fmt.Sprintf("%s. To make it, or to "+
			"select another one, run \"%s init\".", err, diag.Program()), nil))
	case err != nil:
		return nil, diags.Append(diag.New(diag.Error, "Failed to read the workspace", err.Error()+".", nil))
	case s.RunsHere(w):
		return nil, diags
	}
	return &Delegated{Session: remote.Session{
		Client: s.Client(), Host: s.Host(), Organization: s.Organization(), Workspace: w, Tell: e.Tell,
	}}, diags
}

// AtService returns the workspace of the service that executes the configuration's runs; nil if they are executed
// locally. Its Dir and Variables are empty.
func (e *Estate) AtService(ctx context.Context, vars Variables) (*Delegated, diag.List) {
	root, diags := e.FindRoot(Finding{Variables: vars, StorageOnly: true})
	if root == nil || diags.HasErrors() {
		return nil, diags
	}
	return e.atService(ctx, root)
}

// DelegatedRun returns the service's run of a saved plan file; nil if the file is something else. The diagnostics
// say that the plan belongs to another directory.
func (e *Estate) DelegatedRun(ctx context.Context, name string, f Finding) (*Delegated, *tfc.Run, diag.List) {
	text, err := e.read(name, bounds.Text)
	if err != nil {
		return nil, nil, nil // the error is reported when it is read as something else
	}
	saved, diags := remote.ReadSaved(text)
	if saved == nil || diags.HasErrors() {
		return nil, nil, diags
	}
	root, diags := e.FindRoot(f)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	d, more := e.atService(ctx, root)
	switch diags = diags.Append(more); {
	case diags.HasErrors():
		return nil, nil, diags
	case d == nil:
		return nil, nil, diags.Append(diag.New(diag.Error, "Saved plan is kept by a service", fmt.Sprintf("The file %s "+
			"names a plan that the service %s keeps, and the configuration in this directory does not have its runs "+
			"carried out by a service.", name, saved.Host), nil))
	case d.Host != saved.Host:
		return nil, nil, diags.Append(diag.New(diag.Error, "Saved plan is for a different hostname", fmt.Sprintf("The "+
			"plan is kept by %s, and the configuration in this directory names %s.", saved.Host, d.Host), nil))
	}
	r, err := d.Client.RunWith(ctx, saved.Run)
	switch {
	case err != nil:
		return nil, nil, diags.Append(diag.New(diag.Error, "Failed to read the run", fmt.Sprintf("Reading the run %s: "+
			"%s.", saved.Run, err), nil))
	case r.Workspace != d.Workspace.ID:
		return nil, nil, diags.Append(diag.New(diag.Error, "Saved plan is for a different workspace", fmt.Sprintf("The "+
			"run %s is none of the workspace %s/%s.", saved.Run, d.Organization, d.Workspace.Name), nil))
	}
	return d, r, diags
}

// SaveRun writes the file of a plan that a service stores.
func (e *Estate) SaveRun(name, host, run string) diag.List {
	text := remote.Saved{Host: host, Run: run}.Encode()
	if err := wholefile.Write(e.path(name), wholefile.Private, wholefile.Bytes(text)); err != nil {
		return diag.Errors("Failed to write plan file", err.Error()+".", nil)
	}
	return nil
}

// GeneratedBy returns the blocks that a service's plan has generated for import blocks.
func GeneratedBy(p *plan.Plan) []operation.Generated {
	var out []operation.Generated
	for _, c := range p.Changes {
		if c.GeneratedConfig == "" {
			continue
		}
		g := operation.Generated{Addr: c.Addr.Resource, Text: c.GeneratedConfig}
		if c.Importing != nil {
			g.ID = c.Importing.ID
		}
		out = append(out, g)
	}
	return out
}
