package serving

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/seat/host"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/log"
)

// The stores of workspaces are open in engines, but backups are made by the service. So an engine asks before it opens
// a store, and says when it closes one; and the service asks it for copies.

// gatekeeper answers the requests of one engine about stores.
type gatekeeper struct {
	stores *sealedStores
	engine seat.Peer
	data   string

	mu     sync.Mutex          // guards opened
	opened map[string]struct{} // the stores that the engine has open
}

// The bounds on the stores that an engine has open: their number, and the bytes of their names. A phase has two.
const (
	maxStores    = 2000
	maxStoreName = 1 << 10
)

// admit records that the engine opens a store. It returns false if there are too many.
func (g *gatekeeper) admit(path string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.opened[path]; !known && len(g.opened) >= maxStores {
		return false
	}
	g.opened[path] = struct{}{}
	return true
}

// levelHeader has the level of features of the service's stores. An engine raises the store of a workspace to it when
// it opens the store, as far as it knows: while an upgrade is not finished, the service has a level that both know.
const levelHeader = "Millipede-Level"

// levelOf returns the level in a response; 0 from a service of before.
func levelOf(r *http.Response) int {
	level, err := strconv.Atoi(r.Header.Get(levelHeader))
	if err != nil || level < 0 {
		return 0
	}
	return level
}

// path returns the path of the store that a request is about.
func (g *gatekeeper) path(r *http.Request) (string, error) {
	q := r.URL.Query()
	workspace, name := q.Get("workspace"), q.Get("name")
	if !filepath.IsLocal(workspace) || strings.ContainsAny(workspace, `/\`) || !filepath.IsLocal(name) ||
		len(name) > maxStoreName {
		return "", errOthers
	}
	return filepath.Join(g.data, "workspaces", workspace, name), nil
}

// ownPath is path for a store of a workspace on which the engine works: it gets no others.
func (g *gatekeeper) ownPath(r *http.Request) (string, error) {
	if !g.engine.Works(r.URL.Query().Get("workspace")) {
		return "", errOthers
	}
	return g.path(r)
}

func (g *gatekeeper) store(path string) engineStore {
	return engineStore{g.engine, path, filepath.Join(g.data, "scratch")}
}

// open lets an engine open a store: no backup begins between the head of the response and the end of the request.
func (g *gatekeeper) open(w http.ResponseWriter, r *http.Request) {
	path, err := g.ownPath(r)
	if err != nil {
		seat.Refuse(w, http.StatusForbidden, err)
		return
	}
	defer g.stores.enter(path)()
	w.Header().Set(levelHeader, strconv.Itoa(g.stores.level()))
	w.WriteHeader(http.StatusOK)
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	var opened bool
	if protocol.Read(r.Body, &opened, protocol.MaxMessage) == nil && opened {
		if !g.admit(path) {
			panic(http.ErrAbortHandler) // so that the engine closes it
		}
		g.stores.register(path, g.store(path))
	}
}

// close records that an engine closes a store. Its call may have ended.
func (g *gatekeeper) close(w http.ResponseWriter, r *http.Request) {
	path, err := g.path(r)
	if err != nil {
		seat.Refuse(w, http.StatusForbidden, err)
		return
	}
	g.stores.unregister(path, g.store(path))
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.opened, path)
}

// copy sends a copy of a store that another engine may have open.
func (g *gatekeeper) copy(w http.ResponseWriter, r *http.Request) {
	path, err := g.ownPath(r)
	if err != nil {
		seat.Refuse(w, http.StatusForbidden, err)
		return
	}
	if err := g.send(w, path); err != nil {
		seat.Refuse(w, http.StatusInternalServerError, err)
	}
}

func (g *gatekeeper) send(w io.Writer, path string) error {
	dir, err := os.MkdirTemp(filepath.Join(g.data, "scratch"), "copy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "state.db")
	if err := g.stores.Copy(path, to); err != nil {
		return err
	}
	f, err := os.Open(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

// forget closes the stores of an engine that has ended.
func (g *gatekeeper) forget() {
	<-g.engine.Ended()
	g.stores.unregisterAll(func(s copied) bool {
		of, ok := s.(engineStore)
		return ok && of.engine == g.engine
	})
}

// engineStore is a store that an engine has open.
type engineStore struct {
	engine  seat.Peer
	path    string
	scratch string // a directory for copies, on the same disk
}

// CopyTo implements copied.
func (s engineStore) CopyTo(ctx context.Context, to string) error {
	return s.CopyOf(ctx, to, func() {})
}

// CopyOf implements copied: the engine makes the copy.
func (s engineStore) CopyOf(ctx context.Context, to string, settled func()) error {
	made := filepath.Join(s.scratch, "copy-"+rand.Text()) // where the engine can write
	if err := s.copyOf(ctx, made, settled); err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	return os.Rename(made, to)
}

func (s engineStore) copyOf(ctx context.Context, to string, settled func()) error {
	var body bytes.Buffer
	if err := protocol.Write(&body, copyRequest{s.path, to}); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine"+copyStorePath, &body)
	if err != nil {
		return err
	}
	response, err := s.engine.Client().Do(r)
	if err != nil {
		return fmt.Errorf("asking the engine for a copy: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return journal.ErrClosed
	}
	var began bool
	if err := protocol.Read(response.Body, &began, protocol.MaxMessage); err != nil {
		return fmt.Errorf("the engine has made no copy: %w", err)
	}
	settled()
	var f protocol.Failure
	if err := protocol.Read(response.Body, &f, protocol.MaxMessage); err != nil {
		return fmt.Errorf("the engine has made no copy: %w", err)
	}
	if f.Text == "" {
		return nil
	}
	return f.Err()
}

// copyRequest asks an engine for a copy of a store that it has open.
type copyRequest struct{ Path, To string }

// remoteStores are the stores of workspaces that an engine has open.
type remoteStores struct {
	service *host.Service
	data    string
	program string // the version of the engine
	// aside says that the seat of the workspace may have the store open, in another process.
	aside bool
	// log is the log that the stores' commits go through, and tell takes lines about it; nil for none.
	log  log.Transport
	tell func(line string)

	mu   sync.Mutex // guards open
	open map[string]*bolt.Store
}

func newRemoteStores(s *host.Service, told *setup, program string) *remoteStores {
	return &remoteStores{service: s, data: told.Data, program: program, aside: told.Aside, open: map[string]*bolt.Store{}}
}

// of returns the stores as a phase uses them that has a directory of its workspace.
func (s *remoteStores) of(data string) workspaceStores {
	return workspaceStores{s, filepath.Base(data)}
}

// workspaceStores are the store of one workspace, and copies of it elsewhere. They implement estate.Stores.
type workspaceStores struct {
	*remoteStores
	workspace string
}

// query names a store in requests; it is empty for a copy.
func (s workspaceStores) query(path string) string {
	name, err := filepath.Rel(filepath.Join(s.data, "workspaces", s.workspace), path)
	if err != nil || !filepath.IsLocal(name) {
		return ""
	}
	return "?" + url.Values{"workspace": {s.workspace}, "name": {name}}.Encode()
}

// Open implements estate.Stores.
func (s workspaceStores) Open(path string, info journal.LockInfo, timeout time.Duration, o estate.StoreOptions) (
	estate.Store, error) {
	options := bolt.Options{NewID: uuid.NewString, NoSync: o.Volatile, Wrapper: remoteKeys{s.service, s.workspace},
		SealNew: true, Workspace: o.Workspace, Unannounced: true, Program: s.program}
	query := s.query(path)
	if query == "" {
		opened, err := bolt.OpenOptions(path, info, timeout, options)
		if err != nil {
			return nil, err // not a nil store in an interface
		}
		return opened, nil
	}
	options.Log = s.openerOf(query)
	body, saying := io.Pipe()
	response, err := s.service.Ask(context.Background(), http.MethodPost, openStorePath+query, body)
	if err != nil {
		return nil, err
	}
	options.Level = min(levelOf(response), features.Own().Newest)
	opened, err := bolt.OpenOptions(path, info, timeout, options)
	if err == nil {
		s.mu.Lock()
		s.open[path] = opened
		s.mu.Unlock()
	}
	said := protocol.Write(saying, err == nil)
	closed := saying.Close()
	_, ended := io.Copy(io.Discard, response.Body) // the service has recorded it
	if more := errors.Join(said, closed, ended, response.Body.Close()); err == nil && more != nil {
		s.forget(path, opened)
		return nil, errors.Join(more, opened.Close())
	}
	if err != nil {
		return nil, err // not a nil store in an interface
	}
	return heldStore{opened, sync.OnceValue(func() error {
		s.forget(path, opened)
		return errors.Join(s.tellClosed(query), opened.Close())
	})}, nil
}

func (s *remoteStores) forget(path string, opened *bolt.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[path] == opened {
		delete(s.open, path)
	}
}

func (s *remoteStores) tellClosed(query string) error {
	response, err := s.service.Ask(context.Background(), http.MethodPost, closeStorePath+query, nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Copy implements estate.Stores, also for a store that is open, here or in another engine.
func (s workspaceStores) Copy(path, to string) error {
	s.mu.Lock()
	held := s.open[path]
	s.mu.Unlock()
	if held != nil {
		if err := held.CopyTo(context.Background(), to); !errors.Is(err, journal.ErrClosed) {
			return err
		}
	}
	query := s.query(path)
	if query != "" && s.log != nil {
		if err := s.bring(query); err != nil {
			return err
		}
	}
	if query == "" || !s.aside {
		return bolt.Copy(path, to)
	}
	if _, err := os.Stat(path); err != nil {
		return err // fs.ErrNotExist has a meaning
	}
	response, err := s.service.Ask(context.Background(), http.MethodPost, copyStorePath+query, nil)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return errors.Join(err, response.Body.Close())
	}
	_, err = io.Copy(f, response.Body)
	return errors.Join(err, f.Close(), response.Body.Close())
}

// serveCopy answers a request of the service for a copy of an open store.
func (s *remoteStores) serveCopy(w http.ResponseWriter, r *http.Request) {
	var request copyRequest
	if err := protocol.Read(r.Body, &request, protocol.MaxMessage); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	held := s.open[request.Path]
	s.mu.Unlock()
	if held == nil {
		http.NotFound(w, r)
		return
	}
	settled := sync.OnceFunc(func() {
		_ = protocol.Write(w, true) // the service notices that it does not arrive
		_ = http.NewResponseController(w).Flush()
	})
	err := held.CopyOf(r.Context(), request.To, settled)
	settled() // in case the store could not be read
	f := protocol.FailureOf(err)
	if f == nil {
		f = &protocol.Failure{}
	}
	_ = protocol.Write(w, f) // the service notices that it does not arrive
}

// remoteKeys has the service open and seal the keys of the stores of one workspace. It implements bolt.Wrapper.
type remoteKeys struct {
	service   *host.Service
	workspace string
}

// Encrypts implements bolt.Wrapper.
func (remoteKeys) Encrypts() bool { return true }

// Seal implements bolt.Wrapper.
func (k remoteKeys) Seal(ctx context.Context, key []byte) ([]byte, error) {
	return k.ask(ctx, sealKeyPath, key)
}

// Open implements bolt.Wrapper.
func (k remoteKeys) Open(ctx context.Context, wrapped []byte, _ func() error) (key []byte, stale bool, err error) {
	key, err = k.ask(ctx, openKeyPath, wrapped)
	return key, false, err
}

func (k remoteKeys) ask(ctx context.Context, path string, text []byte) (answer []byte, err error) {
	var body bytes.Buffer
	if err := protocol.Write(&body, text); err != nil {
		return nil, err
	}
	response, err := k.service.Ask(ctx, http.MethodPost, path+"?"+url.Values{"workspace": {k.workspace}}.Encode(), &body)
	if err != nil {
		return nil, err
	}
	err = protocol.Read(response.Body, &answer, protocol.MaxMessage)
	return answer, errors.Join(err, response.Body.Close())
}
