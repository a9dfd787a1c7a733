package backend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/backend"
)

// A lock that an operator had broken, and that another process had acquired since, counted as held until the next
// write.
func TestALockThatIsGoneIsNoticedAndOneThatCannotBeAskedForIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w backend.LockChecks
		defer w.Close()
		answers := []func() (bool, error){
			func() (bool, error) { return true, nil },
			func() (bool, error) { return false, errors.New("the place is out of order") },
			func() (bool, error) { return false, nil },
		}
		asked := 0
		ctx, cancel := context.WithCancel(t.Context())
		lost := w.Start(ctx, time.Minute, "default", "1", func(context.Context) (bool, error) {
			asked++
			return answers[asked-1]()
		})
		cancel() // the command that took it may have ended; the lock has not
		begun := time.Now()
		<-lost.Lost
		if asked != 3 || time.Since(begun) != 3*time.Minute {
			t.Errorf("noticed after %d looks and %s", asked, time.Since(begun))
		}
	})
}

func TestChecksEndWithTheirLockAndWithTheirBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w backend.LockChecks
		never := func(context.Context) (bool, error) { t.Error("looked at"); return false, nil }
		w.Start(t.Context(), time.Minute, "a", "1", never)
		w.Start(t.Context(), time.Minute, "a", "2", never) // takes the place of the first
		w.Start(t.Context(), time.Minute, "b", "3", never)
		if w.Stop("a", "1") || !w.Stop("a", "2") || w.Stop("a", "2") {
			t.Error("checks were ended under a wrong ID, or not at all")
		}
		w.Close()
		time.Sleep(time.Hour) // in the clock of the test
	})
}
