package loop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// at returns what the parts of a loop share, at a time after its beginning.
func at(d time.Duration) *common { return &common{now: time.Unix(1_700_000_000, 0).Add(d)} }

// pass lets time pass.
func (c *common) pass(d time.Duration) { c.now = c.now.Add(d) }

// took returns the actions since the last call, as text.
func (c *common) took() (list []string) {
	for _, a := range c.acts {
		list = append(list, strings.TrimPrefix(fmt.Sprintf("%T%v", a, a), "loop."))
	}
	c.acts = nil
	return list
}

// known returns workers of which one of the pool eu sends heartbeats, and nothing else has happened for a minute.
func known(t *testing.T) (ws workers, w *worker) {
	ws = newWorkers(at(0), nil)
	ws.begin(time.Second)
	w, isNew := ws.find("eu", "a")
	if !isNew {
		t.Fatal("the first worker is not new")
	}
	w.Heartbeat, w.seen = wire.Heartbeat{Worker: "a", Pools: []string{"eu"}}, ws.now
	w.takes = true
	ws.pass(time.Minute)
	w.seen = ws.now
	return ws, w
}

func TestAWorkerIsOneOfItsPool(t *testing.T) {
	ws, w := known(t)
	if again, isNew := ws.find("eu", "a"); isNew || again != w {
		t.Error("the same worker is new again")
	}
	if other, isNew := ws.find("us", "a"); !isNew || other == w {
		t.Error("a worker of another pool with the same name is the same")
	}
	for i := 1; i < maxMembers; i++ {
		ws.find("eu", fmt.Sprint(i))
	}
	if w, isNew := ws.find("eu", "one more"); w != nil || isNew || len(ws.order) != maxMembers+1 {
		t.Errorf("%d workers are remembered", len(ws.order))
	}
	if again, _ := ws.find("eu", "a"); again != w {
		t.Error("a worker is forgotten for others")
	}
}

func TestSilenceCountsFromTheLastConnection(t *testing.T) {
	const dead = wire.DeadAfter
	for name, c := range map[string]struct {
		connected time.Duration // for how long
		seen      time.Duration // how long ago
		silent    bool
	}{
		"a worker that was just heard of":                      {time.Hour, 0, false},
		"one that was heard of a moment ago":                   {time.Hour, dead, false},
		"one that was not heard of for long":                   {time.Hour, dead + 1, true},
		"one that could not be heard for want of a connection": {0, time.Hour, false},
		"one that has had no time since the connection":        {dead, time.Hour, false},
		"one that has had the time":                            {dead + 1, time.Hour, true},
	} {
		ws, _ := known(t)
		ws.connected(c.connected)
		if got := ws.silent("eu", ws.now.Add(-c.seen)); got != c.silent {
			t.Errorf("%s is silent: %t", name, got)
		}
	}
}

func TestPlacesAreGivenUpAfterTheSurveyOnly(t *testing.T) {
	ws := newWorkers(at(0), nil)
	ws.begin(10 * time.Second)
	for _, c := range []struct {
		after, connected time.Duration
		surveyed         bool
	}{{0, 0, false}, {9 * time.Second, 9 * time.Second, false}, {time.Second, 10 * time.Second, true},
		{0, 0, false}, {time.Minute, wire.DeadAfter - 1, false}, {0, wire.DeadAfter, true}} {
		ws.pass(c.after)
		ws.connected(c.connected)
		if got := ws.surveyed(); got != c.surveyed {
			t.Errorf("after %s more, connected for %s: %t", c.after, c.connected, got)
		}
	}
}

func TestATaskIsInDoubtWhenItsWorkerIsSilentOrHasForgottenIt(t *testing.T) {
	for name, c := range map[string]struct {
		worker       string
		seen, listed time.Duration // how long ago
		want         string
	}{
		"a worker that lists it":                   {"a", 0, 0, ""},
		"one that has not listed it for a moment":  {"a", 0, claimWait, ""},
		"one that does not list it any more":       {"a", 0, claimWait + 1, "does not hold it any more"},
		"one that is silent":                       {"a", wire.DeadAfter + 1, 0, "has not been heard of"},
		"one that was never heard of":              {"b", 0, wire.DeadAfter, ""},
		"one that was never heard of for too long": {"b", 0, wire.DeadAfter + 1, "has not been heard of"},
	} {
		ws, w := known(t)
		w.seen = ws.now.Add(-c.seen)
		got := ws.unfinished("eu", c.worker, ws.now.Add(-c.listed))
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAPoolIsInTroubleWhenNoneOfItsWorkersTakesTasks(t *testing.T) {
	ws, w := known(t)
	eu, us := &pool{name: "eu"}, &pool{name: "us"}
	check := func(waiting int) string {
		ws.checkTaking([]*pool{eu, us}, map[string]int{"eu": waiting})
		return strings.Join(ws.took(), "; ")
	}
	if told := check(1); told != "" || !eu.troubledSince.IsZero() {
		t.Errorf("a worker without trouble: %s", told)
	}
	w.Trouble = "no room"
	if told := check(0); told != "" || !eu.troubledSince.IsZero() {
		t.Errorf("trouble while nothing waits: %s", told)
	}
	if told := check(1); !strings.Contains(told, "Worker a says: no room.") || strings.Count(told, "Shown") != 1 {
		t.Errorf("trouble is told as %s", told)
	}
	ws.pass(StoreTimeout - 1)
	if told := check(1); told != "" || ws.err != nil {
		t.Errorf("before its time: %s, %v", told, ws.err)
	}
	other, _ := ws.find("eu", "b")
	other.Heartbeat, other.takes = wire.Heartbeat{Worker: "b", Pools: []string{"eu"}}, true
	if check(1); !eu.troubledSince.IsZero() {
		t.Error("another worker takes tasks, and the pool is still in trouble")
	}
	other.takes = false
	check(1)
	ws.pass(StoreTimeout)
	if check(1); ws.err == nil || !strings.Contains(ws.err.Error(), "no room") {
		t.Errorf("the run ends with %v", ws.err)
	}
}

// A region that was cut off looked like the death of all its workers: what they carried out was in doubt after four
// seconds.
func TestTheSilenceOfARegionCountsOnlyWhileItsStoreAnswers(t *testing.T) {
	const dead = wire.DeadAfter
	ago := func(ws *workers, d time.Duration) time.Time { return ws.now.Add(-d) }
	for name, c := range map[string]struct {
		store  func(ws *workers) ownStore
		seen   time.Duration // how long ago
		silent bool
	}{
		"a store that does not answer": {func(ws *workers) ownStore {
			return ownStore{answered: ago(ws, time.Hour), away: ago(ws, time.Minute)}
		}, time.Minute, false},
		"one that has just answered again": {func(ws *workers) ownStore {
			return ownStore{answered: ws.now, back: ws.now}
		}, time.Minute, false},
		"one that answers again for a while": {func(ws *workers) ownStore {
			return ownStore{answered: ws.now, back: ago(ws, dead+1)}
		}, time.Minute, true},
		"one that has not been asked since": {func(ws *workers) ownStore {
			return ownStore{answered: ago(ws, 2*time.Second)}
		}, dead + time.Second, false},
		"one that answers all the time": {func(ws *workers) ownStore { return ownStore{answered: ws.now} }, dead + 1,
			true},
	} {
		ws, w := known(t)
		ws.connected(time.Hour)
		s := c.store(&ws)
		ws.stores["eu"] = &s
		if got := ws.silent("eu", ago(&ws, c.seen)); got != c.silent {
			t.Errorf("%s: a worker is silent: %t", name, got)
		}
		w.seen = ago(&ws, c.seen)
		if got := ws.unfinished("eu", "a", ws.now) != ""; got != c.silent {
			t.Errorf("%s: the task of a worker is in doubt: %t", name, got)
		}
	}
}

// A run whose hub stored nothing never learned that a pool had a store of its own: its region was cut off, and what was
// carried out there was in doubt (seed 900380 of the simulation).
func TestATaskIsNotInDoubtBeforeTheStoreOfItsPoolHasAnswered(t *testing.T) {
	ws := newWorkers(at(0), []string{"eu"})
	ws.begin(time.Second)
	ws.pass(time.Minute)
	ws.connected(time.Minute)
	if got := ws.unfinished("eu", "a", at(0).now); got != "" {
		t.Errorf("in a region that has not answered yet: %s", got)
	}
	if got := ws.unfinished("us", "a", at(0).now); got == "" {
		t.Error("a worker of another pool that was never heard of is expected to report")
	}
	ws.stores["eu"].answered = ws.now
	if got := ws.unfinished("eu", "a", at(0).now); got == "" {
		t.Error("after an answer of the store, a worker that was never heard of is expected to report")
	}
}

// An answer that had been under way for two seconds counted as fresh: its region had been cut off meanwhile, and the
// silence since then counted.
func TestAnAnswerOfAStoreProvesNothingAboutTheTimeSinceItWasAskedFor(t *testing.T) {
	ws, _ := known(t)
	ws.connected(time.Hour)
	l, s := &Loop{}, &ownStore{}
	l.now = ws.now
	ws.stores["eu"] = s
	ask := func(after, under time.Duration) {
		l.now = l.now.Add(after)
		l.storeAnswered("eu", s, l.now.Add(-under))
		ws.now = l.now
	}
	for range 10 {
		ask(time.Second, 0)
	}
	seen := ws.now.Add(-wire.DeadAfter / 2) // a heartbeat was lost
	ask(answerGap, answerGap/2)
	if ws.silent("eu", seen) {
		t.Error("a worker is silent that was heard of shortly before the store was asked")
	}
	for range 10 {
		ask(time.Second, 0)
	}
	if !ws.silent("eu", seen) {
		t.Error("a worker is not silent, although the store has answered since")
	}
}
