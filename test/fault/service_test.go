package fault

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/disk"
	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/test/stage/site"
)

var (
	strikes  = flag.Int("strikes", 4, "how many faults are injected into the service")
	spaces   = flag.Int("spaces", 2, "how many workspaces have runs at the same time")
	perSpace = flag.Int("runs", 2, "the minimum number of runs of each workspace")
)

const (
	// dataSize is the size of the disk of the service, in bytes.
	dataSize = 128 << 20
	// mostTries is how often a person tries to apply a configuration: each try may leave operations in doubt.
	mostTries = 60
	// fleet is the number of machines of a workspace.
	fleet = 4
)

// serviceSeries is a service into which faults are injected while people use it.
type serviceSeries struct {
	*trial
	v       *site.Service
	server  *nats.Server
	workers []*site.Worker
	data    *disk.Volume // the disk of the service; nil if this process has no permission to mount
	streams *disk.Volume
	chance  *rand.Rand
	made    map[string]int // faults, by kind
	total   int
	struck  atomic.Bool // whether all faults have been injected

	mu       sync.Mutex // guards the fields below, and trial.forgiven and trial.doubts
	statuses map[client.RunStatus]int
	doubtful int // the number of runs that failed because a worker was killed during an operation
	deadly   int // the number of runs that failed because the service was killed during their plan, and again
}

// People apply changes with a service repeatedly while the service, workers and the NATS server are killed, and while
// disks are full. No acknowledged change may be lost, and every run must end like an undisturbed one, unless a worker
// was killed during an operation: then the run reports the doubt, and after it is resolved the next run must have the
// result of an undisturbed one.
func TestAServiceUnderFaultsLosesNothingAndDoesNothingTwice(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	s := &serviceSeries{trial: newTrial(t, 0, 0), chance: rand.New(rand.NewPCG(*seed, 1)), made: map[string]int{},
		statuses: map[client.RunStatus]int{}}
	s.server = s.Server()
	s.streams = streams(s.Site, s.server)
	for range 2 {
		s.workers = append(s.workers, s.Worker("default"))
	}
	home := t.TempDir()
	s.data = volume(t, filepath.Join(home, ".local", "share", "millipede"), dataSize)
	s.v = s.ServiceAt(home, "-parallelism=4")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var people sync.WaitGroup
	for i := range *spaces {
		w := s.v.Workspace(fmt.Sprintf("w%d", i))
		people.Go(func() {
			if err := s.person(ctx, w); err != nil {
				cancel(fmt.Errorf("in the workspace %s: %w", w.Name, err))
			}
		})
	}
	began, ended := time.Now(), make(chan struct{})
	go func() { // ends when all people have finished
		defer close(ended)
		people.Wait()
	}()
	for s.total < *strikes && !within(ended, s.between(100, 1500)) {
		mend := s.strike()
		within(ended, s.between(50, 2500))
		mend()
	}
	s.struck.Store(true)
	<-ended
	if err := context.Cause(ctx); err != nil {
		t.Errorf("after %d faults %v: %v", s.total, s.made, err)
	}
	s.once()
	t.Logf("%d faults %v in %s; runs ended %v, of which %d left operations in doubt, and %d were given up after two "+
		"deaths; %d creations, %d updates; %d creations in doubt", s.total, s.made, time.Since(began).Round(time.Second),
		s.statuses, s.doubtful, s.deadly, s.Begun("create"), s.Begun("update"), s.doubts)
}

// within waits a while, or until a channel is closed, and reports whether it is.
func within(ended <-chan struct{}, d time.Duration) bool {
	select {
	case <-ended:
		return true
	case <-time.After(d):
		return false
	}
}

func (s *serviceSeries) between(least, most int) time.Duration {
	return time.Duration(least+s.chance.IntN(most-least)) * time.Millisecond
}

// strike injects one fault, and returns the function that repairs it.
func (s *serviceSeries) strike() (mend func()) {
	s.T.Helper()
	w := s.workers[s.chance.IntN(len(s.workers))]
	kind := []string{"service killed", "service killed", "service killed", "worker killed", "worker killed",
		"server killed", "disk of the service full", "disk of the server full"}[s.chance.IntN(8)]
	switch {
	case kind == "disk of the service full" && s.data == nil, kind == "disk of the server full" && s.streams == nil:
		kind = "service killed"
	}
	switch kind {
	case "service killed":
		must(s.T, s.v.Kill())
		mend = s.v.Start
	case "worker killed":
		must(s.T, w.Kill())
		mend = w.Start
	case "server killed":
		must(s.T, s.server.Kill())
		mend = s.again
	case "disk of the service full":
		must(s.T, s.data.Fill())
		mend = func() {
			must(s.T, s.data.Free())
			s.serves()
		}
	case "disk of the server full":
		must(s.T, s.streams.Fill())
		mend = func() { // after a failed write, the server refuses all writes until it is restarted
			must(s.T, s.streams.Free())
			must(s.T, s.server.Kill())
			s.again()
		}
	}
	s.total++
	s.made[kind]++
	return mend
}

// again restarts the server, and the processes that have ended because it was unreachable.
func (s *serviceSeries) again() {
	must(s.T, s.server.Restart(site.Waiting(s.T)))
	for _, w := range s.workers {
		select {
		case <-w.Done():
			w.Start()
		default:
		}
	}
	s.serves()
}

// serves starts the service if it has ended by itself.
func (s *serviceSeries) serves() {
	select {
	case <-s.v.Done():
		s.v.Start()
	default:
	}
}

// insist calls a function until it succeeds: the service may be unreachable, or its disk full.
func insist(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, site.Timeout, errors.New("no try has succeeded in time"))
	defer cancel()
	for {
		err := fn()
		if err == nil || errors.Is(err, errViolated) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// errViolated is a violated guarantee. It ends the test without another try.
var errViolated = errors.New("a guarantee is violated")

// person applies one configuration after the other in a workspace, and repeats each one until it was applied.
func (s *serviceSeries) person(ctx context.Context, w *client.Workspace) error {
	for i := 0; i < *perSpace || !s.struck.Load(); i++ {
		text := machines(w.Name, fleet, 100+37*i%300, []string{"small", "large"}[i%2])
		dir := filepath.Join(s.Dir, w.Name, fmt.Sprint(i))
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text),
			0o600)); err != nil {
			return err
		}
		done := false
		for try := 0; !done; try++ {
			if try == mostTries {
				return fmt.Errorf("configuration %d was not applied in %d tries", i, mostTries)
			}
			if try > 0 && within(ctx.Done(), time.Second) { // a person first reads the error
				return context.Cause(ctx)
			}
			var err error
			if done, err = s.apply(ctx, w, dir, fmt.Sprintf("%s, run %d, try %d", w.Name, i, try)); err != nil {
				return err
			}
		}
		if err := s.complete(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// apply applies a configuration, and reports whether it was applied. It resolves operations in doubt.
func (s *serviceSeries) apply(ctx context.Context, w *client.Workspace, dir, message string) (bool, error) {
	id, err := s.queue(ctx, w, dir, message)
	if err != nil {
		return false, err
	}
	var r *client.Run
	log := ""
	for r == nil || !site.Over(r.Status) {
		if err := insist(ctx, func() (err error) {
			if r, err = s.v.Client.Runs.Read(ctx, id); errors.Is(err, client.ErrResourceNotFound) {
				return fmt.Errorf("%w: the run %s was acknowledged, but does not exist any more", errViolated, id)
			}
			return err
		}); err != nil {
			return false, err
		}
		if log, err = s.grown(ctx, r, log); err != nil {
			return false, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	s.statuses[r.Status]++
	s.mu.Unlock()
	switch r.Status {
	case client.RunApplied, client.RunPlannedAndFinished:
		return true, nil
	case client.RunErrored:
		n, err := s.resolveAll(ctx, w)
		if err != nil {
			return false, err
		}
		if n == 0 && strings.Contains(log, deadly) {
			s.mu.Lock()
			s.deadly++
			s.mu.Unlock()
			return false, nil
		}
		if n == 0 {
			return false, fmt.Errorf("%w: the run %s failed, although nothing is in doubt:\n%s", errViolated, id,
				s.v.Logs(r))
		}
		s.mu.Lock()
		s.doubtful++
		s.mu.Unlock()
		return false, nil
	}
	return false, fmt.Errorf("%w: the run %s is %s", errViolated, id, r.Status)
}

// deadly is in the log of a run whose plan the service does not begin a third time, after it was killed during two. On a
// busy machine a plan takes as long as the time between two faults.
const deadly = "The service has died 2 times while it made this plan"

// queue uploads a configuration and queues a run. A request whose response was lost may have been executed.
func (s *serviceSeries) queue(ctx context.Context, w *client.Workspace, dir, message string) (id string, err error) {
	yes := true
	err = insist(ctx, func() error {
		list, err := s.v.Client.Runs.List(ctx, w.ID, nil)
		if err != nil {
			return err
		}
		for _, r := range list.Items {
			if r.Message == message {
				id = r.ID
				return nil
			}
		}
		c, err := s.v.Upload(ctx, w, dir)
		if err != nil {
			return err
		}
		r, err := s.v.Client.Runs.Create(ctx, client.RunCreateOptions{Workspace: w, ConfigurationVersion: c,
			AutoApply: &yes, Message: &message})
		if err == nil {
			id = r.ID
		}
		return err
	})
	return id, err
}

// grown reads the log of a plan as far as it is written, and checks that it begins with the text that was read before.
func (s *serviceSeries) grown(ctx context.Context, r *client.Run, before string) (now string, err error) {
	err = insist(ctx, func() error {
		p, err := s.v.Client.Plans.Read(ctx, r.Plan.ID)
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.LogReadURL+"?limit=1000000&offset=0", nil)
		if err != nil {
			return err
		}
		answer, err := s.v.HTTP.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("reading the log: %s", answer.Status)
		}
		now = string(text)
		return err
	})
	if err == nil && !strings.HasPrefix(now, before) {
		err = fmt.Errorf("%w: the log of %s was %q before, and is %q now", errViolated, r.ID, before, now)
	}
	return now, err
}

// ask sends a request below /api/millipede/v1/.
func (s *serviceSeries) ask(ctx context.Context, method, path string, in, out any) (status int, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, method, s.v.Address+"/api/millipede/v1/"+path,
		strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+s.v.Token)
	answer, err := s.v.HTTP.Do(r)
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

// resolveAll resolves the creations in doubt, like a user who looks at the cloud. It returns how many operations of any
// kind were in doubt.
func (s *serviceSeries) resolveAll(ctx context.Context, w *client.Workspace) (int, error) {
	var all struct {
		Doubts []struct{ Address, Operation string }
	}
	at := "workspaces/" + w.ID + "/doubts"
	if err := insist(ctx, func() error { _, err := s.ask(ctx, http.MethodGet, at, nil, &all); return err }); err != nil {
		return 0, err
	}
	doubts := all.Doubts
	for _, d := range doubts {
		if d.Operation != "create" {
			continue // the next plan reads the object
		}
		name := w.Name + "-" + strings.Trim(strings.TrimPrefix(d.Address, "fleet_machine.a"), "[]")
		if err := insist(ctx, func() error { return s.idle(name) }); err != nil {
			return 0, err
		}
		word := map[string]any{"address": d.Address, "not-created": true}
		for id := range s.Objects() {
			if site.NameOf(id) == name {
				word = map[string]any{"address": d.Address, "created": id}
			}
		}
		s.mu.Lock()
		s.doubts++
		if word["created"] == nil {
			s.forgiven[name]++
		}
		s.mu.Unlock()
		if err := insist(ctx, func() error {
			status, err := s.ask(ctx, http.MethodPost, at, word, &all)
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

// idle returns an error while a provider works on a machine.
func (s *serviceSeries) idle(name string) error {
	for _, c := range s.Calls("create", "update", "delete") {
		if c.Name == name && !c.Ended && alive(c.PID) {
			return fmt.Errorf("a provider still executes an operation on %s", name)
		}
	}
	return nil
}

// complete checks that a workspace has all of its machines, no operations in doubt, and no lock.
func (s *serviceSeries) complete(ctx context.Context, w *client.Workspace) error {
	return insist(ctx, func() error {
		now, err := s.v.Client.Workspaces.ReadByID(ctx, w.ID)
		if err != nil {
			return err
		}
		current, err := s.v.Client.StateVersions.ReadCurrent(ctx, w.ID)
		if err != nil {
			return err
		}
		text, err := s.v.Client.StateVersions.Download(ctx, current.DownloadURL)
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
		if now.Locked || n != fleet {
			return fmt.Errorf("%w: the workspace is locked: %t; its state has %d of %d machines", errViolated, now.Locked, n,
				fleet)
		}
		return nil
	})
}

// once checks that no machine was created again unless a person had resolved its creation as not done, that no machine
// was updated twice by one plan, and that the cloud has every machine once.
func (s *serviceSeries) once() {
	s.T.Helper()
	planned, created := map[string]bool{}, map[string]int{}
	for _, c := range s.Calls("plan", "create", "update") {
		switch {
		case c.Op == "plan":
			planned[c.Name] = true
		case c.Op == "create":
			created[c.Name]++
		case !planned[c.Name]:
			s.T.Errorf("the update of %s was started twice by one plan", c.Name)
		default:
			planned[c.Name] = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(created)) {
		if n, most := created[name], 1+s.forgiven[name]; n > most {
			s.T.Errorf("%s was created %d times, but its creation was resolved as not done %d times", name, n, most-1)
		}
	}
	if n := len(s.Objects()); n != *spaces*fleet {
		s.T.Errorf("the cloud has %d machines, not %d", n, *spaces*fleet)
	}
}
