package record

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// ticking returns a clock that shows 1, 2, 3 ... nanoseconds.
func ticking() func() time.Time {
	var mu sync.Mutex
	var n int64
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		n++
		return time.Unix(0, n)
	}
}

func open(t *testing.T, path string, base Entry, now func() time.Time) *Log {
	t.Helper()
	log, err := Append(path, base, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func start(t *testing.T, log *Log, e Entry) *Call {
	t.Helper()
	call, err := log.Start(e)
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func end(t *testing.T, call *Call, failure error) {
	t.Helper()
	if err := call.End(failure); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) Record {
	t.Helper()
	r, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARecordAnswersWhatHappened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	now := ticking()
	eu := open(t, path, Entry{PID: 1, Provider: "fleet", Worker: "w1", Pool: "eu"}, now)
	us := open(t, path, Entry{PID: 2, Provider: "legacy", Worker: "w2", Pool: "us"}, now)

	a := start(t, eu, Entry{Op: Create, Type: "fleet_machine", Name: "a"}) // 1
	b := start(t, us, Entry{Op: Create, Type: "legacy_item", Name: "b"})   // 2
	a.ID = "a-1"
	end(t, a, nil)                                                         // 3
	c := start(t, us, Entry{Op: Update, Type: "legacy_item", Name: "b"})   // 4
	end(t, c, errors.New("no"))                                            // 5
	end(t, b, nil)                                                         // 6
	d := start(t, eu, Entry{Op: Create, Type: "fleet_machine", Name: "a"}) // 7, again, and never ended
	e := start(t, eu, Entry{Op: Read, Type: "fleet_machine", Name: "a"})   // 8
	end(t, e, nil)                                                         // 9: the last sign of life
	_ = d

	r := read(t, path)
	if got := len(r); got != 9 {
		t.Errorf("%d lines, want 9", got)
	}
	calls := r.Calls()
	if first := calls[0]; first.ID != "a-1" || first.Outcome != End || first.Time != 1 || first.Ended != 3 ||
		first.Worker != "w1" {
		t.Errorf("the first call is %+v", first)
	}
	if third := calls[2]; third.Outcome != Error || third.Failure != "no" {
		t.Errorf("the failed call is %+v", third)
	}
	if fourth := calls[3]; fourth.Outcome != Unfinished || fourth.Ended != 9 {
		t.Errorf("the unfinished call is %+v", fourth)
	}
	for claim, got := range map[string][2]any{
		"creations":               {r.Count(Create), 3},
		"creations in us":         {r.Count(Create, Pools("us")), 1},
		"updates that succeeded":  {r.Count(Update, Outcomes(End)), 0},
		"created":                 {r.Created(), map[string]int{"a": 1, "b": 1}},
		"started twice":           {r.Repeated(Create), []string{"a"}},
		"updated twice":           {r.Repeated(Update), []string(nil)},
		"concurrent":              {r.MaxConcurrent(), 2},
		"concurrent in eu":        {r.MaxConcurrent(Workers("w1")), 2},
		"concurrent creations":    {r.MaxConcurrent(Ops(Create)), 2},
		"concurrent in eu, types": {r.MaxConcurrent(Types("fleet_machine"), Ops(Create)), 1},
		"changes":                 {len(r.Calls(Changes(), Providers("legacy"), Names("b"))), 2},
	} {
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%s: %v, want %v", claim, got[0], got[1])
		}
	}
	s := r.Summarize()
	if s.Calls != 5 || s.Ops[Create]["unfinished"] != 1 || s.MaxConcurrent["pool us"] != 2 || s.Span.From != 1 ||
		s.Span.To != 9 {
		t.Errorf("the summary is %+v", s)
	}
}

func TestCallsThatFollowEachOtherAreNotConcurrent(t *testing.T) {
	r := Record{
		{Time: 1, Call: 1, Phase: Start}, {Time: 5, Call: 1, Phase: End},
		{Time: 5, Call: 2, Phase: Start}, {Time: 9, Call: 2, Phase: Error},
	}
	if got := r.MaxConcurrent(); got != 1 {
		t.Errorf("MaxConcurrent is %d, want 1", got)
	}
}

func TestACallWithoutAnotherSignOfLifeStillRan(t *testing.T) {
	r := Record{{Time: 1, Call: 1, Phase: Start}}
	if got := r.MaxConcurrent(); got != 1 {
		t.Errorf("MaxConcurrent is %d, want 1", got)
	}
}

func TestManyWritersLeaveWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	now := ticking()
	const writers, each = 8, 200
	var all sync.WaitGroup
	for w := range writers {
		log := open(t, path, Entry{PID: w}, now) // a file description of its own, as another process has
		all.Go(func() {
			for range each {
				call, err := log.Start(Entry{Op: Create, Name: strings.Repeat("n", 300)})
				if err == nil {
					err = call.End(nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if got := read(t, path).Count(Create, Outcomes(End)); got != writers*each {
		t.Errorf("%d calls, want %d", got, writers*each)
	}
}

func TestOddFiles(t *testing.T) {
	dir := t.TempDir()
	if r := read(t, filepath.Join(dir, "none")); len(r) != 0 {
		t.Errorf("a missing record has %d lines", len(r))
	}
	path := filepath.Join(dir, "half")
	if err := os.WriteFile(path, []byte(`{"op":"read","phase":"start"}`+"\n"+`{"op":"re`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := read(t, path); len(r) != 1 {
		t.Errorf("with a line half written there are %d lines, want 1", len(r))
	}
	if err := os.WriteFile(path, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil {
		t.Error("nonsense is a record")
	}
}

func TestALogWithoutAPathWritesNothing(t *testing.T) {
	log := open(t, "", Entry{}, time.Now)
	end(t, start(t, log, Entry{Op: Create}), nil)
}
