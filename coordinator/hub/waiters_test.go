package hub_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// A request that yields to others but stays in the queue would be served before a run that has come later: permits are
// granted in the order of the requests.
func TestWhoMakesWayIsServedWhenNobodyElseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		h := hub.New(system.Connect("coordinator"), "c1")
		defer h.Close()
		if _, err := h.DeclareLimit(t.Context(), wire.Limit{Name: "api", Slots: 1}); err != nil {
			t.Fatal(err)
		}
		request := func(id string) wire.PermitRequest { return wire.PermitRequest{ID: id, Run: id, At: time.Now()} }
		var served []string
		ask := func(id string, acquire func(context.Context, string, wire.PermitRequest) (wire.Permit, error)) {
			go func() {
				p, err := acquire(t.Context(), "api", request(id))
				if err != nil {
					t.Error(id, err)
					return
				}
				served = append(served, id)
				<-time.After(time.Minute) // of the bubble
				if err := p.Release(t.Context()); err != nil {
					t.Error(id, err)
				}
			}()
			synctest.Wait()
		}
		ask("first", h.Acquire)
		ask("watch", h.AcquireLast)
		ask("second", h.Acquire)
		ask("third", h.Acquire)
		<-time.After(5 * time.Minute) // of the bubble
		synctest.Wait()
		if got := len(served); got != 4 || served[0] != "first" || served[3] != "watch" {
			t.Errorf("the permit went to %v", served)
		}
	})
}

func TestWhoMakesWayGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		h := hub.New(system.Connect("coordinator"), "c1")
		defer h.Close()
		if _, err := h.DeclareLimit(t.Context(), wire.Limit{Name: "api", Slots: 1}); err != nil {
			t.Fatal(err)
		}
		p, err := h.AcquireLast(t.Context(), "api", wire.PermitRequest{ID: "a", Run: "a", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := h.AcquireLast(ctx, "api", wire.PermitRequest{ID: "b", Run: "b", At: time.Now()})
			failed <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; err == nil {
			t.Error("there were two permits of a limit with one")
		}
		if err := p.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
