package layout_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/layout"
)

// store is a source whose copies have the given content.
type store func() error

func (s store) CopyTo(_ context.Context, to string) error {
	if err := s(); err != nil {
		return err
	}
	return os.WriteFile(to, []byte("committed"), 0o600)
}

func home(t *testing.T, dataDir string) layout.Home {
	t.Helper()
	d := layout.At("", dataDir)
	h := d.Workspace("default")
	if err := errors.Join(d.Make(), os.MkdirAll(h.Path(), 0o700)); err != nil {
		t.Fatal(err)
	}
	return h
}

func serve(t *testing.T, h layout.Home, s store) *layout.Server {
	t.Helper()
	server, err := h.Serve(s, os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestWhoeverHasTheStoreGivesCopiesToOthers(t *testing.T) {
	long := strings.Repeat("a-directory-with-a-long-name/", 6)
	for name, dir := range map[string]string{"beside": "", "in a path too long for a socket": long} {
		t.Run(name, func(t *testing.T) {
			h := home(t, filepath.Join(t.TempDir(), dir))
			if _, _, err := h.Ask(t.Context()); !errors.Is(err, layout.ErrNobody) {
				t.Fatalf("without a server, the error of a request is %v", err)
			}
			server := serve(t, h, func() error { return nil })
			for _, pulled := range []bool{false, true} {
				if pulled {
					server.Pulled()
				}
				dir, was, err := h.Ask(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if text, err := os.ReadFile(filepath.Join(dir, "state.db")); err != nil || string(text) != "committed" {
					t.Errorf("the copy is %q (%v)", text, err)
				}
				if was != pulled {
					t.Errorf("the copy has the mark %v of the snapshot, want %v", was, pulled)
				}
			}
		})
	}
}

// A process that was killed leaves its socket, which the next process replaces.
func TestTheSocketOfAProcessThatDiedIsInNobodysWay(t *testing.T) {
	h := home(t, t.TempDir())
	l, err := net.Listen("unix", filepath.Join(h.Path(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Ask(t.Context()); !errors.Is(err, layout.ErrNobody) {
		t.Fatalf("a request to the socket of a dead process returns %v", err)
	}
	serve(t, h, func() error { return nil })
	if _, _, err := h.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// If the path of a socket in the home would be too long, the socket is in a separate directory below the one for
// temporary files. A process that was killed left that directory behind, and the next one created another.
func TestTheDirectoryOfTheSocketOfAProcessThatDiedGoes(t *testing.T) {
	h := home(t, filepath.Join(t.TempDir(), strings.Repeat("a-directory-with-a-long-name/", 6)))
	temp, err := os.MkdirTemp("/tmp", "s") // a socket in t.TempDir has no room either
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(temp); err != nil {
			t.Error(err)
		}
	})
	died := func(more string) {
		dir, err := os.MkdirTemp(temp, "millipede-")
		if err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(dir, "socket")
		if err := errors.Join(os.WriteFile(socket, nil, 0o600), os.WriteFile(filepath.Join(h.Path(), "socket.path"),
			[]byte(socket), 0o600)); err != nil {
			t.Fatal(err)
		}
		if more != "" {
			if err := os.WriteFile(filepath.Join(dir, more), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		more string
		left int
	}{{"", 1}, {"somebody's", 2}} {
		died(c.more)
		server, err := h.Serve(store(func() error { return nil }), temp)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) != c.left {
			t.Errorf("in addition to %q there are %q (%v)", c.more, left, err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACopyThatFailsLeavesNothing(t *testing.T) {
	h := home(t, t.TempDir())
	serve(t, h, func() error { return errors.New("no space left on device") })
	_, _, err := h.Ask(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the error of a request is %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(h.Path(), "read-*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left (%v)", left, err)
	}
}

// The server answers any input on the socket in one line or not at all, and continues to serve.
func TestRequestsThatMakeNoSenseAreRefused(t *testing.T) {
	h := home(t, t.TempDir())
	serve(t, h, func() error { return nil })
	for request, want := range map[string]string{
		`{"version":1,"op":"dance"}`: `no request \"dance\"`,
		`{"version":2,"op":"copy"}`:  "version 2",
		"not JSON":                   "",
		strings.Repeat("x", 1<<16):   "",
	} {
		conn, err := net.Dial("unix", filepath.Join(h.Path(), "socket"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(request + "\n"))         // the server may hang up first
		line, _ := bufio.NewReader(conn).ReadString('\n') // no answer is one
		if !strings.Contains(line, want) || want == "" && line != "" {
			t.Errorf("%.40s: %q", request, line)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := h.Ask(t.Context()); err != nil {
		t.Errorf("afterwards a request fails: %v", err)
	}
}

func TestTheDirectoryKeepsItselfOutOfVersionControl(t *testing.T) {
	t.Chdir(t.TempDir())
	d := layout.At("", "")
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	ignore := filepath.Join(".millipede", ".gitignore")
	if text, err := os.ReadFile(ignore); err != nil || string(text) != "*\n" {
		t.Errorf("it has %q (%v)", text, err)
	}
	if err := os.WriteFile(ignore, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(ignore); err != nil || string(text) != "# mine\n" {
		t.Errorf("the user's own file has the content %q (%v)", text, err)
	}
}

func TestNamesOfWorkspacesAreNamesOfDirectories(t *testing.T) {
	d := layout.At("", t.TempDir())
	names := []string{"..", ".hidden", "a/b", "default", "x"}
	for _, name := range names {
		h := d.Workspace(name)
		if dir := filepath.Dir(h.Path()); filepath.Base(dir) != "workspaces" {
			t.Errorf("the directory of %q is %s", name, h.Path())
		}
		if err := os.MkdirAll(h.Path(), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.Workspaces(); err != nil || !slices.Equal(got, names) {
		t.Errorf("the list of workspaces is %q (%v)", got, err)
	}
	if err := d.Workspace("x").Remove(); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Workspaces(); err != nil || slices.Contains(got, "x") {
		t.Errorf("a removed workspace is in the list: %q (%v)", got, err)
	}
}

// The store of an earlier version is divided into those of the workspaces completely or not at all.
func TestTheFormerLayoutIsReplacedInOneStep(t *testing.T) {
	d := layout.At("", t.TempDir())
	base := d.Path()
	if err := errors.Join(d.Make(), os.MkdirAll(filepath.Join(base, "nats", "streams"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state.db", "coordinator", "nats/streams/1.blk"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	interrupted := errors.New("interrupted")
	split := func(fail error) func(func(string) string) error {
		return func(storeOf func(string) string) error {
			for _, w := range []string{"default", "other"} {
				if err := os.WriteFile(storeOf(w), []byte("store of "+w), 0o600); err != nil {
					return err
				}
			}
			return fail
		}
	}
	if err := d.Divide(split(interrupted)); !errors.Is(err, interrupted) {
		t.Fatal(err)
	}
	if path, is := d.Former(); !is || path != filepath.Join(base, "state.db") {
		t.Fatal("after a failed division the former store is not used any more")
	}
	if err := d.Divide(split(nil)); err != nil {
		t.Fatal(err)
	}
	if _, is := d.Former(); is {
		t.Error("the former store is still used")
	}
	for _, w := range []string{"default", "other"} {
		h := d.Workspace(w)
		for path, want := range map[string]string{
			h.Store(): "store of " + w, h.Identity(): "coordinator", filepath.Join(h.Messages(), "streams",
				"1.blk"): "nats/streams/1.blk",
		} {
			if text, err := os.ReadFile(path); err != nil || string(text) != want {
				t.Errorf("%s has %q (%v)", path, text, err)
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(base, layout.KeptName)); err != nil || string(text) != "state.db" {
		t.Errorf("of the former store %q is left (%v)", text, err)
	}
	if _, err := os.Stat(filepath.Join(base, "nats")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the former streams still exist: %v", err)
	}
}

func TestCopiesOfReadersThatWereKilledGo(t *testing.T) {
	h := home(t, t.TempDir())
	dir, err := h.MakeCopyDir()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		left  bool
	}{{time.Minute, true}, {time.Hour, false}} {
		if err := h.Tidy(now.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); (err == nil) != step.left {
			t.Errorf("after %s: %v", step.after, err)
		}
	}
}
