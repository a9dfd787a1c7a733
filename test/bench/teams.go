package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// Several teams change one state, each its own part of it.
const (
	teams       = 8
	teamObjects = 2_500 // in the part of each team
	teamChanges = 250   // the objects of its part that a team changes
)

// shared is a workspace whose state several teams change.
type shared struct {
	*host
	space, configuration string
}

// teamsConfiguration is a configuration with a part for each team, and a variable that a team changes.
func teamsConfiguration() string {
	var b strings.Builder
	for i := range teams {
		fmt.Fprintf(&b, `variable "t%[1]d" {
  default = "1"
}

resource "terraform_data" "t%[1]d" {
  count = %[2]d
  input = {
    name     = "t%[1]d-${count.index}"
    revision = count.index < %[3]d ? var.t%[1]d : "1"
    other    = "a value of some length, as attributes of real objects have"
  }
}
`, i, teamObjects, teamChanges)
	}
	return b.String()
}

// serviceTeams measures how much longer all teams together take to change their objects in one large state than one
// team alone. Before, the whole state is planned, so that its objects have verdicts, as in a workspace in use.
func (t *table) serviceTeams(ctx context.Context) (text string, within bool, err error) {
	w, done, err := t.sharedState(ctx)
	if err != nil {
		return "", false, err
	}
	defer done()
	if err := w.run(ctx, map[string]any{}); err != nil {
		return "", false, fmt.Errorf("creating the objects: %w", err)
	}
	if err := w.run(ctx, map[string]any{"plan-only": true}); err != nil {
		return "", false, fmt.Errorf("planning the whole state: %w", err)
	}
	if err := w.change(ctx, 0, "warm"); err != nil { // the first run after the creation
		return "", false, err
	}
	one, oneCPU, err := w.spent(func() error { return w.change(ctx, 0, "one") })
	if err != nil {
		return "", false, err
	}
	all, allCPU, err := w.spent(func() error {
		var group errgroup.Group
		for i := range teams {
			group.Go(func() error { return w.change(ctx, i, "all") })
		}
		return group.Wait()
	})
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("%.2f (%s, all %s; CPU of the service %s, all %s)", ratio(all, one), short(one), short(all),
		short(oneCPU), short(allCPU)), ratio(all, one) <= 1.3, nil
}

// sharedState starts a service with four workers, and a workspace whose runs lock objects. done ends all of them.
func (t *table) sharedState(ctx context.Context) (w *shared, done func(), err error) {
	works, err := t.works(ctx, 4, 25)
	end := func() {
		if works == nil {
			return
		}
		if err := works.end(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: ending the workers:", err)
		}
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	h, kill, err := t.service()
	if err != nil {
		end()
		return nil, nil, err
	}
	done = func() {
		kill()
		end()
	}
	w, h.env = &shared{host: h}, []string{"MILLIPEDE_NATS=" + works.url}
	if _, err = h.start(ctx); err == nil {
		w.space, err = h.workspace(ctx, "teams")
	}
	if err == nil {
		_, err = h.ask(ctx, http.MethodPatch, "/workspaces/"+w.space, &thing{Type: "workspaces",
			Attributes: map[string]any{"object-locks": true, "refresh": "changed"}})
	}
	if err == nil {
		w.configuration, err = h.upload(ctx, w.space, teamsConfiguration())
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return w, done, nil
}

// change has a team change objects of its part, and waits until they are changed.
func (w *shared) change(ctx context.Context, team int, revision string) error {
	name := fmt.Sprintf("t%d", team)
	err := w.run(ctx, map[string]any{"target-addrs": []string{"terraform_data." + name},
		"variables": []map[string]string{{"key": name, "value": fmt.Sprintf("%q", revision)}}})
	if err != nil {
		return fmt.Errorf("team %d: %w", team, err)
	}
	return nil
}

// run queues a run with the given attributes, and waits until it has been applied, or needs no apply.
func (w *shared) run(ctx context.Context, attributes map[string]any) error {
	end := "applied"
	if attributes["plan-only"] == true {
		end = "planned_and_finished"
	}
	attributes["auto-apply"] = true
	r, err := w.ask(ctx, http.MethodPost, "/runs", &thing{Type: "runs", Attributes: attributes,
		Relationships: map[string]relation{
			"workspace":             {thing{ID: w.space, Type: "workspaces"}},
			"configuration-version": {thing{ID: w.configuration, Type: "configuration-versions"}},
		}})
	if err != nil {
		return err
	}
	_, err = w.becomes(ctx, r.ID, end)
	return err
}

// spent returns the time that fn takes, and the CPU time of the service meanwhile.
func (w *shared) spent(fn func() error) (wall, cpu time.Duration, err error) {
	before, err := process.Spent(w.PID())
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := fn(); err != nil {
		return 0, 0, err
	}
	wall = time.Since(began)
	after, err := process.Spent(w.PID())
	return wall, after - before, err
}
