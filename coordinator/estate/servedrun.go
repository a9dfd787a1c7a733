package estate

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/lang/diag"
)

// ServedRun is a run of a service.
type ServedRun struct {
	Client *tfc.Client
	ID     string
	URL    string // its page
}

// ServedRun finds a run of a service: by its address, by its ID in the workspace of the configuration, or,
// without either, the newest run in progress in that workspace, or else the newest one. It
// is nil if the configuration uses no service
// that executes runs.
func (e *Estate) ServedRun(ctx context.Context, name string, vars Variables) (*ServedRun, diag.List) {
	if strings.HasPrefix(name, "https://") {
		return e.runAt(ctx, name)
	}
	d, diags := e.AtService(ctx, vars)
	if d == nil || diags.HasErrors() {
		return nil, diags
	}
	if name == "" {
		newest, err := newestRun(ctx, d)
		switch {
		case err != nil:
			return nil, diags.Append(diag.New(diag.Error, "Failed to read the runs", err.Error()+".", nil))
		case newest == nil:
			return nil, diags.Append(diag.New(diag.Error, "Nothing to watch", fmt.Sprintf("The workspace %s/%s has no "+
				"runs yet.", d.Organization, d.Workspace.Name), nil))
		}
		name = newest.ID
	}
	return &ServedRun{d.Client, name, d.URL(name)}, diags
}

// MostRuns is how many runs of a workspace a command looks at, the newest first: a workspace may have thousands.
const MostRuns = 200

// newestRun returns the newest run in progress or, if none is, the newest one; nil if there are no runs. A saved plan
// is not in progress: it may wait for ever.
func newestRun(ctx context.Context, d *Delegated) (newest *tfc.Run, err error) {
	looked := 0
	err = d.Client.Runs(ctx, d.Workspace.ID, func(r *tfc.Run) bool {
		looked++
		going := !r.Status.Final() && r.Status != tfc.PlannedAndSaved
		if newest == nil || going {
			newest = r
		}
		return !going && looked < MostRuns
	})
	return newest, err
}

// RunsAtService is AtService for commands that show runs. A configuration that cannot be read is an error only of the
// runs that begin from now on, so it counts as one without a service.
func (e *Estate) RunsAtService(ctx context.Context, vars Variables) (*Delegated, diag.List) {
	root, diags := e.FindRoot(Finding{Variables: vars, StorageOnly: true})
	if root == nil || diags.HasErrors() {
		return nil, nil
	}
	return e.atService(ctx, root)
}

// runAt finds the run with the given page address.
func (e *Estate) runAt(ctx context.Context, address string) (*ServedRun, diag.List) {
	u, err := url.Parse(address)
	id := ""
	if err == nil {
		parts := strings.Split(strings.Trim(u.Path, "/"), "/")
		if n := len(parts); n >= 2 && parts[n-2] == "runs" {
			id = parts[n-1]
		}
	}
	if id == "" || u.Host == "" {
		return nil, diag.Errors("This is not the address of a run", fmt.Sprintf("The address of the page of a run ends with "+
			"/runs/ID, and %q does not.", address), nil)
	}
	base, err := e.Services.Find(ctx, u.Host, "tfe.v2")
	if err != nil {
		return nil, diag.Errors("The host cannot be asked", err.Error()+".", nil)
	}
	token, err := e.Services.Token(ctx, u.Host)
	switch {
	case err != nil:
		return nil, diag.Errors("The token cannot be read", err.Error()+".", nil)
	case token == "":
		return nil, diag.Errors("Required token could not be found", fmt.Sprintf("There is no token for %s. To get one, "+
			"run:\n  %s login %s", u.Host, diag.Program(), u.Host), nil)
	}
	client := tfc.New(tfc.Options{Base: base, Token: token, HTTP: e.Services.HTTP(),
		Agent: "Millipede/" + e.Version})
	return &ServedRun{client, id, address}, nil
}
