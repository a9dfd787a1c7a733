package jet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// slotUse is the test's own record of the operations in progress under the permits of a limit.
type slotUse struct {
	mu      sync.Mutex
	slots   int
	running map[string]bool
	most    int
	begun   int
	freed   int
}

func (u *slotUse) enter(id string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running[id] = true
	u.begun++
	u.most = max(u.most, len(u.running))
	if len(u.running) > u.slots {
		return fmt.Errorf("%d operations run under a limit of %d: %v", len(u.running), u.slots, u.running)
	}
	return nil
}

func (u *slotUse) leave(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.running, id)
}

// resolved is an AbandonedFunc: it frees a permit unless an operation is in progress under it.
func (u *slotUse) resolved(_ context.Context, _ string, r wire.PermitRequest) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running[r.ID] {
		return false
	}
	u.freed++
	return true
}

// Coordinators execute operations under permits, and confirm the permit before each operation, while their links fail.
// So other coordinators receive their permits, and free those without an operation.
func TestALimitHoldsWhileLinksAreCutAndFrozen(t *testing.T) {
	const slots, coordinators, each = 3, 3, 3
	e := embed(t, t.TempDir())
	t.Cleanup(func() { closeAll(t, e) })
	use := &slotUse{slots: slots, running: map[string]bool{}}
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()
	var links []*jet.Link
	var work sync.WaitGroup
	for i := range coordinators {
		who := fmt.Sprint("c", i)
		c, link, err := e.ConnectOver(ctx, jet.Options{Name: who, AckWait: ackWait, Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeAll(t, c) })
		c.OnAbandoned(use.resolved)
		must(c.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: slots}))(t)
		links = append(links, link)
		for g := range each {
			work.Go(func() { labour(ctx, t, c, use, who, fmt.Sprint("g", g)) })
		}
	}
	for i, l := range links {
		work.Go(func() { sabotage(ctx, l, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	work.Wait()
	t.Logf("%d pieces of work, at most %d at a time, %d permits freed by others", use.begun, use.most, use.freed)
	if use.begun < 500 {
		t.Errorf("only %d operations were executed", use.begun)
	}
}

// labour requests permits, and uses each for several operations.
func labour(ctx context.Context, t *testing.T, c *jet.Conn, use *slotUse, who, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		r := wire.PermitRequest{ID: fmt.Sprint(who, name, "-", n), Coordinator: who, Run: who}
		p, err := c.Acquire(ctx, "global", r)
		if err != nil {
			continue // cut off, or at the end
		}
		for range 300 {
			if err := p.Confirm(ctx); err != nil {
				break
			}
			if err := use.enter(r.ID); err != nil {
				t.Error(err)
			}
			<-time.After(2 * time.Millisecond)
			use.leave(r.ID)
			<-time.After(3 * time.Millisecond) // in which somebody may find that nothing runs
		}
		for ctx.Err() == nil {
			if err := p.Release(ctx); !errors.Is(err, wire.ErrDisconnected) {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// sabotage cuts and freezes a link, for shorter and longer times than an ack wait.
func sabotage(ctx context.Context, l *jet.Link, rng *rand.Rand) {
	for ctx.Err() == nil {
		<-time.After(time.Duration(rng.Int64N(int64(2 * ackWait))))
		d := time.Duration(rng.Int64N(int64(3 * ackWait)))
		if rng.IntN(3) > 0 {
			l.Cut()
			<-time.After(d)
			l.Heal()
		} else {
			l.Freeze()
			<-time.After(d)
			l.Thaw()
		}
	}
}
