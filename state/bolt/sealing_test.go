package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
)

// passphrase is a wrapper that puts a word before the reversed key. With an empty word, it does not change the key.
type passphrase struct {
	now       string
	fallbacks []string
}

func (p *passphrase) Encrypts() bool { return p.now != "" }

func (p *passphrase) Seal(_ context.Context, key []byte) ([]byte, error) {
	turned := slices.Clone(key)
	slices.Reverse(turned)
	return append([]byte(p.now+":"), turned...), nil
}

func (p *passphrase) Open(_ context.Context, wrapped []byte, valid func() error) ([]byte, bool, error) {
	for i, word := range append([]string{p.now}, p.fallbacks...) {
		turned, ok := bytes.CutPrefix(wrapped, []byte(word+":"))
		switch {
		case word == "" && !bytes.Contains(wrapped, []byte(":")):
			return wrapped, i > 0, valid()
		case ok && word != "":
			key := slices.Clone(turned)
			slices.Reverse(key)
			return key, i > 0, nil
		}
	}
	return nil, false, errors.New("the passphrase is wrong")
}

const hush = "hush-hush"

// fill writes the secret everywhere: into an output, an earlier version of it, a plan, an event, and the location of a
// mark.
func fill(t *testing.T, s *bolt.Store) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.BeginRun(ctx, "", journal.Run{ID: "r", Workspace: "default", Status: "running", Started: time.Unix(1, 0)},
		[]byte(hush)))
	for _, v := range []string{hush + "1", hush + "2"} {
		must(s.Commit(ctx, journal.Commit{
			Workspace:  "default",
			Changes:    []state.Change{state.SetOutput{Name: "o", Output: &state.Output{Value: cty.StringVal(v)}}},
			EndVersion: true,
			Run:        "r", Events: []journal.Event{{Detail: hush}},
		}))
	}
	must(s.SetMark(ctx, "default", journal.SnapshotMark{Where: "w", SHA256: hush}))
}

// check checks the data that fill has written.
func check(t *testing.T, s *bolt.Store) {
	t.Helper()
	ctx := t.Context()
	now, err := s.Load(ctx, "default")
	if err != nil || now.Outputs["o"].Value.AsString() != hush+"2" {
		t.Fatalf("the state: %v, %v", now, err)
	}
	versions, err := s.Versions(ctx, "default")
	if err != nil || len(versions) != 2 {
		t.Fatalf("the versions: %v, %v", versions, err)
	}
	before, err := s.LoadVersion(ctx, "default", versions[1].Serial)
	if err != nil || before.Outputs["o"].Value.AsString() != hush+"1" {
		t.Fatalf("the version before: %v, %v", before, err)
	}
	if _, plan, err := s.RunPlan(ctx, "r"); err != nil || string(plan) != hush {
		t.Fatalf("the plan: %q, %v", plan, err)
	}
	if events, err := s.Events(ctx, "r"); err != nil || len(events) != 2 || events[0].Detail != hush {
		t.Fatalf("the events: %v, %v", events, err)
	}
	if m, err := s.Mark(ctx, "default"); err != nil || m.SHA256 != hush {
		t.Fatalf("the mark: %v, %v", m, err)
	}
}

// lies reports whether a file in the directory contains the secret in plain text.
func lies(t *testing.T, dir string) bool {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(hush)) {
			return true
		}
	}
	return false
}

func write(t *testing.T, s *bolt.Store) {
	t.Helper()
	if err := s.Commit(t.Context(), journal.Commit{Workspace: "default", Changes: []state.Change{
		state.SetOutput{Name: "other", Output: &state.Output{Value: cty.True}},
	}}); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreIsSealedAnewByTheFirstChangeAndNothingOfBeforeStays(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, only *passphrase
		sealed         bool
	}{
		"into": {nil, &passphrase{now: "a", fallbacks: []string{""}}, &passphrase{now: "a"}, true},
		"rollover": {&passphrase{now: "a"}, &passphrase{now: "b", fallbacks: []string{"a"}},
			&passphrase{now: "b"}, true},
		"out of": {&passphrase{now: "a"}, &passphrase{fallbacks: []string{"a"}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state.db")
			with := func(p *passphrase, use func(*bolt.Store)) {
				t.Helper()
				var w bolt.Wrapper
				if p != nil {
					w = p
				}
				s := openWith(t, path, w)
				use(s)
				if err := errors.Join(s.Check(), s.Close()); err != nil {
					t.Fatal(err)
				}
			}
			with(c.from, func(s *bolt.Store) { fill(t, s) })
			with(c.to, func(s *bolt.Store) { check(t, s) })   // who looks changes nothing:
			with(c.from, func(s *bolt.Store) { check(t, s) }) // the former way still opens it
			with(c.to, func(s *bolt.Store) { write(t, s); check(t, s) })
			with(c.only, func(s *bolt.Store) { check(t, s) })
			if lies(t, dir) == c.sealed {
				t.Errorf("the secret is in plain text: %v", !c.sealed)
			}
		})
	}
}

func TestAStoreThatCannotBeOpenedSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openWith(t, path, &passphrase{now: "a"})
	fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]bolt.Wrapper{"another passphrase": &passphrase{now: "b"}, "no configuration": nil} {
		t.Run(name, func(t *testing.T) {
			s := openWith(t, path, w)
			if _, err := s.Workspaces(t.Context()); err != nil {
				t.Errorf("what is in the clear: %v", err)
			}
			_, err := s.Load(t.Context(), "default")
			if !errors.Is(err, journal.ErrSealed) || !strings.Contains(err.Error(), "fallback") {
				t.Errorf("got %v", err)
			}
			if err := s.Commit(t.Context(), journal.Commit{Workspace: "default", EndUnfinished: true}); !errors.Is(err,
				journal.ErrSealed) {
				t.Errorf("got %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("in the clear without leave", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		s := open(t, path)
		fill(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openWith(t, path, &passphrase{now: "a"})
		if _, err := s.Load(t.Context(), "default"); !errors.Is(err, journal.ErrSealed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnEmptyStoreIsBoundToNoKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	for _, w := range []bolt.Wrapper{nil, &passphrase{now: "a"}, &passphrase{now: "b"}, nil} {
		s := openWith(t, path, w)
		if _, err := s.Load(t.Context(), "default"); err != nil {
			t.Errorf("with %v: %v", w, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Each new store was written twice: without a seal, and then, before the first run, as a sealed copy in another file.
func TestANewStoreIsSealedWithoutACopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	s := openWith(t, path, &passphrase{now: "a"})
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s)
	check(t, s)
	after, err := os.Stat(path)
	if err := errors.Join(err, s.Check(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) || lies(t, dir) {
		t.Errorf("the file was replaced: %v; the secret is in plain text: %v", !os.SameFile(before, after), lies(t, dir))
	}
	s = openWith(t, path, &passphrase{now: "a"})
	check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, path, &passphrase{now: "b"})
	if _, err := s.Load(t.Context(), "default"); !errors.Is(err, journal.ErrSealed) {
		t.Errorf("opening the store without the key: %v", err)
	}
}

// A new store of the service took three transactions before it could be used, one after the other.
func TestANewStoreCanBeSealedWithItsWorkspaceAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	for range 2 {
		s, err := bolt.OpenOptions(path, journal.LockInfo{}, 0, bolt.Options{Wrapper: &passphrase{now: "a"}, SealNew: true,
			Workspace: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		names, err := s.Workspaces(t.Context())
		if want := []string{"default", "prod"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("the workspaces are %v (%v), want %v", names, err, want)
		}
		if _, err := s.Load(t.Context(), "prod"); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := openWith(t, path, &passphrase{now: "b"})
	fill(t, s) // it has nothing yet, so nothing is lost with its key
	if err := errors.Join(s.Check(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if lies(t, dir) {
		t.Error("the secret is in plain text")
	}
	_, err := bolt.OpenOptions(filepath.Join(dir, "other.db"), journal.LockInfo{}, 0,
		bolt.Options{Wrapper: &keyless{passphrase{now: "a"}}, SealNew: true})
	if !errors.Is(err, errUnreachable) {
		t.Errorf("a store that cannot be sealed was opened: %v", err)
	}
}

// keyless is a wrapper whose key provider cannot be reached.
type keyless struct{ passphrase }

var errUnreachable = errors.New("the key provider cannot be reached")

func (*keyless) Seal(context.Context, []byte) ([]byte, error) { return nil, errUnreachable }

func TestANewStoreThatCannotBeSealedCanBeReadAndNotWritten(t *testing.T) {
	s := openWith(t, filepath.Join(t.TempDir(), "state.db"), &keyless{passphrase{now: "a"}})
	if _, err := s.Load(t.Context(), "default"); err != nil {
		t.Error(err)
	}
	err := s.Commit(t.Context(), journal.Commit{Workspace: "default", Changes: []state.Change{state.SetOutput{Name: "o",
		Output: &state.Output{Value: cty.StringVal(hush)}}}})
	if !errors.Is(err, errUnreachable) {
		t.Errorf("the commit returned %v", err)
	}
}

func TestACopyThatACrashLeftIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path+".new", []byte(hush), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished copy still exists: %v", err)
	}
}

func TestWhoWaitedForTheFormerFileGetsThePresentOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	first := open(t, path)
	fill(t, first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	first = openWith(t, path, &passphrase{now: "a", fallbacks: []string{""}})
	waiting := make(chan *bolt.Store)
	go func() {
		s, err := bolt.OpenOptions(path, journal.LockInfo{}, time.Minute,
			bolt.Options{NoSync: true, Wrapper: &passphrase{now: "a"}})
		if err != nil {
			t.Error(err)
		}
		waiting <- s
	}()
	write(t, first) // puts another file in the place of the one that is waited for, or that will be
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := <-waiting
	check(t, second)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
