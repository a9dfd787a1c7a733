package containers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/people"
)

// These tests follow sections of docs/operations.md, in containers.

// newPeople starts everything with the test providers.
func newPeople(t *testing.T) *users {
	t.Helper()
	s := newStand(t)
	s.withFleet()
	s.start()
	return &users{stand: s, statuses: map[client.RunStatus]int{}, forgiven: map[string]int{}}
}

// begins queues a run whose creations take a time, and returns its ID.
func (p *users) begins(w *client.Workspace, ms int) string {
	p.Helper()
	dir := filepath.Join(p.dir, "people", w.Name, fmt.Sprint(ms))
	if err := configuration(dir, w.Name, "small", ms); err != nil {
		p.Fatal(err)
	}
	id, err := p.account().Queue(p.Context(), w, dir, fmt.Sprint(ms))
	if err != nil {
		p.Fatal(err)
	}
	return id
}

// ends waits until a run has been applied.
func (p *users) ends(id string) {
	p.Helper()
	var r *client.Run
	if err := p.account().Insist(p.Context(), func() (err error) {
		if r, err = p.client.Runs.Read(p.Context(), id); err == nil && !people.Over(r.Status) {
			err = fmt.Errorf("the run is %s", r.Status)
		}
		return err
	}); err != nil {
		p.Fatal(err)
	}
	if r.Status != client.RunApplied {
		p.Fatalf("the run is %s:\n%s", r.Status, people.Logs(p.Context(), p.client, r))
	}
}

// finished counts the creations that have ended, in a pool.
func (p *users) finished(pool string) (n int) {
	for _, c := range p.calls() {
		if c.op == "create" && c.ended && c.pool == pool {
			n++
		}
	}
	return n
}

func (p *users) eventually(what string, holds func() bool) {
	p.Helper()
	if err := p.account().Insist(p.Context(), func() error {
		if !holds() {
			return errors.New(what)
		}
		return nil
	}); err != nil {
		p.Fatal(err)
	}
}

// ready returns the status of the service's /readyz; 0 if it cannot be asked.
func (p *users) ready() int {
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "https://localhost:8443/readyz", nil)
	if err != nil {
		p.Fatal(err)
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close() // its status counts
	return answer.StatusCode
}

// applies has a person apply machines whose creation takes a time, again after each doubt. The channel gets the
// outcome.
func (p *users) applies(w *client.Workspace, ms int) <-chan error {
	p.Helper()
	dir := filepath.Join(p.dir, "people", w.Name)
	if err := configuration(dir, w.Name, "small", ms); err != nil {
		p.Fatal(err)
	}
	applied := make(chan error, 1)
	go func() { // ends when the person has applied the configuration, or gives up
		for try := range patience {
			if done, err := p.apply(p.Context(), w, dir, fmt.Sprint("try ", try)); done || err != nil {
				applied <- err
				return
			}
		}
		applied <- errors.New("it was not applied in many tries")
	}()
	return applied
}

// done waits for the outcome of applies, and checks that each machine is there, and was created once.
func (p *users) done(w *client.Workspace, applied <-chan error) {
	p.Helper()
	if err := <-applied; err != nil {
		p.Fatal(err)
	}
	if err := p.account().Complete(p.Context(), w, machines*len(regions)); err != nil {
		p.Error(err)
	}
	created := map[string]int{}
	for _, c := range p.calls() {
		if c.op == "create" {
			created[c.name]++
		}
	}
	for name, n := range created {
		if n > 1+p.forgiven[name] {
			p.Errorf("%s was created %d times", name, n)
		}
	}
	if n := len(p.objects()); n != machines*len(regions) {
		p.Errorf("the cloud has %d machines", n)
	}
	p.Logf("%d creations were in doubt, of which %d had not been done", p.doubts, len(p.forgiven))
}

func TestALostRegionWaitsAndTheOthersContinue(t *testing.T) {
	p := newPeople(t)
	w := p.workspace("w0")
	applied := p.applies(w, 4000)
	p.eventually("a creation is under way in eu", func() bool {
		for _, c := range p.calls() {
			if c.op == "create" && c.pool == "eu" {
				return true
			}
		}
		return false
	})
	p.kill("worker-eu")
	lost := p.finished("eu")
	p.eventually("the other regions have finished", func() bool {
		return p.finished("us") == machines && p.finished("ap") == machines
	})
	if n := p.finished("eu"); n != lost {
		t.Errorf("eu has finished %d creations without a worker", n-lost)
	}
	p.docker("start", p.container("worker-eu"))
	p.done(w, applied)
}

func TestNothingBeginsWithoutTheMajorityAndAllContinuesWithIt(t *testing.T) {
	p := newPeople(t)
	w := p.workspace("w0")
	applied := p.applies(w, 3000)
	p.eventually("creations are under way", func() bool { return p.begun("create") > machines })
	p.kill("nats-1")
	p.kill("nats-2")
	// What is under way ends, and nothing begins: a claim would need the majority.
	p.eventually("no creation is under way", func() bool {
		for _, c := range p.calls() {
			if c.op == "create" && !c.ended {
				return false
			}
		}
		return true
	})
	before := p.begun("create")
	within(t.Context().Done(), 10*time.Second)
	if after := p.begun("create"); after != before {
		t.Errorf("%d creations have begun without the majority", after-before)
	}
	p.docker("start", p.container("nats-1"), p.container("nats-2"))
	p.done(w, applied)
}

func TestTheServiceMovesToAnEmptyVolumeByItsBackup(t *testing.T) {
	p := newPeople(t)
	w := p.workspace("w0")
	p.ends(p.begins(w, 10))
	out := filepath.Join(p.dir, "compose/example/backup") // the client has this directory as its own
	p.must("docker-compose", "run", "--rm", "-T", "client", "service", "backup", "-address=https://localhost:8443",
		"-out=/example/backup")
	if i, err := os.Stat(out); err != nil || i.Size() == 0 {
		t.Fatalf("the backup: %v", err)
	}
	// The key is kept apart; here it is on the volume, from which it comes back first.
	key := filepath.Join(p.dir, "service.key")
	p.docker("cp", p.container("service")+":/var/lib/millipede/service.key", key)
	p.docker("stop", "-t", "60", p.container("service"))
	image := p.image("service")
	p.must("docker", "volume", "create", p.project+"_moved")
	t.Cleanup(func() {
		_, _ = p.command(context.Background(), p.dir, "docker", "volume", "rm", "-f", p.project+"_moved")
	})
	if err := errors.Join(os.Chmod(key, 0o644), os.Chmod(out, 0o644)); err != nil { // for the user of the image
		t.Fatal(err)
	}
	p.docker("run", "--rm", "-v", p.project+"_moved:/var/lib/millipede", "-v", out+":/backup:ro", "-v", key+":/key:ro",
		image, "service", "restore", "-in=/backup", "-data=/var/lib/millipede/data", "-key-file=/key")
	moved := p.project + "_moved"
	text := "services:\n  service:\n    command: [serve, \"-listen=0.0.0.0:8443\", \"-address=https://localhost:8443\", " +
		"-data=/var/lib/millipede/data, -key-file=/key]\n    volumes: [\"moved:/var/lib/millipede\", \"" + key +
		":/key:ro\"]\nvolumes:\n  moved: {external: true, name: " + moved + "}\n"
	if err := os.WriteFile(filepath.Join(p.dir, "compose/moved.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.override += ":moved.yaml"
	p.must("docker-compose", "up", "-d", "service")
	p.eventually("the service is ready", func() bool { return p.ready() == http.StatusOK })
	if err := p.account().Complete(t.Context(), w, machines*len(regions)); err != nil {
		t.Error(err)
	}
	if _, err := p.account().Ask(t.Context(), http.MethodDelete, "halt", nil, &struct{}{}); err != nil &&
		!strings.Contains(err.Error(), "204") {
		t.Fatal(err)
	}
	p.ends(p.begins(w, 20)) // an update, of every machine
	if n := p.begun("create"); n != machines*len(regions) {
		t.Errorf("%d creations have begun", n)
	}
}

// Each container is replaced while people apply: stopped as an upgrade stops it, and made anew.
func TestContainersAreReplacedOneAfterTheOtherUnderWork(t *testing.T) {
	p := newPeople(t)
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
	for _, service := range []string{"nats-1", "nats-2", "nats-3", "service", "worker-eu", "worker-us", "worker-ap"} {
		p.must("docker-compose", "up", "-d", "--no-deps", "--force-recreate", service)
		p.eventually("the service is ready", func() bool { return p.ready() == http.StatusOK })
		within(ctx.Done(), 5*time.Second) // a server of NATS catches up
	}
	p.struck.Store(true)
	persons.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Error(err)
	}
	p.once()
	if p.statuses[client.RunErrored] > 0 || p.doubts > 0 {
		t.Errorf("%d runs failed, %d creations are in doubt: an upgrade interrupts nothing; %v",
			p.statuses[client.RunErrored], p.doubts, p.unanswered)
	}
	t.Logf("runs ended %v; %d creations and %d updates", p.statuses, p.begun("create"), p.begun("update"))
}
