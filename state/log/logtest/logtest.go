// Package logtest is the test suite of the transport of package log.
package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state/log"
)

// Run runs the suite. open returns a connection of a member to the same empty log; the test closes it.
func Run(t *testing.T, open func(t *testing.T) (member func(t *testing.T) log.Transport)) {
	for name, test := range map[string]func(t *testing.T, member func(t *testing.T) log.Transport){
		"an entry follows the last one of its store":                     follows,
		"stores share the sequences and not their ends":                  stores,
		"the refusal of an entry names the last sequence":                refusal,
		"of many that expect the same sequence one is stored":            race,
		"the next entry is awaited for the time given":                   next,
		"an entry is read by others as it was stored":                    content,
		"a purge removes what is before the horizon":                     purge,
		"the last entry decides after a purge":                           purged,
		"a part is found by its name, and can be put again":              parts,
		"parts are listed by the beginnings of their names, and removed": list,
		"a context that has ended ends every call":                       ended,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return c
}

// Append appends an entry. It repeats one that is undecided, as any caller has to.
func Append(ctx context.Context, l log.Transport, store string, expected uint64, entry string) (uint64, error) {
	for {
		sequence, err := l.Append(ctx, store, expected, []byte(entry))
		if ctx.Err() != nil || !errors.Is(err, log.ErrUndecided) && !errors.Is(err, log.ErrUnanswered) {
			return sequence, err
		}
	}
}

func must(t *testing.T, l log.Transport, store string, expected uint64, entry string) uint64 {
	t.Helper()
	sequence, err := Append(ctx(t), l, store, expected, entry)
	if err != nil || sequence <= expected {
		t.Fatalf("%q after %d of %s: %d, %v", entry, expected, store, sequence, err)
	}
	return sequence
}

func wantNext(t *testing.T, l log.Transport, store string, from, sequence uint64, entry string) {
	t.Helper()
	got, data, err := l.Next(ctx(t), store, from, 10*time.Second)
	if err != nil || got != sequence || string(data) != entry {
		t.Errorf("the next entry of %s from %d is %d: %q, %v; want %d: %q", store, from, got, data, err, sequence, entry)
	}
}

func wantRefused(t *testing.T, l log.Transport, store string, expected, last uint64) {
	t.Helper()
	_, err := Append(ctx(t), l, store, expected, "refused")
	var refused *log.Refused
	if !errors.As(err, &refused) || refused.Last != last {
		t.Errorf("an entry after %d of %s: %v; want a refusal that names %d", expected, store, err, last)
	}
}

func follows(t *testing.T, member func(t *testing.T) log.Transport) {
	l := member(t)
	last := uint64(0)
	for i := range 5 {
		last = must(t, l, "one", last, fmt.Sprint("entry ", i))
	}
	wantRefused(t, l, "one", last+1, last)
	wantRefused(t, l, "one", 0, last)
	wantRefused(t, l, "none", 3, 0)
	wantRefused(t, l, "one", math.MaxInt64, last)
}

func stores(t *testing.T, member func(t *testing.T) log.Transport) {
	l := member(t)
	a := must(t, l, "one", 0, "a")
	b := must(t, l, "two/with a name. of > any * kind", 0, "b")
	c := must(t, l, "one", a, "c")
	if a >= b || b >= c {
		t.Errorf("the sequences are %d, %d, %d", a, b, c)
	}
	wantNext(t, l, "one", a+1, c, "c")
	wantNext(t, l, "two/with a name. of > any * kind", 0, b, "b")
	wantRefused(t, l, "two/with a name. of > any * kind", c, b)
}

func refusal(t *testing.T, member func(t *testing.T) log.Transport) {
	alice, bob := member(t), member(t)
	first := must(t, alice, "one", 0, "alice's")
	wantRefused(t, bob, "one", 0, first)
	second := must(t, bob, "one", first, "bob's")
	wantRefused(t, alice, "one", first, second)
	wantNext(t, alice, "one", first+1, second, "bob's")
}

func race(t *testing.T, member func(t *testing.T) log.Transport) {
	l := []log.Transport{member(t), member(t)}
	last := must(t, l[0], "one", 0, "the first")
	for round := range 5 {
		var mu sync.Mutex // guards won
		var won []uint64
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				sequence, err := Append(ctx(t), l[i%2], "one", last, fmt.Sprint(round, " of ", i))
				var refused *log.Refused
				switch {
				case err == nil:
					mu.Lock()
					defer mu.Unlock()
					won = append(won, sequence)
				case !errors.As(err, &refused) || refused.Last <= last:
					t.Errorf("one that was not stored: %v", err)
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			t.Fatalf("the sequences of those that were stored after %d: %d", last, won)
		}
		last = won[0]
	}
}

func next(t *testing.T, member func(t *testing.T) log.Transport) {
	alice, bob := member(t), member(t)
	if _, _, err := alice.Next(ctx(t), "one", 0, 0); !errors.Is(err, log.ErrNone) {
		t.Errorf("the next entry of an empty store: %v", err)
	}
	began := time.Now()
	if _, _, err := alice.Next(ctx(t), "one", 0, 50*time.Millisecond); !errors.Is(err, log.ErrNone) ||
		time.Since(began) < 50*time.Millisecond {
		t.Errorf("waiting for the next entry of an empty store: %v after %s", err, time.Since(began))
	}
	var group sync.WaitGroup
	group.Go(func() {
		if sequence, data, err := bob.Next(ctx(t), "one", 0, 20*time.Second); err != nil || string(data) != "awaited" {
			t.Errorf("%d, %q, %v", sequence, data, err)
		}
	})
	last := must(t, alice, "one", 0, "awaited")
	group.Wait()
	if _, _, err := alice.Next(ctx(t), "one", last+1, 0); !errors.Is(err, log.ErrNone) {
		t.Errorf("the entry after the last one: %v", err)
	}
}

func content(t *testing.T, member func(t *testing.T) log.Transport) {
	alice, bob := member(t), member(t)
	big := string(bytes.Repeat([]byte{0, 1, 0xff, '\r', '\n'}, log.MaxInline/5+200))
	a := must(t, alice, "one", 0, "\x00")
	b := must(t, alice, "one", a, big)
	c := must(t, alice, "one", b, "")
	wantNext(t, bob, "one", 0, a, "\x00")
	if sequence, data, err := bob.Next(ctx(t), "one", a+1, 10*time.Second); sequence != b || string(data) != big {
		t.Errorf("%d, %d bytes, %v", sequence, len(data), err)
	}
	wantNext(t, bob, "one", b+1, c, "")
}

func purge(t *testing.T, member func(t *testing.T) log.Transport) {
	l := member(t)
	var one, two []uint64
	for i := range 3 {
		one = append(one, must(t, l, "one", last(one), fmt.Sprint("one ", i)))
		two = append(two, must(t, l, "two", last(two), fmt.Sprint("two ", i)))
	}
	for range 2 { // a second time it has nothing to do
		if err := l.Purge(ctx(t), one[2]); err != nil {
			t.Fatal(err)
		}
		wantNext(t, l, "one", 0, one[2], "one 2")
		wantNext(t, l, "two", 0, two[2], "two 2")
	}
	if err := l.Purge(ctx(t), 0); err != nil {
		t.Error(err)
	}
	wantNext(t, l, "one", 0, one[2], "one 2")
}

func purged(t *testing.T, member func(t *testing.T) log.Transport) {
	l := member(t)
	a := must(t, l, "one", 0, "a")
	b := must(t, l, "one", a, "b")
	if err := l.Purge(ctx(t), b); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, l, "one", 0, b)
	wantRefused(t, l, "one", a, b)
	must(t, l, "one", b, "c")
}

func last(list []uint64) uint64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1]
}

func parts(t *testing.T, member func(t *testing.T) log.Transport) {
	alice, bob := member(t), member(t)
	const name = "snap/one of > them/17/ab12"
	if _, err := alice.Get(ctx(t), name); !errors.Is(err, log.ErrNone) {
		t.Errorf("a part that is not there: %v", err)
	}
	part := bytes.Repeat([]byte{0, 1, 2, 0xff}, log.MaxPart/4)
	for range 2 {
		if err := alice.Put(ctx(t), name, part); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := bob.Get(ctx(t), name); err != nil || !bytes.Equal(got, part) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := alice.Put(ctx(t), "empty", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := bob.Get(ctx(t), "empty"); err != nil || len(got) != 0 {
		t.Errorf("an empty part: %q, %v", got, err)
	}
}

func list(t *testing.T, member func(t *testing.T) log.Transport) {
	l := member(t)
	if got, err := l.List(ctx(t), ""); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"a/1", "a/2", "ab", "b/1"} {
		if err := l.Put(ctx(t), name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(prefix string, names ...string) {
		t.Helper()
		got, err := l.List(ctx(t), prefix)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, names) {
			t.Errorf("the names with %q: %q, %v; want %q", prefix, got, err, names)
		}
	}
	want("a/", "a/1", "a/2")
	want("a", "a/1", "a/2", "ab")
	for range 2 {
		if err := l.Remove(ctx(t), "a/1"); err != nil {
			t.Fatal(err)
		}
	}
	want("", "a/2", "ab", "b/1")
	if _, err := l.Get(ctx(t), "a/1"); !errors.Is(err, log.ErrNone) {
		t.Errorf("a part that was removed: %v", err)
	}
}

func ended(t *testing.T, member func(t *testing.T) log.Transport) {
	l := member(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, appended := l.Append(over, "one", 0, []byte("x"))
	_, _, next := l.Next(over, "one", 0, time.Minute)
	_, get := l.Get(over, "x")
	_, list := l.List(over, "x")
	for i, err := range []error{appended, next, l.Purge(over, 1), l.Put(over, "x", nil), get, list, l.Remove(over, "x")} {
		if err == nil || errors.Is(err, log.ErrNone) {
			t.Errorf("call %d after the end of its context: %v", i, err)
		}
	}
}
