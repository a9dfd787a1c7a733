package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/people"
)

const (
	spaces   = 3  // workspaces, each with a person
	machines = 4  // of a person in each region
	patience = 10 // how often a person repeats a run
	// lost is how long something may take that should come soon: everything is killed meanwhile.
	lost = 5 * time.Minute
)

var regions = []string{"eu", "us", "ap"}

// users are the people who apply changes while containers fail.
type users struct {
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

// account is how the people reach the service.
func (p *users) account() *people.Account {
	return &people.Account{Client: p.client, HTTP: p.http, Address: "https://localhost:8443", Token: p.token, Within: lost}
}

// workspace creates a workspace whose runs use the test's cloud and record.
func (p *users) workspace(name string) *client.Workspace {
	p.Helper()
	w, err := people.Workspace(p.Context(), p.client, name, map[string]string{"FLEET_CLOUD": p.cloud,
		"FLEET_RECORD": p.record})
	if err != nil {
		p.Fatal(err)
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
func (p *users) person(ctx context.Context, w *client.Workspace) error {
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
		if err := p.account().Complete(ctx, w, machines*len(regions)); err != nil {
			return fmt.Errorf("after run %d: %w", i, err)
		}
	}
	return nil
}

// apply applies a configuration, and reports whether it was applied. It resolves operations in doubt.
func (p *users) apply(ctx context.Context, w *client.Workspace, dir, message string) (bool, error) {
	id, err := p.account().Queue(ctx, w, dir, message)
	if err != nil {
		return false, fmt.Errorf("queueing %s: %w", message, err)
	}
	var r *client.Run
	over := func() error {
		if r, err = p.account().Run(ctx, id); err == nil && !people.Over(r.Status) {
			err = fmt.Errorf("the run %s is stuck: it is %s", id, r.Status)
		}
		return err
	}
	if err := p.account().Insist(ctx, over); err != nil {
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
		return false, fmt.Errorf("%w: the run %s is %s", people.ErrViolated, id, r.Status)
	}
	n, err := p.account().Resolve(ctx, w, p.look(w))
	if err != nil || n > 0 {
		return false, err
	}
	log := people.Logs(ctx, p.client, r)
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
	return false, fmt.Errorf("%w: the run %s failed, although nothing is in doubt:\n%s", people.ErrViolated, id, log)
}

// firstError returns the first error of a log, on one line.
func firstError(log string) string {
	_, rest, _ := strings.Cut(log, "Error: ")
	return strings.Join(strings.Fields(rest[:min(len(rest), 400)]), " ")
}

// look looks at the cloud for the machine with an address of a workspace, when no provider works on it.
func (p *users) look(w *client.Workspace) func(address string) (string, error) {
	return func(address string) (string, error) {
		// module.eu.fleet_machine.a[2] is w0-eu-2
		region, index, ok := strings.Cut(strings.TrimPrefix(address, "module."), ".fleet_machine.a[")
		if !ok {
			return "", fmt.Errorf("%w: an operation on %s is in doubt", people.ErrViolated, address)
		}
		name := w.Name + "-" + region + "-" + strings.TrimSuffix(index, "]")
		if p.working(name) {
			return "", fmt.Errorf("a provider still creates %s", name)
		}
		created := p.objects()[name]
		p.mu.Lock()
		defer p.mu.Unlock()
		p.doubts++
		if created == "" {
			p.forgiven[name]++
		}
		return created, nil
	}
}
