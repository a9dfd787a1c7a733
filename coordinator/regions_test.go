package coordinator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/program"
	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// severed is a coordinator's connection to a hub, where the pool eu has a message store of its own. From one moment to
// another that store, and its workers, cannot be reached.
type severed struct {
	*mem.Conn
	from, until, began time.Time

	mu   sync.Mutex // guards kept
	kept []wire.Delivery
}

func (s *severed) cut(pool string) error {
	now := time.Now()
	if pool == "eu" && !now.Before(s.from) && now.Before(s.until) {
		return fmt.Errorf("the line to %s is cut: %w", pool, wire.ErrUnanswered)
	}
	return nil
}

func (s *severed) PublishTask(ctx context.Context, ref wire.TaskRef, data []byte) error {
	if err := s.cut(ref.Pool); err != nil {
		return err
	}
	return s.Conn.PublishTask(ctx, ref, data)
}

func (s *severed) Claim(ctx context.Context, ref wire.TaskRef, c wire.Claim) (wire.Claim, error) {
	if err := s.cut(ref.Pool); err != nil {
		return wire.Claim{}, err
	}
	return s.Conn.Claim(ctx, ref, c)
}

func (s *severed) ReadClaim(ctx context.Context, ref wire.TaskRef) (wire.Claim, error) {
	if err := s.cut(ref.Pool); err != nil {
		return wire.Claim{}, err
	}
	return s.Conn.ReadClaim(ctx, ref)
}

func (s *severed) HighWater(ctx context.Context, pools []string) (wire.HighWater, error) {
	mark, err := s.Conn.HighWater(ctx, pools)
	if err == nil && slices.Contains(pools, "eu") {
		why := s.cut("eu")
		mark.SetStore("eu", why)
		if why != nil {
			delete(mark.Claims, "eu")
		}
	}
	return mark, err
}

func (s *severed) SubscribeHeartbeats(ctx context.Context, fn func(wire.Heartbeat)) error {
	return s.Conn.SubscribeHeartbeats(ctx, func(h wire.Heartbeat) {
		if s.cut(h.Pools[0]) == nil {
			fn(h)
		}
	})
}

// FetchResults keeps what comes from eu until the line is there again.
func (s *severed) FetchResults(ctx context.Context, coordinator string, n int) ([]wire.Delivery, error) {
	for {
		within, end := context.WithTimeout(ctx, 100*time.Millisecond)
		list, err := s.Conn.FetchResults(within, coordinator, n)
		end()
		s.mu.Lock()
		s.kept = append(s.kept, list...)
		list = nil
		s.kept = slices.DeleteFunc(s.kept, func(d wire.Delivery) bool {
			if s.cut(d.Ref().Pool) != nil {
				return false
			}
			list = append(list, d)
			return true
		})
		s.mu.Unlock()
		if len(list) > 0 || ctx.Err() != nil || err != nil && within.Err() == nil {
			return list, err
		}
	}
}

// A region that was cut off in the middle of an apply put its operations in doubt after four seconds, and the whole run
// paused, because the message store did not answer.
func TestARegionThatIsCutOffDelaysItsOwnOperationsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		eu, stopEU := serveTasks(t, system, "eu", 4, 2*time.Second)
		defer stopEU()
		us, stopUS := serveTasks(t, system, "us", 4, 2*time.Second)
		defer stopUS()
		p := numbers.New(t, 80)
		p.Lane, p.Stored = program.Safe, true
		p.Place = func(v int) program.Placement { return program.Placement{Region: []string{"us", "eu"}[v%2]} }
		beginRun(t, store, 80)
		now := time.Now()
		conn := &severed{Conn: system.Connect("coordinator"), began: now, from: now.Add(5 * time.Second),
			until: now.Add(65 * time.Second)}
		defer func() { _ = conn.Close() }()
		view := &warned{summary: "A region does not answer"}
		o := applyOptions(conn.Conn, store, p, "a")
		o.Hub, o.Observer = hub.New(conn, "c1"), view
		out, err := New(o).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if out.Status != "done" || len(out.InDoubt) != 0 || out.Diags.HasErrors() {
			t.Errorf("the run ended as %q, with %d in doubt: %v", out.Status, len(out.InDoubt), out.Diags)
		}
		if took := time.Since(now); took < time.Minute || took > 90*time.Second {
			t.Errorf("the run took %s", took)
		}
		if view.n.Load() != 1 {
			t.Errorf("%d warnings about the region", view.n.Load())
		}
		last := time.Time{}
		for _, at := range us.times {
			last = later(last, at)
		}
		if took := last.Sub(now); took > 30*time.Second {
			t.Errorf("the last operation of the other pool began after %s", took)
		}
		for name, n := range eu.began {
			if n != 1 {
				t.Errorf("%s began %d times", name, n)
			}
		}
		if len(eu.began) != 40 || len(us.began) != 40 {
			t.Errorf("%d operations began in eu, %d in us", len(eu.began), len(us.began))
		}
	})
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// The operations in a region that was cut off held all permits of the limit that all pools share: the others did
// nothing until it was back.
func TestARegionThatIsCutOffHoldsNoMoreThanItsShareOfALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		_, stopEU := serveTasks(t, system, "eu", 16, 2*time.Second)
		defer stopEU()
		us, stopUS := serveTasks(t, system, "us", 16, 2*time.Second)
		defer stopUS()
		p := numbers.New(t, 80)
		p.Lane, p.Stored = program.Safe, true
		p.Place = func(v int) program.Placement { // the pool with the most work is the most urgent
			return program.Placement{Region: []string{"eu", "eu", "eu", "us"}[v/20]}
		}
		beginRun(t, store, 80)
		now := time.Now()
		conn := &severed{Conn: system.Connect("coordinator"), began: now, from: now.Add(5 * time.Second),
			until: now.Add(65 * time.Second)}
		defer func() { _ = conn.Close() }()
		o := applyOptions(conn.Conn, store, p, "a")
		o.Hub, o.Parallelism = hub.New(conn, "c1"), 8
		out, err := New(o).Run(t.Context())
		if err != nil || out.Status != "done" || len(out.InDoubt) > 0 {
			t.Errorf("the run ended as %q, with %d in doubt: %v", out.Status, len(out.InDoubt), err)
		}
		last := time.Time{}
		for _, at := range us.times {
			last = later(last, at)
		}
		if took := last.Sub(now); took > 30*time.Second { // 20 operations of 2 s, two at a time
			t.Errorf("the last operation of the other pool began after %s", took)
		}
	})
}
