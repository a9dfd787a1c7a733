package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/millipede-iac/millipede/cloud/tfc"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/remote"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

// watchedRun is a run of a service to watch.
type watchedRun struct {
	client *tfc.Client
	id     string
	url    string // its page
}

// servedRun finds a run of a service: by its address, by its ID in the workspace of the configuration, or,
// without either, the newest unfinished run of that workspace. It is nil if the configuration uses no service
// that executes runs.
func (a *app) servedRun(ctx context.Context, name string, vars estate.Variables) (*watchedRun, diag.List) {
	if strings.HasPrefix(name, "https://") {
		return a.runAt(ctx, name)
	}
	d, diags := a.Estate.AtService(ctx, vars)
	if d == nil || diags.HasErrors() {
		return nil, diags
	}
	if name == "" {
		var newest *tfc.Run
		err := d.Client.Runs(ctx, d.Workspace.ID, func(r *tfc.Run) bool {
			if newest == nil || newest.Status.Final() && !r.Status.Final() {
				newest = r
			}
			return newest.Status.Final() && !r.Status.Final()
		})
		switch {
		case err != nil:
			return nil, diags.Append(diag.New(diag.Error, "Failed to read the runs", err.Error()+".", nil))
		case newest == nil:
			return nil, diags.Append(diag.New(diag.Error, "Nothing to watch", fmt.Sprintf("The workspace %s/%s has no "+
				"runs yet.", d.Organization, d.Workspace.Name), nil))
		}
		name = newest.ID
	}
	return &watchedRun{d.Client, name, d.URL(name)}, diags
}

// runAt finds the run with the given page address.
func (a *app) runAt(ctx context.Context, address string) (*watchedRun, diag.List) {
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
	base, err := a.Services.Find(ctx, u.Host, "tfe.v2")
	if err != nil {
		return nil, diag.Errors("The host cannot be asked", err.Error()+".", nil)
	}
	token, err := a.Services.Token(ctx, u.Host)
	switch {
	case err != nil:
		return nil, diag.Errors("The token cannot be read", err.Error()+".", nil)
	case token == "":
		return nil, diag.Errors("Required token could not be found", fmt.Sprintf("There is no token for %s. To get one, "+
			"run:\n  %s login %s", u.Host, diag.Program(), u.Host), nil)
	}
	client := tfc.New(tfc.Options{Base: base, Token: token, HTTP: a.Services.HTTP(),
		Agent: "Millipede/" + a.Estate.Version})
	return &watchedRun{client, id, address}, nil
}

// watchServed shows a run of a service until it ends, and returns its status then.
func (a *app) watchServed(ctx context.Context, w *view.Watch, r *watchedRun) (tfc.Status, error) {
	defer a.refreshing(ctx, w)()
	w.Note(fmt.Sprintf("A service executes the run %s:\n  %s\n", r.id, r.url))
	var status tfc.Status
	err := remote.Watch(ctx, r.client, r.id, w.Note, func(s *remote.Seen) error {
		if s.Status != status && s.Status != "" {
			status = s.Status
			w.Note("The run is " + strings.ReplaceAll(string(status), "_", " ") + ".\n")
		}
		switch {
		case s.Model != nil:
			w.Model(s.Model, s.Again)
		case s.Changes != nil:
			w.Changes(s.Changes)
		}
		return nil
	})
	return status, err
}

// servedWatched returns the diagnostics at the end of watching a run of a service.
func servedWatched(ctx context.Context, r *watchedRun, status tfc.Status, err error) diag.List {
	switch {
	case ctx.Err() != nil:
		return diag.Errors("Stopped watching", fmt.Sprintf("The run continues:\n  %s", r.url), nil)
	case tfc.NotFound(err):
		return diag.Errors("The run cannot be watched", fmt.Sprintf("The service has no run %s that the token may see, "+
			"or it is another product: only Millipede reports the progress of a run.", r.id), nil)
	case err != nil && !errors.Is(err, context.Canceled):
		return diag.Errors("Failed to watch the run", err.Error()+".", nil)
	}
	switch status {
	case tfc.Applied, tfc.PlannedAndFinished:
		return nil
	}
	return diag.Errors("The run has ended", fmt.Sprintf("It is %s:\n  %s", strings.ReplaceAll(string(status), "_", " "),
		r.url), nil)
}
