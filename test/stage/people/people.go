// Package people acts for people who use a service through its API while faults are injected: what they ask is repeated
// until it succeeds, and what a service has acknowledged is checked.
//
// It injects no faults, and knows neither how the service was started nor what the runs create.
package people

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	client "github.com/hashicorp/go-tfe"
)

// ErrViolated is a violated guarantee. It ends a test without another try.
var ErrViolated = errors.New("a guarantee is violated")

// Account is how people reach a service. Its methods may be called concurrently.
type Account struct {
	Client *client.Client // without retries
	HTTP   *http.Client   // for what Client has no requests for
	// Address is that of the service, without a path; Token is an administrator's.
	Address, Token string
	// Within is how long something may take that should come soon.
	Within time.Duration
}

// Insist calls a function until it succeeds, but no longer than Within: the service may be unreachable, or its disk
// full. ErrViolated ends it at once.
func (a *Account) Insist(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.Within, errors.New("no try has succeeded in time"))
	defer cancel()
	for {
		err := fn()
		if err == nil || errors.Is(err, ErrViolated) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// Workspace creates a workspace whose runs have the given environment variables.
func Workspace(ctx context.Context, c *client.Client, name string, environ map[string]string) (*client.Workspace,
	error) {
	w, err := c.Workspaces.Create(ctx, "main", client.WorkspaceCreateOptions{Name: &name})
	env := client.CategoryEnv
	for key, value := range environ {
		if err == nil {
			_, err = c.Variables.Create(ctx, w.ID, client.VariableCreateOptions{Key: &key, Value: &value, Category: &env})
		}
	}
	return w, err
}

// Upload creates a configuration version with a directory's files.
func Upload(ctx context.Context, c *client.Client, w *client.Workspace, dir string) (*client.ConfigurationVersion,
	error) {
	no := false
	v, err := c.ConfigurationVersions.Create(ctx, w.ID, client.ConfigurationVersionCreateOptions{AutoQueueRuns: &no})
	if err != nil {
		return nil, err
	}
	return v, c.ConfigurationVersions.Upload(ctx, v.UploadURL, dir)
}

// Queue uploads a configuration and queues a run that is applied automatically. A request whose response was lost may
// have been executed: the message tells the run from others.
func (a *Account) Queue(ctx context.Context, w *client.Workspace, dir, message string) (id string, err error) {
	yes := true
	err = a.Insist(ctx, func() error {
		list, err := a.Client.Runs.List(ctx, w.ID, nil)
		if err != nil {
			return err
		}
		for _, r := range list.Items {
			if r.Message == message {
				id = r.ID
				return nil
			}
		}
		c, err := Upload(ctx, a.Client, w, dir)
		if err != nil {
			return err
		}
		r, err := a.Client.Runs.Create(ctx, client.RunCreateOptions{Workspace: w, ConfigurationVersion: c,
			AutoApply: &yes, Message: &message})
		if err == nil {
			id = r.ID
		}
		return err
	})
	return id, err
}

// Run reads a run that the service has acknowledged.
func (a *Account) Run(ctx context.Context, id string) (*client.Run, error) {
	r, err := a.Client.Runs.Read(ctx, id)
	if errors.Is(err, client.ErrResourceNotFound) {
		err = fmt.Errorf("%w: the run %s was acknowledged, but does not exist any more", ErrViolated, id)
	}
	return r, err
}

// Over reports whether a run has ended.
func Over(s client.RunStatus) bool {
	switch s {
	case client.RunApplied, client.RunErrored, client.RunCanceled, client.RunDiscarded, client.RunPlannedAndFinished,
		client.RunStatus("force_canceled"):
		return true
	}
	return false
}

// Logs returns the logs of a run as shown to people.
func Logs(ctx context.Context, c *client.Client, r *client.Run) string {
	var all strings.Builder
	for _, read := range []func() (io.Reader, error){
		func() (io.Reader, error) { return c.Plans.Logs(ctx, r.Plan.ID) },
		func() (io.Reader, error) { return c.Applies.Logs(ctx, r.Apply.ID) },
	} {
		log, err := read()
		if err == nil {
			_, err = io.Copy(&all, log)
		}
		if err != nil {
			fmt.Fprintf(&all, "(no log: %v)\n", err)
		}
	}
	return all.String()
}

// Ask sends a request below /api/millipede/v1/, with in as JSON, and reads the answer into out. It returns the status;
// another one than 200 is an error with the answer.
func (a *Account) Ask(ctx context.Context, method, path string, in, out any) (status int, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, method, a.Address+"/api/millipede/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+a.Token)
	answer, err := a.HTTP.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer.StatusCode, errors.Join(err, fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text))
	}
	return answer.StatusCode, json.Unmarshal(text, out)
}

// Resolve resolves the creations in doubt of a workspace, like a person who looks at the cloud: look returns the ID of
// the object that has an address, or "" if there is none. It is called until it returns no error. Resolve returns how
// many operations of any kind were in doubt; the next plan reads the objects of the others.
func (a *Account) Resolve(ctx context.Context, w *client.Workspace, look func(address string) (string, error)) (int,
	error) {
	var all struct {
		Doubts []struct{ Address, Operation string }
	}
	at := "workspaces/" + w.ID + "/doubts"
	if err := a.Insist(ctx, func() error { _, err := a.Ask(ctx, http.MethodGet, at, nil, &all); return err }); err != nil {
		return 0, err
	}
	doubts := all.Doubts
	for _, d := range doubts {
		if d.Operation != "create" {
			continue
		}
		word := map[string]any{"address": d.Address}
		if err := a.Insist(ctx, func() error {
			id, err := look(d.Address)
			if word["created"] = id; id == "" {
				delete(word, "created")
				word["not-created"] = true
			}
			return err
		}); err != nil {
			return 0, err
		}
		if err := a.Insist(ctx, func() error {
			status, err := a.Ask(ctx, http.MethodPost, at, word, &all)
			if status == http.StatusConflict && strings.Contains(err.Error(), "in doubt") &&
				!strings.Contains(err.Error(), "still") {
				return nil // an earlier try was executed, but its response was lost
			}
			return err
		}); err != nil {
			return 0, err
		}
	}
	return len(doubts), nil
}

// Complete checks that a workspace is not locked, and that its state has that many instances.
func (a *Account) Complete(ctx context.Context, w *client.Workspace, want int) error {
	return a.Insist(ctx, func() error {
		now, err := a.Client.Workspaces.ReadByID(ctx, w.ID)
		if err != nil {
			return err
		}
		current, err := a.Client.StateVersions.ReadCurrent(ctx, w.ID)
		if err != nil {
			return err
		}
		text, err := a.Client.StateVersions.Download(ctx, current.DownloadURL)
		if err != nil {
			return err
		}
		var st struct{ Resources []struct{ Instances []any } }
		if err := json.Unmarshal(text, &st); err != nil {
			return fmt.Errorf("%w: reading the state: %w", ErrViolated, err)
		}
		n := 0
		for _, r := range st.Resources {
			n += len(r.Instances)
		}
		if now.Locked || n != want {
			return fmt.Errorf("%w: the workspace is locked: %t; its state has %d of %d machines", ErrViolated, now.Locked, n,
				want)
		}
		return nil
	})
}
