package seat_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/work"
)

// ice is the connection of a process that can be frozen: then it reads and writes nothing until it is killed.
type ice struct {
	net.Conn
	frozen atomic.Bool
	killed chan struct{}
}

func (c *ice) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.pass()
	return n, err
}

func (c *ice) Write(p []byte) (int, error) {
	c.pass()
	return c.Conn.Write(p)
}

func (c *ice) pass() {
	if c.frozen.Load() {
		<-c.killed
	}
}

// An engine that was frozen, as by SIGSTOP or by a disk that does not answer, kept its seat, and its runs did not go on
// until somebody ended them.
func TestAFrozenEngineIsKilledAndItsRunsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 1)
		h.Start()
		began := make(chan struct{})
		h.engine.PlanFunc = func(ctx context.Context, _ *work.Job) (*work.PlanResult, error) {
			close(began)
			<-ctx.Done()
			return nil, work.ErrStopped
		}
		j, _, _ := job(t, "run-1")
		lost := make(chan error, 1)
		go func() {
			_, err := h.Plan(t.Context(), j)
			lost <- err
		}()
		<-began
		time.Sleep(10 * seat.FrozenTime) //nolint:forbidigo // in virtual time: an engine that answers is left alone
		h.freeze(1)
		frozen := time.Now()
		if err := <-lost; !errors.Is(err, work.ErrLost) {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(frozen); took < seat.FrozenTime || took > seat.FrozenTime+5*time.Second {
			t.Errorf("it was noticed after %v", took)
		}
		h.engine.Mu.Lock()
		h.engine.PlanFunc = nil
		h.engine.Mu.Unlock()
		if _, err := h.Plan(t.Context(), j); err != nil {
			t.Error(err)
		}
		if s := h.Status()[0]; s.Epoch != 2 || s.Restarts != 1 {
			t.Errorf("the seat is %+v", s)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A process that never answered its first message kept its seat empty for ever.
func TestAnEngineThatDoesNotAnswerItsFirstMessageIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 1)
		h.hangs.Store(1)
		h.Start()
		began := time.Now()
		j, _, _ := job(t, "run-1")
		if _, err := h.Plan(t.Context(), j); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < seat.GreetTime || took > seat.GreetTime+5*time.Second {
			t.Errorf("the next engine was there after %v", took)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An engine that did not leave a call went on with it, beside whatever the service did about the run from then on.
func TestAnEngineThatDoesNotLeaveACallIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 1)
		h.Start()
		began, stuck := make(chan struct{}, 2), make(chan struct{})
		defer close(stuck)
		h.engine.PlanFunc = func(context.Context, *work.Job) (*work.PlanResult, error) {
			began <- struct{}{}
			<-stuck
			return nil, work.ErrStopped
		}
		leaving, leave := context.WithCancel(t.Context())
		left, other := make(chan error, 1), make(chan error, 1)
		go func() {
			j, _, _ := job(t, "run-1")
			_, err := h.Plan(leaving, j)
			left <- err
		}()
		go func() {
			j, _, _ := job(t, "run-2")
			_, err := h.Plan(t.Context(), j)
			other <- err
		}()
		<-began
		<-began
		leave()
		if err := <-left; !errors.Is(err, work.ErrStopped) {
			t.Errorf("the call that was left ended with %v", err)
		}
		if err := <-other; !errors.Is(err, work.ErrLost) {
			t.Errorf("the other call ended with %v", err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}
