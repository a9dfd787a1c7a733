package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/service/events"
)

func read(t *testing.T, s *events.Stream, c events.Cursor, wanted func(*events.Event) bool) events.Batch {
	t.Helper()
	b, err := s.Read(t.Context(), c, wanted)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAReaderGoesOnFromItsCursor(t *testing.T) {
	s := events.New(time.Now)
	at := s.Now()
	for i := range 600 {
		s.Publish(events.Event{Kind: events.RunChanged, Run: fmt.Sprint(i)})
	}
	next := 0
	for next < 600 {
		b := read(t, s, events.ParseCursor(at.String()), nil)
		if b.Reset || len(b.Events) == 0 {
			t.Fatalf("at %s: %+v", at, b)
		}
		for _, e := range b.Events {
			if e.Run != fmt.Sprint(next) {
				t.Fatalf("event %d is %q", next, e.Run)
			}
			next++
		}
		at = b.Next
	}
}

func TestACursorThatIsTooOldOrOfAnotherProcessIsReset(t *testing.T) {
	s, other := events.New(time.Now), events.New(time.Now)
	begin := s.Now()
	for range 20_000 {
		s.Publish(events.Event{Kind: events.RunChanged})
		other.Publish(events.Event{Kind: events.RunChanged})
	}
	for name, c := range map[string]events.Cursor{
		"too old": begin, "of another process": other.Now(), "no cursor": events.ParseCursor("nonsense"),
		"of the future": {Epoch: s.Now().Epoch, Sequence: 1 << 40},
	} {
		b := read(t, s, c, nil)
		if !b.Reset || b.Next != s.Now() {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	s := events.New(time.Now)
	data := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 200 { // each has bytes of its own
		s.Publish(events.Event{Kind: events.RunChanged, Data: append(json.RawMessage(nil), data...)})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 40<<20 {
		t.Errorf("after 200 events of 1 MiB, %d MiB are in memory", grown>>20)
	}
	runtime.KeepAlive(s)
}

func TestAReaderWaitsForWhatItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := events.New(time.Now)
		got := make(chan events.Batch)
		at := s.Now()
		go func() {
			b, err := s.Read(t.Context(), at, func(e *events.Event) bool { return e.Workspace == "mine" })
			if err != nil {
				t.Error(err)
			}
			got <- b
		}()
		for range 5000 {
			s.Publish(events.Event{Workspace: "theirs"})
		}
		synctest.Wait()
		select {
		case b := <-got:
			t.Errorf("the reader did not wait for an event: %+v", b)
		default:
		}
		s.Publish(events.Event{Workspace: "mine"})
		if b := <-got; len(b.Events) != 1 || b.Events[0].Workspace != "mine" || b.Next != s.Now() {
			t.Errorf("%+v", b)
		}
	})
}

func TestAReaderHearsOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := events.New(time.Now)
		at := s.Now()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() { _, err := s.Read(ctx, at, nil); failed <- err }()
		synctest.Wait()
		cancel()
		if err := <-failed; err == nil {
			t.Error("the reader did not return at the end of the context")
		}
		go func() { b, err := s.Read(t.Context(), at, nil); at = b.Next; failed <- err }()
		synctest.Wait()
		s.Publish(events.Event{Kind: events.RunChanged})
		s.Close()
		if err := <-failed; err != nil {
			t.Error(err)
		}
		if b := read(t, s, at, nil); !b.Closed || len(b.Events) > 0 {
			t.Errorf("%+v", b)
		}
	})
}
