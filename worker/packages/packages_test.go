package packages

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const platform = "plan9_mips"

var pkg = wire.Package{Source: "example.com/acme/test", Version: "1.0.0"}

// store is a blob store in memory.
type store struct {
	mu    sync.Mutex
	blobs map[string][]byte
	names map[string]string
	gets  int
	fail  error
}

func (s *store) GetBlob(_ context.Context, sum string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	data, ok := s.blobs[sum]
	if !ok {
		return nil, wire.ErrNotFound
	}
	return data, nil
}

func (s *store) LookupBlob(_ context.Context, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return "", s.fail
	}
	sum, ok := s.names[name]
	if !ok {
		return "", wire.ErrNotFound
	}
	return sum, nil
}

type file struct {
	name, text string
	mode       os.FileMode
}

func archive(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// shared returns a store that has the archive as the test package; the second result is its zh: hash.
func shared(data []byte) (*store, string) {
	sum := sha256.Sum256(data)
	key := hex.EncodeToString(sum[:])
	return &store{
		blobs: map[string][]byte{key: data},
		names: map[string]string{wire.PackageName(pkg, platform): key},
	}, "zh:" + key
}

func plugin(t *testing.T) []byte {
	return archive(t, file{"terraform-provider-test_v1.0.0", "#!/bin/sh\n", 0o644},
		file{"docs/README.md", "read me", 0o644})
}

func h1(t *testing.T, dir string) string {
	t.Helper()
	sum, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func locked(hashes ...string) wire.Package {
	p := pkg
	p.Hashes = hashes
	return p
}

func wantSummary(t *testing.T, diags diag.List, want string) {
	t.Helper()
	if len(diags) != 1 || diags[0].Summary != want {
		t.Errorf("got %v, want one diagnostic %q", diags.Err(), want)
	}
}

func find(t *testing.T, c *Cache, p wire.Package) string {
	t.Helper()
	dir, diags := c.Find(context.Background(), p)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return dir
}

func TestAPackageIsFetchedOnceAndIsThenOnTheDisk(t *testing.T) {
	s, zh := shared(plugin(t))
	cacheDir := t.TempDir()
	c := New(cacheDir, platform, nil, s)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, diags := c.Find(context.Background(), locked(zh)); diags.HasErrors() {
				t.Error(diags.Err())
			}
		})
	}
	all.Wait()
	dir := find(t, c, locked(zh))
	info, err := os.Stat(filepath.Join(dir, "terraform-provider-test_v1.0.0"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o755 {
		t.Errorf("the plugin: %v, %v", info, err)
	}
	next := New(cacheDir, platform, nil, s) // the next worker on this machine
	if got := find(t, next, locked(zh)); got != dir || s.gets != 1 {
		t.Errorf("the package was found in %s, and %d blobs were fetched", got, s.gets)
	}
	entries, err := os.ReadDir(cacheDir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the cache has %v, %v", entries, err)
	}
}

func TestTheHashOfTheContentCountsAsWellAsThatOfTheArchive(t *testing.T) {
	s, _ := shared(plugin(t))
	sum := h1(t, find(t, New(t.TempDir(), platform, nil, s), pkg))
	find(t, New(t.TempDir(), platform, nil, s), locked("h1:other", sum))
}

func TestAPackageWithoutAnAcceptedHashIsNotUsed(t *testing.T) {
	s, _ := shared(plugin(t))
	cacheDir := t.TempDir()
	c := New(cacheDir, platform, nil, s)
	for range 2 { // a failure is not remembered as a success
		_, diags := c.Find(context.Background(), locked("h1:other", "zh:other"))
		wantSummary(t, diags, "Provider package does not match the lock file")
	}
	if entries, err := os.ReadDir(cacheDir); err != nil || len(entries) != 0 {
		t.Errorf("the cache has %v, %v", entries, err)
	}
	find(t, c, pkg) // cached now for those that do not lock it
	_, diags := c.Find(context.Background(), locked("h1:other"))
	wantSummary(t, diags, "Provider package does not match the lock file")
}

func TestCachedContentThatWasChangedIsFetchedAgain(t *testing.T) {
	for claim, damage := range map[string]func(dir string) error{
		"a changed file": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "docs/README.md"),
				[]byte("x"), 0o644)
		},
		"a file more":     func(dir string) error { return os.WriteFile(filepath.Join(dir, "evil"), nil, 0o644) },
		"content gone":    os.RemoveAll,
		"noted hash gone": func(dir string) error { return os.Remove(filepath.Join(dir, "..", hashFile)) },
		"noted hash wrong": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "..", hashFile),
				[]byte("h1:x"), 0o644)
		},
	} {
		t.Run(claim, func(t *testing.T) {
			s, zh := shared(plugin(t))
			cacheDir := t.TempDir()
			dir := find(t, New(cacheDir, platform, nil, s), locked(zh))
			want := h1(t, dir)
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			again := find(t, New(cacheDir, platform, nil, s), locked(zh))
			if got := h1(t, again); got != want || s.gets != 2 {
				t.Errorf("content %s, want %s; fetched %d times", got, want, s.gets)
			}
		})
	}
}

func TestTwoProcessesThatUnpackAtOnceBothGetTheWholePackage(t *testing.T) {
	s, zh := shared(plugin(t))
	cacheDir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			dir, diags := New(cacheDir, platform, nil, s).Find(context.Background(), locked(zh))
			if diags.HasErrors() {
				t.Error(diags.Err())
				return
			}
			if text, err := os.ReadFile(filepath.Join(dir, "docs/README.md")); err != nil || string(text) != "read me" {
				t.Errorf("read %q, %v", text, err)
			}
		})
	}
	all.Wait()
}

type localDir string

func (l localDir) PackageDir(p wire.Package) (string, bool) { return string(l), p.Source == pkg.Source }

func TestALocalDirectoryComesFirst(t *testing.T) {
	s, _ := shared(plugin(t))
	if got := find(t, New(t.TempDir(), platform, localDir("/shared"), s), pkg); got != "/shared" || s.gets != 0 {
		t.Errorf("the package was found in %s, and %d blobs were fetched", got, s.gets)
	}
}

func TestAMissingPackageNamesThePlatform(t *testing.T) {
	s := &store{}
	_, diags := New(t.TempDir(), platform, nil, s).Find(context.Background(), pkg)
	wantSummary(t, diags, "Provider package not available")
	if !strings.Contains(diags[0].Detail, platform) ||
		!strings.Contains(diags[0].Detail, "example.com/acme/test 1.0.0") {
		t.Errorf("the detail is %q", diags[0].Detail)
	}
	s.names = map[string]string{wire.PackageName(pkg, platform): "gone"}
	_, diags = New(t.TempDir(), platform, nil, s).Find(context.Background(), pkg)
	wantSummary(t, diags, "Provider package not available")
}

func TestATransportFailureIsToldAndTriedAgain(t *testing.T) {
	s, zh := shared(plugin(t))
	s.fail = errors.New("no connection")
	c := New(t.TempDir(), platform, nil, s)
	_, diags := c.Find(context.Background(), locked(zh))
	wantSummary(t, diags, "Failed to obtain provider package")
	s.fail = nil
	find(t, c, locked(zh))
}

// electing is a transport that does not answer for a number of requests.
type electing struct {
	*store
	requests int
}

func (e *electing) unanswered() error {
	if e.requests--; e.requests >= 0 {
		return fmt.Errorf("%w: JetStream system temporarily unavailable", wire.ErrUnanswered)
	}
	return nil
}

func (e *electing) LookupBlob(ctx context.Context, name string) (string, error) {
	if err := e.unanswered(); err != nil {
		return "", err
	}
	return e.store.LookupBlob(ctx, name)
}

func (e *electing) GetBlob(ctx context.Context, sha256 string) ([]byte, error) {
	if err := e.unanswered(); err != nil {
		return nil, err
	}
	return e.store.GetBlob(ctx, sha256)
}

// When a server of three was killed, the cluster elected leaders for a second or two, and each plan failed that needed
// a package on a new worker meanwhile: "JetStream system temporarily unavailable".
func TestAnElectionInTheClusterFailsNoPlan(t *testing.T) {
	s, zh := shared(plugin(t))
	synctest.Test(t, func(t *testing.T) {
		for requests, found := range map[int]bool{8: true, 9: false} {
			c := New(t.TempDir(), platform, nil, &electing{s, requests})
			began := time.Now()
			_, diags := c.Find(t.Context(), locked(zh))
			if diags.HasErrors() == found {
				t.Errorf("after %d requests without an answer: %v", requests, diags)
			}
			if waited := time.Since(began); waited > 25*time.Second {
				t.Errorf("it waited for %s", waited)
			}
		}
	})
}

func TestHostileArchivesAreRefused(t *testing.T) {
	for claim, data := range map[string][]byte{
		"a name that leads out":   archive(t, file{"../evil", "x", 0o644}),
		"an absolute name":        archive(t, file{"/etc/evil", "x", 0o644}),
		"a symbolic link":         archive(t, file{"link", "/etc", os.ModeSymlink | 0o777}),
		"the same name twice":     archive(t, file{"a", "x", 0o644}, file{"a", "y", 0o644}),
		"no archive at all":       []byte("not a zip file"),
		"an archive that was cut": plugin(t)[:100],
	} {
		t.Run(claim, func(t *testing.T) {
			s, zh := shared(data)
			cacheDir := t.TempDir()
			_, diags := New(cacheDir, platform, nil, s).Find(context.Background(), locked(zh))
			wantSummary(t, diags, "Failed to obtain provider package")
			if entries, err := os.ReadDir(cacheDir); err != nil || len(entries) != 0 {
				t.Errorf("the cache has %v, %v", entries, err)
			}
		})
	}
}
