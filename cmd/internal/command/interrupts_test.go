package command

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// signalled simulates a command in virtual time. It gets signals at the given moments, and calls work.
func signalled(t *testing.T, at []time.Duration, work func(i *Interrupts)) (stopped, left, ended time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		signals, done := make(chan os.Signal, 4), make(chan struct{})
		i := newInterrupts(context.Background(), func(string) {}, func(int) {
			ended = time.Since(begun)
		})
		context.AfterFunc(i.Stopping, func() { stopped = time.Since(begun) })
		context.AfterFunc(i.Leaving, func() { left = time.Since(begun) })
		for _, after := range at {
			time.AfterFunc(after, func() { signals <- os.Interrupt })
		}
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			i.handle(signals, done)
		}()
		work(i)
		close(done)
		<-watched
		i.leave(nil)
		synctest.Wait()
	})
	return stopped, left, ended
}

// within waits in virtual time.
func within(d time.Duration) { <-time.After(d) }

// A signal was a token that the next reader took. If a plan's check took it, the apply after the plan began
// nevertheless.
func TestAStopIsSeenByEveryPhaseThatLooksLater(t *testing.T) {
	var seen []bool
	signalled(t, []time.Duration{time.Second}, func(i *Interrupts) {
		defer i.Hold()()
		for range 4 {
			within(600 * time.Millisecond)
			seen = append(seen, i.Asked())
		}
	})
	if want := []bool{false, true, true, true}; !slices.Equal(seen, want) {
		t.Errorf("the phases saw %v, want %v", seen, want)
	}
}

// A signal was only a request. Code that does not check for it, such as the evaluation of 1e600000000 or the reading of
// /dev/zero, continued for minutes.
func TestACommandThatDoesNotLookIsEndedWithinTwoSeconds(t *testing.T) {
	stopped, left, ended := signalled(t, []time.Duration{time.Second}, func(*Interrupts) { within(time.Hour) })
	if stopped != time.Second || left <= stopped || ended <= left || ended > 3*time.Second {
		t.Errorf("it was stopped after %s, told to leave after %s, ended after %s", stopped, left, ended)
	}
}

func TestWhatIsHeldIsFinishedAfterTheFirstSignal(t *testing.T) {
	_, left, ended := signalled(t, []time.Duration{time.Second}, func(i *Interrupts) {
		release := i.Hold()
		within(time.Minute)
		release()
		within(500 * time.Millisecond) // the command ends in time
	})
	if ended != 0 || left != time.Minute+500*time.Millisecond { // the test's own
		t.Errorf("it was told to leave after %s, ended after %s", left, ended)
	}
}

func TestTheSecondSignalEndsWhatIsHeldWithinASecond(t *testing.T) {
	_, left, ended := signalled(t, []time.Duration{time.Second, 5 * time.Second}, func(i *Interrupts) {
		defer i.Hold()()
		within(time.Hour)
	})
	if left != 5*time.Second || ended <= left || ended > 6*time.Second {
		t.Errorf("it was told to leave after %s, ended after %s", left, ended)
	}
}

func TestTheEndOfTheProcessDoesItsDutiesButDoesNotWaitForThem(t *testing.T) {
	var unlocked bool
	_, _, ended := signalled(t, []time.Duration{time.Second}, func(i *Interrupts) {
		i.AtEnd(func(context.Context) { unlocked = true })
		i.AtEnd(func(ctx context.Context) { within(30 * time.Second) })
		i.AtEnd(func(context.Context) { t.Error("a duty that was taken back was done") })()
		within(time.Hour)
	})
	if !unlocked || ended == 0 || ended > 3*time.Second {
		t.Errorf("the lock was released: %t; the process was ended after %s", unlocked, ended)
	}
}
