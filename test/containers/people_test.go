package containers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/hashicorp/go-tfe"
)

const (
	spaces   = 3  // workspaces, each with a person
	machines = 4  // of a person in each region
	patience = 10 // how often a person repeats a run
	// lost is how long something may take that should come soon: everything is killed meanwhile.
	lost = 5 * time.Minute
)

var regions = []string{"eu", "us", "ap"}

// people are those who apply changes while containers fail.
type people struct {
	*stand
	struck atomic.Bool // all faults have been injected
	died   sync.Map    // region: the time at which its worker's container was killed last, in Unix nanoseconds

	mu       sync.Mutex // guards the fields below
	statuses map[client.RunStatus]int
	forgiven map[string]int // by name: creations that a person has resolved as not done
	doubts   int
	deadly   int // runs that were given up because the service was killed during each attempt
	// unanswered are the first errors of the runs that failed, with nothing in doubt, because NATS did not answer.
	unanswered []string
}

// errViolated is a violated guarantee. It ends the test.
var errViolated = errors.New("a guarantee is violated")

// insist calls a function until it succeeds: the service may be unreachable, or its disk full.
func insist(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lost, errors.New("no try has succeeded in time"))
	defer cancel()
	for {
		err := fn()
		if err == nil || errors.Is(err, errViolated) {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// workspace creates a workspace whose runs use the test's cloud and record.
func (p *people) workspace(name string) *client.Workspace {
	p.Helper()
	w, err := p.client.Workspaces.Create(p.Context(), "main", client.WorkspaceCreateOptions{Name: &name})
	if err != nil {
		p.Fatal(err)
	}
	env := client.CategoryEnv
	for key, value := range map[string]string{"FLEET_CLOUD": p.cloud, "FLEET_RECORD": p.record} {
		if _, err := p.client.Variables.Create(p.Context(), w.ID, client.VariableCreateOptions{Key: &key, Value: &value,
			Category: &env}); err != nil {
			p.Fatal(err)
		}
	}
	return w
}

// configuration writes a directory with machines in three regions.
func configuration(dir, name, size string, ms int) error {
	var main, pools strings.Builder
	for _, region := range regions {
		fmt.Fprintf(&main, "module %q {\n  source = \"./region\"\n  name   = \"%s-%[1]s\"\n  size   = %[3]q\n  ms     = %d\n"+
			"}\n", region, name, size, ms)
		fmt.Fprintf(&pools, "pool %q { modules = [\"module.%[1]s\"] }\n", region)
	}
	const needs = "terraform {\n  required_providers {\n    fleet = { source = \"millipede/fleet\" }\n  }\n}\n"
	module := needs + fmt.Sprintf(`variable "name" { type = string }
variable "size" { type = string }
variable "ms" { type = number }
resource "fleet_machine" "a" {
  count     = %d
  name      = "${var.name}-${count.index}"
  size      = var.size
  create_ms = var.ms
  update_ms = var.ms
}
`, machines)
	err := os.MkdirAll(filepath.Join(dir, "region"), 0o700)
	for file, text := range map[string]string{"main.tf": needs + main.String(), "millipede.hcl": pools.String(),
		"region/main.tf": module} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	return err
}

// person applies one configuration after the other in a workspace, and repeats each until it was applied.
func (p *people) person(ctx context.Context, w *client.Workspace) error {
	for i := 0; i < 2 || !p.struck.Load(); i++ {
		dir := filepath.Join(p.dir, "people", w.Name, fmt.Sprint(i))
		if err := configuration(dir, w.Name, []string{"small", "large"}[i%2], 200+137*i%900); err != nil {
			return err
		}
		done := false
		for try := 0; !done; try++ {
			if try == patience {
				return fmt.Errorf("configuration %d was not applied in %d tries", i, patience)
			}
			var err error
			if done, err = p.apply(ctx, w, dir, fmt.Sprintf("%s, run %d, try %d", w.Name, i, try)); err != nil {
				return err
			}
		}
		if err := p.complete(ctx, w); err != nil {
			return fmt.Errorf("after run %d: %w", i, err)
		}
	}
	return nil
}

// apply applies a configuration, and reports whether it was applied. It resolves operations in doubt.
func (p *people) apply(ctx context.Context, w *client.Workspace, dir, message string) (bool, error) {
	id, err := p.queue(ctx, w, dir, message)
	if err != nil {
		return false, fmt.Errorf("queueing %s: %w", message, err)
	}
	var r *client.Run
	over := func() error {
		if r, err = p.client.Runs.Read(ctx, id); errors.Is(err, client.ErrResourceNotFound) {
			return fmt.Errorf("%w: the run %s was acknowledged, but does not exist any more", errViolated, id)
		}
		if err == nil && !ended(r.Status) {
			err = fmt.Errorf("the run %s is stuck: it is %s", id, r.Status)
		}
		return err
	}
	if err := insist(ctx, over); err != nil {
		return false, err
	}
	p.mu.Lock()
	p.statuses[r.Status]++
	p.mu.Unlock()
	switch r.Status {
	case client.RunApplied, client.RunPlannedAndFinished:
		return true, nil
	case client.RunErrored:
	default:
		return false, fmt.Errorf("%w: the run %s is %s", errViolated, id, r.Status)
	}
	n, err := p.resolve(ctx, w)
	if err != nil || n > 0 {
		return false, err
	}
	log := p.log(ctx, r)
	if strings.Contains(log, "times, and the phase is not begun again") {
		p.mu.Lock()
		p.deadly++
		p.mu.Unlock()
		return false, nil
	}
	// The run has told its person, who tries again: that is no loss.
	if strings.Contains(log, "NATS did not answer") || strings.Contains(log, "not connected to NATS") {
		p.mu.Lock()
		p.unanswered = append(p.unanswered, firstError(log))
		p.mu.Unlock()
		return false, nil
	}
	return false, fmt.Errorf("%w: the run %s failed, although nothing is in doubt:\n%s", errViolated, id, log)
}

// firstError returns the first error of a log, on one line.
func firstError(log string) string {
	_, rest, _ := strings.Cut(log, "Error: ")
	return strings.Join(strings.Fields(rest[:min(len(rest), 400)]), " ")
}

func ended(s client.RunStatus) bool {
	switch s {
	case client.RunApplied, client.RunErrored, client.RunCanceled, client.RunDiscarded, client.RunPlannedAndFinished,
		client.RunStatus("force_canceled"):
		return true
	}
	return false
}

// log returns what a run has said.
func (p *people) log(ctx context.Context, r *client.Run) string {
	var all strings.Builder
	for _, read := range []func() (io.Reader, error){
		func() (io.Reader, error) { return p.client.Plans.Logs(ctx, r.Plan.ID) },
		func() (io.Reader, error) { return p.client.Applies.Logs(ctx, r.Apply.ID) },
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

// queue uploads a configuration and queues a run. A request whose answer was lost may have been executed.
func (p *people) queue(ctx context.Context, w *client.Workspace, dir, message string) (id string, err error) {
	yes, no := true, false
	err = insist(ctx, func() error {
		list, err := p.client.Runs.List(ctx, w.ID, nil)
		if err != nil {
			return err
		}
		for _, r := range list.Items {
			if r.Message == message {
				id = r.ID
				return nil
			}
		}
		c, err := p.client.ConfigurationVersions.Create(ctx, w.ID, client.ConfigurationVersionCreateOptions{
			AutoQueueRuns: &no})
		if err != nil {
			return err
		}
		if err := p.client.ConfigurationVersions.Upload(ctx, c.UploadURL, dir); err != nil {
			return err
		}
		r, err := p.client.Runs.Create(ctx, client.RunCreateOptions{Workspace: w, ConfigurationVersion: c,
			AutoApply: &yes, Message: &message})
		if err == nil {
			id = r.ID
		}
		return err
	})
	return id, err
}

// ask sends a request below /api/millipede/v1/.
func (p *people) ask(ctx context.Context, method, path string, in, out any) (int, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://localhost:8443/api/millipede/v1/"+path,
		bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	answer, err := p.http.Do(r)
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

// resolve resolves the creations in doubt, like a person who looks at the cloud. It returns how many operations of any
// kind were in doubt.
func (p *people) resolve(ctx context.Context, w *client.Workspace) (int, error) {
	var all struct {
		Doubts []struct{ Address, Operation string }
	}
	at := "workspaces/" + w.ID + "/doubts"
	if err := insist(ctx, func() error { _, err := p.ask(ctx, http.MethodGet, at, nil, &all); return err }); err != nil {
		return 0, err
	}
	doubts := all.Doubts
	for _, d := range doubts {
		if d.Operation != "create" {
			continue // the next plan reads the object
		}
		// module.eu.fleet_machine.a[2] is w0-eu-2
		region, index, ok := strings.Cut(strings.TrimPrefix(d.Address, "module."), ".fleet_machine.a[")
		if !ok {
			return 0, fmt.Errorf("%w: an operation on %s is in doubt", errViolated, d.Address)
		}
		name := w.Name + "-" + region + "-" + strings.TrimSuffix(index, "]")
		word := map[string]any{"address": d.Address, "not-created": true}
		if err := insist(ctx, func() error {
			if p.working(name) {
				return fmt.Errorf("a provider still creates %s", name)
			}
			return nil
		}); err != nil {
			return 0, err
		}
		if id := p.objects()[name]; id != "" {
			word = map[string]any{"address": d.Address, "created": id}
		}
		p.mu.Lock()
		p.doubts++
		if word["created"] == nil {
			p.forgiven[name]++
		}
		p.mu.Unlock()
		if err := insist(ctx, func() error {
			status, err := p.ask(ctx, http.MethodPost, at, word, &all)
			if status == http.StatusConflict && strings.Contains(err.Error(), "in doubt") &&
				!strings.Contains(err.Error(), "still") {
				return nil // an earlier try was executed, but its answer was lost
			}
			return err
		}); err != nil {
			return 0, err
		}
	}
	return len(doubts), nil
}

// complete checks that a workspace is not locked, and that its state has all machines.
func (p *people) complete(ctx context.Context, w *client.Workspace) error {
	return insist(ctx, func() error {
		now, err := p.client.Workspaces.ReadByID(ctx, w.ID)
		if err != nil {
			return err
		}
		current, err := p.client.StateVersions.ReadCurrent(ctx, w.ID)
		if err != nil {
			return err
		}
		text, err := p.client.StateVersions.Download(ctx, current.DownloadURL)
		if err != nil {
			return err
		}
		var st struct{ Resources []struct{ Instances []any } }
		if err := json.Unmarshal(text, &st); err != nil {
			return fmt.Errorf("%w: reading the state: %w", errViolated, err)
		}
		n := 0
		for _, r := range st.Resources {
			n += len(r.Instances)
		}
		if want := machines * len(regions); now.Locked || n != want {
			return fmt.Errorf("%w: the workspace is locked: %t; its state has %d of %d machines", errViolated, now.Locked, n,
				want)
		}
		return nil
	})
}
