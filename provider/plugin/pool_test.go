package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/rpc"
)

// launcher simulates the start of processes, and records them.
type launcher struct {
	mu        sync.Mutex
	processes []*fakeProcess
	delay     time.Duration
	fail      error
}

type fakeProcess struct {
	provider.Provider
	dead, closed, stopped atomic.Bool
}

func (a *fakeProcess) provider() provider.Provider { return a }
func (a *fakeProcess) alive() bool                 { return !a.dead.Load() }
func (a *fakeProcess) close()                      { a.closed.Store(true) }
func (a *fakeProcess) Stop(context.Context) error  { a.stopped.Store(true); return nil }

func (th *launcher) launch(ctx context.Context, _ Package, _ string, _ *rpc.SchemaCache) (process, error) {
	select {
	case <-time.After(th.delay):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if th.fail != nil {
		return nil, th.fail
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	a := &fakeProcess{}
	th.processes = append(th.processes, a)
	return a, nil
}

// counts counts the processes: all, and those that have ended.
func (th *launcher) counts() (all, ended int) {
	th.mu.Lock()
	defer th.mu.Unlock()
	for _, a := range th.processes {
		if a.closed.Load() {
			ended++
		}
	}
	return len(th.processes), ended
}

func (th *launcher) expect(t *testing.T, all, ended int, when string) {
	t.Helper()
	synctest.Wait()
	if a, e := th.counts(); a != all || e != ended {
		t.Errorf("%s: %d processes were started, %d ended, instead of %d and %d", when, a, e, all, ended)
	}
}

func (th *launcher) host() *Host {
	h := NewHost(Options{Env: temporaryFiles(), IdleAfter: time.Minute})
	h.launch = th.launch
	return h
}

var thingPackage = Package{Source: "example.com/test/thing", Executable: "/x", Hash: "h1:x"}

// counting returns a configure that counts its calls.
func counting(n *atomic.Int32) Configure {
	return func(context.Context, provider.Provider) diag.List {
		n.Add(1)
		return nil
	}
}

func TestOneProcessPerPackageAndConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{delay: time.Second}
		h := th.host()
		defer h.Close()
		var configured atomic.Int32
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				l, diags := h.Acquire(t.Context(), thingPackage, fmt.Sprint("configuration ", i%3),
					counting(&configured))
				if diags != nil {
					t.Error(diags.Err())
				}
				defer l.Release()
			})
		}
		all.Wait()
		th.expect(t, 3, 0, "after 30 leases of 3 configurations")
		if n := configured.Load(); n != 3 {
			t.Errorf("there were %d configurations", n)
		}
		other := thingPackage
		other.Hash = "h1:y"
		acquire(t, h, other, "configuration 0", counting(&configured))
		th.expect(t, 4, 0, "after a lease of another package")
	})
}

func TestIdleProcessEndsAndALeasedOneDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{}
		h := th.host()
		defer h.Close()
		var n atomic.Int32
		first := acquire(t, h, thingPackage, "c", counting(&n))
		time.Sleep(time.Hour)
		th.expect(t, 1, 0, "while it is leased")
		first.Release()
		first.Release()
		time.Sleep(59 * time.Second)
		second := acquire(t, h, thingPackage, "c", counting(&n))
		time.Sleep(time.Hour)
		th.expect(t, 1, 0, "when it was leased again in time")
		second.Release()
		time.Sleep(61 * time.Second)
		th.expect(t, 1, 1, "after a minute without a lease")
		acquire(t, h, thingPackage, "c", counting(&n))
		th.expect(t, 2, 1, "when it is needed again")
		if n.Load() != 2 {
			t.Errorf("configured %d times", n.Load())
		}
	})
}

func TestUnconfiguredProcessIsConfiguredWhenItIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{}
		h := th.host()
		defer h.Close()
		var n atomic.Int32
		bare := acquire(t, h, thingPackage, "", nil)
		acquire(t, h, thingPackage, "a", counting(&n))
		th.expect(t, 2, 0, "while the unconfigured process is leased")
		bare.Release()
		b := acquire(t, h, thingPackage, "b", counting(&n))
		th.expect(t, 2, 0, "once it is free")
		if b.Provider() != provider.Provider(th.processes[0]) || n.Load() != 2 {
			t.Errorf("configured %d times", n.Load())
		}
		acquire(t, h, thingPackage, "", nil)
		th.expect(t, 2, 0, "when any process will do")
	})
}

func TestDeadProcessIsNotLeasedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{}
		h := th.host()
		defer h.Close()
		l := acquire(t, h, thingPackage, "", nil)
		th.processes[0].dead.Store(true)
		acquire(t, h, thingPackage, "", nil)
		th.expect(t, 2, 0, "after a death")
		l.Release()
		th.expect(t, 2, 1, "when the last lease on the dead one is released")
	})
}

func TestFailedConfigurationReachesAllWhoWaitAndEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{delay: time.Second}
		h := th.host()
		defer h.Close()
		bad := func(context.Context, provider.Provider) diag.List { return diag.Errors("wrong key", "", nil) }
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				l, diags := h.Acquire(t.Context(), thingPackage, "c", bad)
				if l != nil || len(diags) != 1 || diags[0].Summary != "wrong key" {
					t.Errorf("lease %v, diagnostics %v", l, diags)
				}
			})
		}
		all.Wait()
		th.expect(t, 1, 1, "after the failure")
		var n atomic.Int32
		acquire(t, h, thingPackage, "c", counting(&n))
		th.expect(t, 2, 1, "at the next attempt")
	})
}

func TestWarningsReachTheOneWhoConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{}
		h := th.host()
		defer h.Close()
		warn := func(context.Context, provider.Provider) diag.List {
			return diag.List{diag.New(diag.Warning, "old key", "", nil)}
		}
		for i, want := range []int{1, 0} {
			l, diags := h.Acquire(t.Context(), thingPackage, "c", warn)
			if l == nil || len(diags) != want {
				t.Errorf("the %d. lease comes with %d diagnostics", i+1, len(diags))
			}
			l.Release()
		}
	})
}

func TestStartGoesOnAsLongAsSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{delay: time.Minute}
		h := th.host()
		defer h.Close()
		var n atomic.Int32
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if _, diags := h.Acquire(impatient, thingPackage, "c", counting(&n)); !diags.HasErrors() {
				t.Error("the impatient one got a lease")
			}
		})
		synctest.Wait()
		all.Go(func() {
			l, diags := h.Acquire(t.Context(), thingPackage, "c", counting(&n))
			if diags.HasErrors() {
				t.Error(diags.Err())
				return
			}
			l.Release()
		})
		all.Wait()
		th.expect(t, 1, 0, "after the first one left")

		_, diags := h.Acquire(impatient, thingPackage, "d", counting(&n))
		if !diags.HasErrors() {
			t.Error("an ended context got a lease")
		}
		th.expect(t, 1, 0, "when nobody waits any more")
	})
}

func TestStoppedProcessTakesNoNewLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{}
		h := th.host()
		defer h.Close()
		l := acquire(t, h, thingPackage, "", nil)
		if err := h.Stop(t.Context()); err != nil || !th.processes[0].stopped.Load() {
			t.Errorf("stopping: %v", err)
		}
		acquire(t, h, thingPackage, "", nil)
		th.expect(t, 2, 0, "after Stop")
		l.Release()
		th.expect(t, 2, 1, "after the last lease from before Stop")
	})
}

func TestClosedHostHasNoProcessesAndStartsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{}
		h := th.host()
		var n atomic.Int32
		held := acquire(t, h, thingPackage, "a", counting(&n))
		acquire(t, h, thingPackage, "b", counting(&n)).Release()
		th.mu.Lock()
		th.delay = time.Hour
		th.mu.Unlock()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, diags := h.Acquire(t.Context(), thingPackage, "c", counting(&n))
			if err := diags.Err(); err == nil || !strings.Contains(err.Error(), "closed") {
				t.Errorf("a start during Close: %v", err)
			}
		})
		synctest.Wait()
		h.Close()
		waiting.Wait()
		th.expect(t, 2, 2, "after Close")
		held.Release()
		if _, diags := h.Acquire(t.Context(), thingPackage, "a", counting(&n)); !diags.HasErrors() {
			t.Error("a closed host started a process")
		}
	})
}

func TestFailedLaunchIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{fail: errors.New("out of luck")}
		h := th.host()
		defer h.Close()
		_, diags := h.Acquire(t.Context(), thingPackage, "", nil)
		if err := diags.Err(); err == nil || !strings.Contains(err.Error(), "out of luck") {
			t.Errorf("the error is %v", err)
		}
		th.fail = nil
		acquire(t, h, thingPackage, "", nil)
	})
}

// All tasks of one directory and configuration shared a process, so a second operation on a worker was executed with
// the credentials in the environment of the first.
func TestAProcessServesOneEnvironmentAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{}
		h := th.host()
		defer h.Close()
		for _, env := range []environ.Variables{
			nil, {"AWS_PROFILE=a"}, {"AWS_PROFILE=b"}, {"OTHER=1", "AWS_PROFILE=a"}, {},
			{"AWS_PROFILE=a", "OTHER=1"}, {"AWS_PROFILE=b"}, nil,
		} {
			p := thingPackage
			p.Environ = env
			acquire(t, h, p, "configuration", counting(new(atomic.Int32)))
		}
		th.expect(t, 5, 0, "after leases in 5 environments")
	})
}

// Each environment has separate processes, so that the idle processes of a worker with many operations would fill the
// memory until they time out.
func TestNoMoreProcessesIdleThanTheHostIsToldTheOldestGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &launcher{}
		h := th.host()
		h.mostIdle = 3
		defer h.Close()
		lease := func(env string) *Lease {
			p := thingPackage
			p.Environ = environ.Variables{"X=" + env}
			l, diags := h.Acquire(t.Context(), p, "configuration", counting(new(atomic.Int32)))
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			return l
		}
		held := lease("held")
		for _, env := range []string{"a", "b", "c"} {
			lease(env).Release()
		}
		th.expect(t, 4, 0, "with 3 idle processes and one in use")
		lease("a").Release() // now the youngest
		lease("d").Release()
		th.expect(t, 5, 1, "with one idle process too many")
		lease("a").Release()
		th.expect(t, 5, 1, "after a lease of one that was used lately")
		lease("b").Release()
		th.expect(t, 6, 2, "after a lease of the oldest, which has ended")
		held.Release()
	})
}
