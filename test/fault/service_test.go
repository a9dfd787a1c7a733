package fault

import (
	"context"
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
	"syscall"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/disk"
	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/test/stage/people"
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
	account *people.Account
	server  *nats.Server
	workers []*site.Worker
	data    *disk.Volume // the disk of the service; nil if this process has no permission to mount
	streams *disk.Volume
	chance  *rand.Rand
	made    map[string]int // faults, by kind
	total   int
	struck  atomic.Bool // whether all faults have been injected
	// loses is how old text of a log must be that is not lost with a machine: the time until it is read from the next one
	// counts, too.
	loses time.Duration
	// silent is when a NATS server was killed last, in nanoseconds since 1970: while none answers, no log is kept.
	silent atomic.Int64

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
	s.account = &people.Account{Client: s.v.Client, HTTP: s.v.HTTP, Address: s.v.Address, Token: s.v.Token,
		Within: site.Timeout}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var users sync.WaitGroup
	for i := range *spaces {
		w := s.v.Workspace(fmt.Sprintf("w%d", i))
		users.Go(func() {
			if err := s.person(ctx, w); err != nil {
				cancel(fmt.Errorf("in the workspace %s: %w", w.Name, err))
			}
		})
	}
	began, ended := time.Now(), make(chan struct{})
	go func() { // ends when all people have finished
		defer close(ended)
		users.Wait()
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
	kind := []string{"service killed", "service killed", "service and engines killed", "engines killed",
		"engines killed", "engines stopped", "worker killed", "worker killed", "server killed",
		"disk of the service full", "disk of the server full"}[s.chance.IntN(11)]
	switch {
	case kind == "disk of the service full" && s.data == nil, kind == "disk of the server full" && s.streams == nil:
		kind = "service killed"
	}
	engines := s.v.Engines()
	switch kind {
	case "service killed":
		must(s.T, s.v.Kill())
		mend = s.v.Start
	case "service and engines killed":
		signalAll(engines, syscall.SIGKILL)
		must(s.T, s.v.Kill())
		mend = s.v.Start
	case "engines killed":
		signalAll(engines, syscall.SIGKILL)
		mend = func() {}
	case "engines stopped": // longer than the leases of permits and claims
		signalAll(engines, syscall.SIGSTOP)
		mend = func() { signalAll(engines, syscall.SIGCONT) }
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

// signalAll sends a signal to processes. One may have ended meanwhile.
func signalAll(pids []int, signal syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
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
		if err := s.account.Complete(ctx, w, fleet); err != nil {
			return err
		}
	}
	return nil
}

// apply applies a configuration, and reports whether it was applied. It resolves operations in doubt.
func (s *serviceSeries) apply(ctx context.Context, w *client.Workspace, dir, message string) (bool, error) {
	id, err := s.account.Queue(ctx, w, dir, message)
	if err != nil {
		return false, err
	}
	var r *client.Run
	log, read := "", []reading{{}}
	for r == nil || !people.Over(r.Status) {
		if err := s.account.Insist(ctx, func() (err error) {
			r, err = s.account.Run(ctx, id)
			return err
		}); err != nil {
			return false, err
		}
		if away := time.Unix(0, s.silent.Load()); s.loses > 0 && time.Since(away) < 3*s.loses {
			read = []reading{{}} // nothing that was read meanwhile is certain
		}
		for len(read) > 1 && time.Since(read[1].at) > s.loses {
			read = read[1:]
		}
		if log, err = s.grown(ctx, r, read[0].text); err != nil {
			return false, err
		}
		read = append(read, reading{time.Now(), log})
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
		n, err := s.account.Resolve(ctx, w, s.look(w))
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
			return false, fmt.Errorf("%w: the run %s failed, although nothing is in doubt:\n%s", people.ErrViolated, id,
				s.v.Logs(r))
		}
		s.mu.Lock()
		s.doubtful++
		s.mu.Unlock()
		return false, nil
	}
	return false, fmt.Errorf("%w: the run %s is %s", people.ErrViolated, id, r.Status)
}

// reading is what was read of a log at a time.
type reading struct {
	at   time.Time
	text string
}

// deadly is in the log of a run with a phase that is not begun again, because engines were killed during several
// attempts at it. On a busy machine a plan takes as long as the time between two faults.
const deadly = "times, and the phase is not begun again"

// grown reads the log of a plan as far as it is written, and checks that it begins with the text that was read before.
func (s *serviceSeries) grown(ctx context.Context, r *client.Run, before string) (now string, err error) {
	err = s.account.Insist(ctx, func() error {
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
		err = fmt.Errorf("%w: the log of %s was %q before, and is %q now", people.ErrViolated, r.ID, before, now)
	}
	return now, err
}

// look looks at the cloud for the machine with an address of a workspace, when no provider works on it.
func (s *serviceSeries) look(w *client.Workspace) func(address string) (string, error) {
	return func(address string) (string, error) {
		name := w.Name + "-" + strings.Trim(strings.TrimPrefix(address, "fleet_machine.a"), "[]")
		if err := s.idle(name); err != nil {
			return "", err
		}
		created := ""
		for id := range s.Objects() {
			if site.NameOf(id) == name {
				created = id
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.doubts++
		if created == "" {
			s.forgiven[name]++
		}
		return created, nil
	}
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
