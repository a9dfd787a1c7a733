package containers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"
)

// fault is a kind of fault. inject returns what repairs it.
type fault struct {
	name   string
	lasts  time.Duration
	inject func() (mend func())
}

// People apply changes in three regions while each container is killed in turn, containers are paused, networks are
// taken away, disks fill and everything is killed at once. Every run ends, nothing is done twice, and nothing that was
// acknowledged is lost: the providers' own record decides.
func TestThreeRegionsUnderFaultsLoseNothingAndDoNothingTwice(t *testing.T) {
	s := newStand(t)
	s.withFleet()
	s.start()
	p := &users{stand: s, statuses: map[client.RunStatus]int{}, forgiven: map[string]int{}}
	t.Logf("seed %d", *seed)
	chance := rand.New(rand.NewPCG(*seed, 1))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var persons sync.WaitGroup
	for i := range spaces {
		w := p.workspace(fmt.Sprintf("w%d", i))
		persons.Go(func() {
			if err := p.person(ctx, w); err != nil {
				cancel(fmt.Errorf("in the workspace %s: %w", w.Name, err))
			}
		})
	}
	began, made := time.Now(), map[string]int{}
	var plan []fault
	for _, f := range p.faults() {
		plan = append(plan, slices.Repeat([]fault{f}, *faults)...)
	}
	chance.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	for _, f := range plan {
		if within(ctx.Done(), time.Duration(200+chance.IntN(2500))*time.Millisecond) {
			break
		}
		mend := f.inject()
		within(ctx.Done(), f.lasts+time.Duration(chance.IntN(1500))*time.Millisecond)
		mend()
		made[f.name]++
	}
	p.struck.Store(true)
	persons.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Errorf("after the faults %v: %v", made, err)
	}
	p.once()
	t.Logf("%d faults in %s; runs ended %v, %d given up after several deaths; %d creations and %d updates begun; %d "+
		"creations in doubt", sum(made), time.Since(began).Round(time.Second), p.statuses, p.deadly, p.begun("create"),
		p.begun("update"), p.doubts)
	for _, text := range p.unanswered {
		t.Logf("a run failed because NATS did not answer, and was repeated: %s", text)
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		t.Logf("%4d × %s", made[name], name)
	}
}

func sum(made map[string]int) (n int) {
	for _, m := range made {
		n += m
	}
	return n
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

// faults are all kinds of faults.
func (p *users) faults() []fault {
	all := []string{"nats-1", "nats-2", "nats-3", "service", "worker-eu", "worker-us", "worker-ap"}
	var out []fault
	for _, service := range all {
		out = append(out, fault{service + " killed", 0, func() func() {
			p.kill(service)
			return func() { p.docker("start", p.container(service)) }
		}})
	}
	// Longer than the leases of claims and permits, and than the time after which a worker counts as lost.
	for _, service := range []string{"nats-1", "service", "worker-us"} {
		out = append(out, fault{service + " paused", 6 * time.Second, func() func() {
			p.docker("pause", p.container(service))
			return func() { p.docker("unpause", p.container(service)) }
		}})
	}
	for _, cutOff := range []struct {
		service, network string
		lasts            time.Duration
	}{{"worker-ap", "ap", *cut}, {"nats-2", "core", 8 * time.Second}, {"service", "core", 8 * time.Second}} {
		name, network := p.container(cutOff.service), p.project+"_"+cutOff.network
		out = append(out, fault{cutOff.service + " disconnected from " + cutOff.network, cutOff.lasts, func() func() {
			p.docker("network", "disconnect", network, name)
			return func() { p.docker("network", "connect", "--alias", cutOff.service, network, name) }
		}})
	}
	for _, service := range slices.Sorted(maps.Keys(p.disks)) {
		out = append(out, fault{"disk of " + service + " full", 2 * time.Second, func() func() { return p.fill(service) }})
	}
	return append(out, fault{"all containers killed", 0, func() func() {
		for _, service := range all {
			p.kill(service)
		}
		return func() {
			for _, service := range all {
				p.docker("start", p.container(service))
			}
		}
	}})
}

func (p *users) docker(args ...string) {
	p.Helper()
	p.must("docker", args...)
}

// kill kills a container. It may have ended by itself: a worker whose server was away when it started.
func (p *users) kill(service string) {
	p.Helper()
	if _, err := p.command(p.Context(), p.dir, "docker", "kill", p.container(service)); err != nil &&
		!strings.Contains(err.Error(), "is not running") {
		p.Fatal(err)
	}
	if region, worker := strings.CutPrefix(service, "worker-"); worker {
		p.died.Store(region, time.Now().UnixNano())
	}
}

// fill fills a disk. A server of NATS refuses all writes after one that failed, until it is started again.
func (p *users) fill(service string) func() {
	p.Helper()
	d := p.disks[service]
	if err := d.Fill(); err != nil {
		p.Fatal(err)
	}
	return func() {
		if err := d.Free(); err != nil {
			p.Fatal(err)
		}
		if strings.HasPrefix(service, "nats") {
			p.kill(service)
			p.docker("start", p.container(service))
		}
	}
}
