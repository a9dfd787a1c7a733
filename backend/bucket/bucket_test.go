package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/backend/bucket"
)

// memory is a driver without a store, with pages of two objects. before, unless it is nil, is called with each request.
type memory struct {
	mu      sync.Mutex // guards objects
	objects map[string][]byte
	before  func(request, object string)
	closed  bool
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}} }

func (m *memory) request(name, object string) {
	if m.before != nil {
		m.before(name, object)
	}
}

func (m *memory) List(_ context.Context, prefix, page string) (names []string, next string, err error) {
	m.request("list", prefix)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		switch {
		case !strings.HasPrefix(name, prefix) || name <= page:
		case len(names) == 2:
			return names, names[1], nil
		default:
			names = append(names, name)
		}
	}
	return names, "", nil
}

func (m *memory) Get(_ context.Context, object string) ([]byte, error) {
	m.request("get", object)
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.objects[object]), nil
}

func (m *memory) Put(_ context.Context, object string, data []byte) error {
	m.request("put", object)
	m.set(object, data)
	return nil
}

func (m *memory) Delete(_ context.Context, object string) error {
	m.request("delete", object)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, object)
	return nil
}

func (m *memory) Where(object string) string { return "memory://states/" + object }

func (m *memory) Close() { m.closed = true }

// set stores an object as somebody else would.
func (m *memory) set(object string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[object] = append([]byte{}, data...)
}

// create stores an object unless there is one.
func (m *memory) create(object string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, exists := m.objects[object]; exists {
		return bucket.ErrExists
	}
	m.objects[object] = append([]byte{}, data...)
	return nil
}

// comparing is a driver whose store compares.
type comparing struct{ *memory }

func (c comparing) Create(_ context.Context, object string, data []byte) error {
	c.request("create", object)
	return c.create(object, data)
}

// lockFile is a record in a second object.
type lockFile struct{ *memory }

func (f lockFile) Create(_ context.Context, object string, holder []byte) error {
	f.request("create", object+".lock")
	return f.create(object+".lock", holder)
}

func (f lockFile) Read(ctx context.Context, object string) ([]byte, error) {
	return f.Get(ctx, object+".lock")
}

func (f lockFile) Remove(ctx context.Context, object string, _ []byte) error {
	return f.Delete(ctx, object+".lock")
}

// stores are the ways to make a store over the same bucket, and the same table.
var stores = map[string]func(m *memory, rows *memory) *bucket.Store{
	"a store that compares": func(m, _ *memory) *bucket.Store {
		return &bucket.Store{
			Driver: comparing{m}, Names: bucket.Folders("p/key", "p", "key"),
			Locks: bucket.Recorded{Record: lockFile{m}, Bucket: "states"},
		}
	},
	"a store that does not, with a table": func(m, rows *memory) *bucket.Store {
		table := &bucket.Table{Rows: tableRows{rows}, Name: "locks", Bucket: "states"}
		return &bucket.Store{
			Driver: m, Names: bucket.Folders("key", "p", "key"), Table: table, EmptyIsNone: true,
			Locks: bucket.Recorded{Record: table, Bucket: "states"},
		}
	},
	"names without folders": func(m, _ *memory) *bucket.Store {
		return &bucket.Store{
			Driver: m, Names: bucket.Names{
				Prefix: "p-", Suffix: ".state", Object: func(workspace string) string { return "p-" + workspace + ".state" },
			},
			Locks: bucket.Recorded{Record: lockFile{m}, Bucket: "states"},
		}
	},
}

func TestTheStoreKeepsTheContract(t *testing.T) {
	for claim, open := range stores {
		t.Run(claim, func(t *testing.T) {
			buckets := map[string][2]*memory{}
			backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
				b, made := buckets[t.Name()]
				if !made {
					b = [2]*memory{newMemory(), newMemory()}
					buckets[t.Name()] = b
				}
				s := open(b[0], b[1])
				t.Cleanup(func() { ok(t, s.Close()) })
				return s
			}})
		})
	}
}

func TestWorkspacesAreTheObjectsWithTheirNamesOnAllPages(t *testing.T) {
	for claim, c := range map[string]struct {
		names   bucket.Names
		objects []string
		want    []string
	}{
		"folders": {
			names: bucket.Folders("key", "p", "key"),
			objects: []string{
				"key", "p/a/key", "p/c/key", "p/b/key", "p/b/key.lock", "p/b/c/key", "p//key", "p/key", "q/d/key",
				"p/default/key", "p/e/another", "p/e",
			},
			want: []string{"default", "a", "b", "c"},
		},
		"a key in folders": {
			names:   bucket.Folders("x/y", "p", "x/y"),
			objects: []string{"p/a/x/y", "p/b/y", "p/x/y"},
			want:    []string{"default", "a"},
		},
		"folders without a prefix": {
			names:   bucket.Folders("key", "", "key"),
			objects: []string{"key", "a/key", "b/c/key"},
			want:    []string{"default", "a"},
		},
		"names that begin with the default workspace's": {
			names:   bucket.Names{Prefix: "keyenv:", Object: func(workspace string) string { return "keyenv:" + workspace }},
			objects: []string{"key", "keyenv:", "keyenv:b", "keyenv:a", "keyenv:c/d", "keyenv:default"},
			want:    []string{"default", "a", "b"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			m := newMemory()
			for _, object := range c.objects {
				m.set(object, nil)
			}
			s := &bucket.Store{Driver: m, Names: c.names}
			names, err := s.Workspaces(t.Context())
			ok(t, err)
			is(t, names, c.want)
			for _, name := range names[1:] {
				if _, stored := m.objects[c.names.Object(name)]; !stored {
					t.Errorf("the workspace %s is listed, but its object is %s", name, c.names.Object(name))
				}
			}
		})
	}
}

// repeating is a store whose lists never end.
type repeating struct{ *memory }

func (r repeating) List(context.Context, string, string) ([]string, string, error) {
	return []string{"p/a/key"}, "again", nil
}

func TestAListThatRepeatsItsLastPageEnds(t *testing.T) {
	s := &bucket.Store{Driver: repeating{newMemory()}, Names: bucket.Folders("key", "p", "key")}
	names, err := s.Workspaces(t.Context())
	ok(t, err)
	is(t, names, []string{"default", "a"})
}

func TestNobodysWorkspaceIsWrittenOverByCreatingIt(t *testing.T) {
	for claim, open := range stores {
		t.Run(claim, func(t *testing.T) {
			m := newMemory()
			s := open(m, newMemory())
			m.set(s.Names.Object("w"), []byte("theirs"))
			ok(t, s.Create(t.Context(), "w"))
			is(t, string(m.objects[s.Names.Object("w")]), "theirs")
		})
	}
}

func TestAStoreThatComparesCreatesAWorkspaceWithoutReadingIt(t *testing.T) {
	m := newMemory()
	var requests []string
	m.before = func(request, _ string) { requests = append(requests, request) }
	ok(t, stores["a store that compares"](m, nil).Create(t.Context(), "w"))
	is(t, requests, []string{"create"})
}

func TestAnObjectWithoutContentIsNoSnapshotOnlyWhereThatIsSo(t *testing.T) {
	m := newMemory()
	m.set("key", nil)
	for _, none := range []bool{false, true} {
		s := &bucket.Store{Driver: m, Names: bucket.Folders("key", "p", "key"), EmptyIsNone: none}
		data, err := s.Read(t.Context(), "default")
		ok(t, err)
		is(t, data == nil, none)
	}
}

func TestWithoutLocksNothingIsLocked(t *testing.T) {
	m := newMemory()
	s := &bucket.Store{Driver: m, Names: bucket.Folders("key", "p", "key")}
	is(t, s.Describe("w"), backend.Description{Where: "memory://states/p/w/key", Unlockable: true})
	for range 2 {
		lock, err := s.Lock(t.Context(), "w", backendtest.Info("1", "OperationTypeApply"))
		ok(t, err)
		is(t, lock.ID, "1")
	}
	ok(t, s.Unlock(t.Context(), "w", "1"))
	is(t, len(m.objects), 0)
}

// failing is a driver whose deletions are refused.
type failing struct{ *memory }

var errRefused = errors.New("it is refused")

func (f failing) Delete(context.Context, string) error { return errRefused }

func TestTheDigestOfAWorkspaceGoesEvenIfItsObjectCannotBeDeleted(t *testing.T) {
	m, rows := newMemory(), newMemory()
	s := stores["a store that does not, with a table"](m, rows)
	ok(t, s.Write(t.Context(), "w", []byte("{}")))
	is(t, len(rows.objects), 1)
	s.Driver = failing{m}
	if err := s.Delete(t.Context(), "w"); !errors.Is(err, errRefused) {
		t.Errorf("the error is %v", err)
	}
	is(t, len(rows.objects), 0)
}

func TestClosingAStoreClosesItsDriver(t *testing.T) {
	m := newMemory()
	ok(t, (&bucket.Store{Driver: m}).Close())
	is(t, m.closed, true)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
