package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/balance"
	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/test/stage/people"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// groupSeries is a service of three members with three NATS servers, which people use through a balancer.
type groupSeries struct {
	*serviceSeries
	members []*site.Service
	servers []*nats.Server
	probe   *http.Client
	noted   []string        // variables that were acknowledged
	space   string          // the workspace that has them
	gaps    []time.Duration // from each fault to the next change that was acknowledged
	refused map[string]int  // answers to changes, by their status
}

// Members of a group are killed, frozen, stopped in order, lose their disks, and hand over, and NATS servers are
// killed, while people apply changes through a balancer. No acknowledged change may be lost, and every run must end
// like an undisturbed one, unless a worker was killed during an operation.
func TestAGroupUnderFaultsLosesNothingAndDoesNothingTwice(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	s := &groupSeries{refused: map[string]int{}, serviceSeries: &serviceSeries{loses: 10 * time.Second,
		trial: newTrial(t, 0, 0), chance: rand.New(rand.NewPCG(*seed, 2)), made: map[string]int{},
		statuses: map[client.RunStatus]int{}}}
	s.servers = s.Servers(3)
	for range 2 {
		s.workers = append(s.workers, s.Worker("default"))
	}
	s.begin()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var users sync.WaitGroup
	for i := range *spaces {
		w := s.v.Workspace(fmt.Sprintf("w%d", i))
		s.space = w.ID
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
		mend := s.hit()
		s.change(ctx, cancel)
		t.Logf("fault %d: the next change was acknowledged after %v", s.total, s.gaps[len(s.gaps)-1].Round(time.Millisecond))
		within(ended, s.between(50, 1500))
		mend()
	}
	s.struck.Store(true)
	<-ended
	s.kept(ctx)
	if err := context.Cause(ctx); err != nil {
		t.Errorf("after %d faults %v: %v", s.total, s.made, err)
	}
	s.once()
	slices.Sort(s.gaps)
	at := func(p int) time.Duration {
		return s.gaps[min(len(s.gaps)*p/100, len(s.gaps)-1)].Round(time.Millisecond)
	}
	t.Logf("%d faults %v in %s; the next change was acknowledged after %s (median), %s (p99), %s (most); refused %v; "+
		"runs ended %v, of which %d left operations in doubt; %d creations, %d updates; %d creations in doubt", s.total, s.made,
		time.Since(began).Round(time.Second), at(50), at(99), at(100), s.refused, s.statuses, s.doubtful, s.Begun("create"),
		s.Begun("update"), s.doubts)
}

// begin starts the members and the balancer.
func (s *groupSeries) begin() {
	t := s.T
	s.members = []*site.Service{s.Service("-group=prod", "-member=m1", "-parallelism=4")}
	for i := 2; i <= 3; i++ {
		v := s.NewService("-group=prod", fmt.Sprint("-member=m", i), "-parallelism=4")
		site.ShareKey(t, s.members[0], v)
		v.Token = s.members[0].Token
		v.Begin()
		line, err := v.Await(site.Waiting(t), "tofu login ")
		must(t, err)
		v.Address = "https://" + strings.TrimPrefix(strings.TrimSpace(line), "tofu login ")
		v.Connect()
		s.members = append(s.members, v)
	}
	var all []string
	for _, v := range s.members {
		all = append(all, strings.Replace(strings.TrimPrefix(v.Address, "https://"), "localhost", "127.0.0.1", 1))
	}
	s.probe = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a balancer checks no name
	b, err := balance.New(all, func(ctx context.Context, server string) bool {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+server+"/readyz", nil)
		if err != nil {
			return false
		}
		answer, err := s.probe.Do(r)
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	front := *s.members[0]
	_, port, _ := strings.Cut(b.Address(), ":")
	front.Address = "https://localhost:" + port
	front.Connect()
	// A connection to a member that is frozen stays open until its client gives up.
	front.HTTP.Timeout = 5 * time.Second
	front.Client, err = client.NewClient(&client.Config{Address: front.Address, Token: front.Token,
		HTTPClient: front.HTTP})
	must(t, err)
	s.v = &front
	s.account = &people.Account{Client: front.Client, HTTP: front.HTTP, Address: front.Address, Token: front.Token,
		Within: site.Timeout}
}

// leads reports whether a member says that it is ready, and does not name another one.
func (s *groupSeries) leads(v *site.Service) bool {
	answer, err := s.probe.Get(v.Address + "/readyz")
	if err != nil {
		return false
	}
	text, err := io.ReadAll(answer.Body)
	return errors.Join(err, answer.Body.Close()) == nil && answer.StatusCode == http.StatusOK &&
		!strings.HasPrefix(string(text), "standby")
}

// leader returns the member that leads. It waits for one.
func (s *groupSeries) leader() (leader *site.Service) {
	site.Eventually(s.T, "a member leads", func() bool {
		for _, v := range s.members {
			if s.leads(v) {
				leader = v
				return true
			}
		}
		return false
	})
	return leader
}

// hit injects one fault, and returns the function that repairs it.
func (s *groupSeries) hit() (mend func()) {
	t := s.T
	t.Helper()
	w, leader := s.workers[s.chance.IntN(len(s.workers))], s.leader()
	other := s.members[(slices.Index(s.members, leader)+1+s.chance.IntN(2))%3]
	server := s.servers[s.chance.IntN(3)]
	kind := []string{"leader killed", "leader killed", "leader frozen", "leader and engines frozen", "leader stopped",
		"leader lost with its disk", "handover", "engines killed", "standby killed", "standby lost with its disk",
		"worker killed", "server killed", "leader and server killed", "leader and engines killed"}[s.chance.IntN(14)]
	again := func() {
		must(t, server.Restart(site.Waiting(t)))
		for _, w := range s.workers {
			select {
			case <-w.Done():
				w.Start()
			default:
			}
		}
	}
	engines := leader.Engines()
	switch kind {
	case "leader killed":
		must(t, leader.Kill())
		mend = leader.Begin
	case "leader and engines killed":
		signalAll(engines, syscall.SIGKILL)
		must(t, leader.Kill())
		mend = leader.Begin
	case "leader frozen":
		must(t, leader.Signal(syscall.SIGSTOP))
		mend = func() { must(t, leader.Signal(syscall.SIGCONT)) }
	case "leader and engines frozen":
		must(t, leader.Signal(syscall.SIGSTOP))
		signalAll(engines, syscall.SIGSTOP)
		mend = func() {
			signalAll(engines, syscall.SIGCONT)
			must(t, leader.Signal(syscall.SIGCONT))
		}
	case "leader stopped":
		must(t, leader.Signal(syscall.SIGTERM))
		mend = func() {
			if code := site.Exit(t, leader.Process); code != 0 {
				t.Errorf("a leader that was stopped has ended with %d", code)
			}
			leader.Begin()
		}
	case "leader lost with its disk", "standby lost with its disk":
		lost := leader
		if kind[0] == 's' {
			lost = other
		}
		must(t, lost.Kill())
		must(t, os.RemoveAll(lost.Data))
		mend = lost.Begin
	case "handover":
		if code, text := leader.Ask(http.MethodPost, "group/handover", map[string]string{}); code >= 500 {
			t.Errorf("handing over: %d: %s", code, text)
		}
		mend = func() {}
	case "engines killed":
		signalAll(engines, syscall.SIGKILL)
		mend = func() {}
	case "standby killed":
		must(t, other.Kill())
		mend = other.Begin
	case "worker killed":
		must(t, w.Kill())
		mend = w.Start
	case "server killed":
		s.silent.Store(time.Now().UnixNano())
		must(t, server.Kill())
		mend = again
	case "leader and server killed":
		s.silent.Store(time.Now().UnixNano())
		must(t, leader.Kill())
		must(t, server.Kill())
		mend = func() {
			again()
			leader.Begin()
		}
	}
	s.total++
	s.made[kind]++
	t.Logf("fault %d: %s", s.total, kind)
	return mend
}

// change makes a change until it is acknowledged, and notes how long that took.
func (s *groupSeries) change(ctx context.Context, cancel context.CancelCauseFunc) {
	began, category := time.Now(), client.CategoryEnv
	for try := 0; ; try++ {
		name := fmt.Sprintf("noted_%d_%d", len(s.noted), try)
		_, err := s.v.Client.Variables.Create(ctx, s.space, client.VariableCreateOptions{Key: &name, Value: &name,
			Category: &category})
		if err == nil {
			s.noted = append(s.noted, name)
			s.gaps = append(s.gaps, time.Since(began))
			return
		}
		s.refused[first(err)]++
		if time.Since(began) > site.Timeout || ctx.Err() != nil {
			cancel(fmt.Errorf("no change is acknowledged: %w", err))
			return
		}
		within(ctx.Done(), 50*time.Millisecond)
	}
}

// first returns what an error is about.
func first(err error) string {
	for _, about := range []string{"not known whether", "try again", "no member leads", "EOF", "reset", "refused",
		"Timeout", "tls"} {
		if strings.Contains(err.Error(), about) {
			return about
		}
	}
	return err.Error()
}

// kept checks that the acknowledged changes are there.
func (s *groupSeries) kept(ctx context.Context) {
	there := map[string]bool{}
	for page := 1; page > 0; {
		var list *client.VariableList
		if err := s.account.Insist(ctx, func() (err error) {
			list, err = s.v.Client.Variables.List(ctx, s.space, &client.VariableListOptions{
				ListOptions: client.ListOptions{PageNumber: page, PageSize: 100}})
			return err
		}); err != nil {
			s.T.Error(err)
			return
		}
		for _, v := range list.Items {
			there[v.Key] = true
		}
		page = list.NextPage
	}
	for _, name := range s.noted {
		if !there[name] {
			s.T.Errorf("the variable %s was acknowledged, and is gone", name)
		}
	}
}
