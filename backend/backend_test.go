package backend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/state/journal"
)

// backends returns the backends that fulfil the contract, each with a function that opens the same place again.
func backends(t *testing.T) map[string]func() backend.Backend {
	dir, memory := t.TempDir(), backend.NewMemory()
	return map[string]func() backend.Backend{
		"local": func() backend.Backend { return backend.NewLocal(backend.LocalOptions{Dir: dir}) },
		"inmem": func() backend.Backend {
			b, _ := backend.Place{Memory: memory}.Open(context.Background(), "inmem", cty.EmptyObjectVal)
			return b
		},
	}
}

func TestBackendsKeepTheContract(t *testing.T) {
	for name, dies := range map[string]bool{"local": true, "inmem": false} {
		t.Run(name, func(t *testing.T) {
			// Each part of the suite has a separate place.
			places := map[string]func() backend.Backend{}
			backendtest.Run(t, backendtest.Suite{
				DiesWithHolder: dies,
				Open: func(t *testing.T) backend.Backend {
					if places[t.Name()] == nil {
						places[t.Name()] = backends(t)[name]
					}
					return places[t.Name()]()
				},
			})
		})
	}
}

func TestALockThatWroteNothingLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	b := backend.NewLocal(backend.LocalOptions{Dir: dir})
	lock(t, b, "default", journal.LockInfo{ID: "1"})
	is(t, files(t, dir), []string{".terraform.tfstate.lock.info", "terraform.tfstate"})
	ok(t, b.Unlock(t.Context(), "default", "1"))
	is(t, files(t, dir), nil)
}

func TestTheLockInfoIsThatOfOpenTofu(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	b := backend.NewLocal(backend.LocalOptions{Dir: dir, Now: func() time.Time { return at }})
	lock(t, b, "default", journal.LockInfo{ID: "1", Operation: "apply", Info: "i", Who: "me@here", Version: "1.12.6"})
	data, err := os.ReadFile(filepath.Join(dir, ".terraform.tfstate.lock.info"))
	ok(t, err)
	is(t, string(data), `{"ID":"1","Operation":"apply","Info":"i","Who":"me@here","Version":"1.12.6",`+
		`"Created":"2026-01-02T03:04:05.000000006Z","Path":"terraform.tfstate"}`)
}

func TestTheContentOfBeforeIsBackedUpOnceForACommand(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "terraform.tfstate")
	write := func(o backend.LocalOptions, texts ...string) {
		o.Dir = dir
		b := backend.NewLocal(o)
		for _, text := range texts {
			ok(t, b.Write(t.Context(), "default", []byte(text)))
		}
	}
	write(backend.LocalOptions{}, `{"n":1}`)
	is(t, files(t, dir), []string{"terraform.tfstate"})
	write(backend.LocalOptions{}, `{"n":1}`)
	is(t, files(t, dir), []string{"terraform.tfstate"})
	write(backend.LocalOptions{}, `{"n":2}`, `{"n":3}`)
	is(t, content(t, path+".backup"), `{"n":1}`)
	is(t, content(t, path), `{"n":3}`)
	write(backend.LocalOptions{Backup: "-"}, `{"n":4}`)
	is(t, content(t, path+".backup"), `{"n":1}`)
	write(backend.LocalOptions{Backup: "kept"}, `{"n":5}`)
	is(t, content(t, filepath.Join(dir, "kept")), `{"n":4}`)
	write(backend.LocalOptions{StateOut: "out"}, `{"n":6}`)
	is(t, content(t, path), `{"n":5}`)
	is(t, content(t, filepath.Join(dir, "out")), `{"n":6}`)
}

func TestTheArgumentsPlaceTheFiles(t *testing.T) {
	dir := t.TempDir()
	b, diags := backend.Place{Dir: dir}.Open(t.Context(), "local", cty.ObjectVal(map[string]cty.Value{
		"path": cty.StringVal("a/my.tfstate"), "workspace_dir": cty.StringVal("ws"),
	}))
	ok(t, diags.Err())
	ok(t, b.Write(t.Context(), "default", []byte(`{}`)))
	ok(t, b.Write(t.Context(), "stage", []byte(`{}`)))
	is(t, content(t, filepath.Join(dir, "a", "my.tfstate")), `{}`)
	is(t, content(t, filepath.Join(dir, "ws", "stage", "terraform.tfstate")), `{}`)
	is(t, b.Describe("stage").Where, filepath.Join("ws", "stage", "terraform.tfstate"))
}

// A process that dies while it writes leaves the beginning of the new content in the file, and all of it in the copy
// beside the file.
func TestAWriteThatACrashCutOffIsCompleted(t *testing.T) {
	const before, after = `{"old":"aaaaaaaaaaaaaaaaaaaaaaaaaa"}`, `{"new":"bbbbbbbbbbbbb"}`
	for now, want := range map[string]string{
		before:      before, // not begun
		"":          after,
		after[:9]:   after,
		after:       after,
		`{"x":"y"}`: `{"x":"y"}`, // another engine wrote since
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "terraform.tfstate")
		ok(t, os.WriteFile(path, []byte(now), 0o600))
		ok(t, os.WriteFile(filepath.Join(dir, ".terraform.tfstate.new"), []byte(after), 0o600))
		b := backend.NewLocal(backend.LocalOptions{Dir: dir})
		is(t, read(t, b, "default"), want)
		lock(t, b, "default", journal.LockInfo{ID: "1"})
		is(t, read(t, b, "default"), want)
		ok(t, b.Unlock(t.Context(), "default", "1"))
		is(t, content(t, path), want)
		is(t, files(t, dir), []string{"terraform.tfstate"})
	}
}

func TestAFileThatCannotBeWrittenIsAnError(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	b := backend.NewLocal(backend.LocalOptions{Dir: dir, Path: "file/terraform.tfstate"})
	if err := b.Write(t.Context(), "default", []byte("{}")); err == nil {
		t.Error("it was written")
	}
	if _, err := b.Lock(t.Context(), "default", journal.LockInfo{}); err == nil {
		t.Error("it was locked")
	}
}

// Another process reports what it is permitted to do with a snapshot.
func TestAnotherProcessIsKeptOut(t *testing.T) {
	if dir := os.Getenv("SNAPSHOT_TO_LOCK"); dir != "" {
		b := backend.NewLocal(backend.LocalOptions{Dir: dir})
		_, err := b.Lock(t.Context(), "default", journal.LockInfo{ID: "2"})
		fmt.Printf("result: %v\n", err)
		os.Exit(0) // as a crash: the lock is not given up
	}
	dir := t.TempDir()
	other := func() string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "SNAPSHOT_TO_LOCK="+dir)
		out, err := cmd.CombinedOutput()
		ok(t, err)
		return strings.TrimSpace(string(out))
	}
	is(t, other(), "result: <nil>")
	b := backend.NewLocal(backend.LocalOptions{Dir: dir})
	lock(t, b, "default", journal.LockInfo{ID: "1", Who: "me"}) // the info that it left is no lock
	// Reading the file elsewhere in this process must not release the lock.
	is(t, read(t, backend.NewLocal(backend.LocalOptions{Dir: dir}), "default"), "")
	is(t, other(), "result: the state is locked by me")
	ok(t, b.Unlock(t.Context(), "default", "1"))
	is(t, other(), "result: <nil>")
}

func TestInmemIsLockedFromTheStartByItsArgument(t *testing.T) {
	config := cty.MapVal(map[string]cty.Value{"lock_id": cty.StringVal("2b6a6738-5dd5-50d6-c0ae-f6352977666b")})
	memory := backend.NewMemory()
	for range 2 {
		b, diags := backend.Place{Memory: memory}.Open(t.Context(), "inmem", config)
		ok(t, diags.Err())
		var held *journal.Held
		if _, err := b.Lock(t.Context(), "default", journal.LockInfo{ID: "1"}); !errors.As(err, &held) ||
			!strings.Contains(err.Error(), "locked") {
			t.Errorf("the error is %v", err)
		}
		lock(t, b, "other", journal.LockInfo{ID: "1"})
		ok(t, b.Unlock(t.Context(), "other", "1"))
		ok(t, b.Unlock(t.Context(), "default", "2b6a6738-5dd5-50d6-c0ae-f6352977666b")) // force-unlock
		lock(t, b, "default", journal.LockInfo{ID: "1"})
		ok(t, b.Unlock(t.Context(), "default", "1"))
	}
}

func TestWhatNoBackendTakesIsADiagnostic(t *testing.T) {
	object := func(name string, v cty.Value) cty.Value { return cty.ObjectVal(map[string]cty.Value{name: v}) }
	for claim, c := range map[string]struct {
		typ             string
		config          cty.Value
		summary, detail string
	}{
		"one that was removed": {"swift", cty.EmptyObjectVal, "Unsupported backend type",
			"was removed from OpenTofu"},
		"one that is none": {"x", cty.EmptyObjectVal, "Unsupported backend type",
			`There is no backend type named "x"; there are inmem and local.`},
		"no such argument": {"local", object("pfad", cty.StringVal("x")), "Unsupported argument", `"pfad"`},
		"an argument of no use": {"local", object("path", cty.EmptyObjectVal), "Incorrect attribute value type",
			`"path"`},
		"an empty path": {"local", object("path", cty.StringVal("")), "Invalid local state file path",
			"empty"},
		"an empty directory": {"local", object("workspace_dir", cty.StringVal("")), "Invalid local workspace " +
			"directory path", "empty"},
		"a value that is unknown": {"local", object("path", cty.UnknownVal(cty.String)), "Invalid backend " +
			"configuration", "not known"},
		"a list": {"inmem", cty.ListValEmpty(cty.String), "Invalid backend configuration", "object"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, diags := backend.Place{}.Open(t.Context(), c.typ, c.config)
			if len(diags) != 1 || diags[0].Summary != c.summary || !strings.Contains(diags[0].Detail, c.detail) {
				t.Errorf("the problems are %v", diags.Err())
			}
		})
	}
	for _, nothing := range []cty.Value{cty.NilVal, cty.NullVal(cty.DynamicPseudoType),
		object("path", cty.NullVal(cty.String))} {
		if _, diags := (backend.Place{}).Open(t.Context(), "local", nothing); diags.HasErrors() {
			t.Error(diags.Err())
		}
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	ok(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	ok(t, err)
	return string(data)
}

func read(t *testing.T, b backend.Backend, ws string) string {
	t.Helper()
	data, err := b.Read(t.Context(), ws)
	ok(t, err)
	return string(data)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("the error is %v, want %v", got, want)
	}
}

func is(t *testing.T, got, want any) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) != string(w) {
		t.Errorf("got %s, want %s", g, w)
	}
}

func lock(t *testing.T, b backend.Backend, ws string, info journal.LockInfo) {
	t.Helper()
	_, err := b.Lock(t.Context(), ws, info)
	ok(t, err)
}
