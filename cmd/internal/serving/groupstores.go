package serving

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

// The stores of workspaces, as a member of a group uses them: each is a store of the log, named by its path below the
// directory of the data.

// access is what a process needs to write a store of the group.
type access struct {
	Store, Member, Boot string
	Incarnation         log.ID
	Secret              []byte // from which the key of the store is made; of this store alone
	First               bool
}

func (g *groupLog) access(name string, first bool) (access, error) {
	secret, err := log.StoreSecret(g.secret, g.log.Incarnation(), name)
	return access{Store: name, Member: g.member, Boot: g.boot, Incarnation: g.log.Incarnation(), Secret: secret,
		First: first}, err
}

func (a access) options(l log.Transport, tell func(string)) (log.Options, error) {
	key, err := seal.NewKey(a.Secret)
	return log.Options{Transport: l, Incarnation: a.Incarnation, Store: a.Store, Member: a.Member, Boot: a.Boot, Key: key,
		First: a.First, Log: tell}, err
}

// open brings the copy of a store up to the end of the log, and begins to write it.
func (a access) open(ctx context.Context, l log.Transport, path string, tell func(string)) (*log.Writer, error) {
	o, err := a.options(l, tell)
	if err != nil {
		return nil, err
	}
	return log.Open(ctx, path, o)
}

// ofWorkspace returns the access to the store at a path. A store that is not in the log yet is recorded first: only
// until the log has had an entry of it, it may be taken for a new one.
func (g *groupLog) ofWorkspace(path string) (a access, err error) {
	name, err := filepath.Rel(g.data, path)
	if err != nil {
		return a, err
	}
	name = filepath.ToSlash(name)
	known := new(record.LogStore)
	err = g.st.View(func(tx *store.Tx) (err error) {
		known, err = tables.LogStores.Get(tx, name)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		known = &record.LogStore{Name: name}
		err = g.st.Update(func(tx *store.Tx) error { return tables.LogStores.Put(tx, known) })
	}
	if err != nil {
		return a, fmt.Errorf("recording the store %s: %w", name, err)
	}
	return g.access(name, !known.Made)
}

// made records that the log has entries of a store.
func (g *groupLog) made(a access) error {
	if !a.First {
		return nil
	}
	return g.st.Update(func(tx *store.Tx) error {
		return tables.LogStores.Put(tx, &record.LogStore{Name: a.Store, Made: true})
	})
}

// openerOf returns what opens the store of a workspace in this process; nil without a group.
func (g *groupLog) openerOf() recorded.Opener {
	if g == nil {
		return nil
	}
	return func(path string) (recorded.Log, error) {
		a, err := g.ofWorkspace(path)
		if err != nil {
			return nil, err
		}
		return a.opened(g.level.ctx, g.log, path, g.tell, g.made)
	}
}

// opened is open for the store of a workspace. made records that the log has entries of it.
func (a access) opened(ctx context.Context, l log.Transport, path string, tell func(string),
	made func(access) error) (recorded.Log, error) {
	w, err := a.open(ctx, l, path, tell)
	if errors.Is(err, log.ErrHeld) {
		return nil, &journal.Held{Holder: journal.LockInfo{Path: path, Who: "another process"}}
	}
	if err != nil {
		return nil, err
	}
	if err := made(a); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// names returns the names of the stores of workspaces in the log; made, only of those that have entries.
func (g *groupLog) names(made bool) (names []string, err error) {
	err = g.st.View(func(tx *store.Tx) error {
		for s, err := range tables.LogStores.All(tx) {
			if err != nil {
				return err
			}
			if s.Made || !made {
				names = append(names, s.Name)
			}
		}
		return nil
	})
	return names, err
}

// levels knows which copies of workspaces' stores are at the end of their logs, while this member leads. Only its own
// engines write them, so that a copy that has been there stays there.
type levels struct {
	group *groupLog
	ctx   context.Context //nolint:containedctx // of the time in which this member leads

	mu    sync.Mutex // guards level
	level map[string]*levelled
}

// levelled is a copy that is read.
type levelled struct {
	mu   sync.Mutex // held while the copy is brought up to the end
	done bool
}

func (l *levels) of(path string) *levelled {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.level[path]
	if one == nil {
		one = &levelled{}
		l.level[path] = one
	}
	return one
}

// opened notes that an engine has the store open, or has had.
func (l *levels) opened(path string) {
	if l == nil {
		return
	}
	go func() { // whoever brings the copy up to the end may wait for this one to open it
		one := l.of(path)
		one.mu.Lock()
		defer one.mu.Unlock()
		one.done = true
	}()
}

// bring brings the copy at a path up to the end of its log, if nobody has it open; a store that is in no log is left
// alone. It is made if this machine has none.
func (l *levels) bring(path string, stores *sealedStores) error {
	if l == nil {
		return nil
	}
	one := l.of(path)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.done {
		return nil
	}
	name, err := filepath.Rel(l.group.data, path)
	if err != nil || !filepath.IsLocal(name) {
		return nil // it is elsewhere, and in no log
	}
	name = filepath.ToSlash(name)
	err = l.group.st.View(func(tx *store.Tx) error {
		s, err := tables.LogStores.Get(tx, name)
		if err == nil && !s.Made {
			err = store.ErrNotFound
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	did, err := stores.alone(path, func() error { return l.group.follow(l.ctx, name, path) })
	one.done = err == nil && did
	return err
}

// follow brings a copy up to the end of its log.
func (g *groupLog) follow(ctx context.Context, name, path string) error {
	a, err := g.access(name, false)
	if err != nil {
		return err
	}
	o, err := a.options(g.log, g.tell)
	if err != nil {
		return err
	}
	c, err := log.OpenCopy(path, o)
	if errors.Is(err, log.ErrHeld) {
		return nil // an engine that is just ending: it has brought it there
	}
	if err != nil {
		return err
	}
	if err := errors.Join(c.Follow(ctx), c.Close()); err != nil {
		return fmt.Errorf("bringing the copy of the store %s up to the end of the log: %w", name, err)
	}
	return nil
}

// bringAll brings all copies up to the ends of their logs.
func (l *levels) bringAll(stores *sealedStores) error {
	if l == nil {
		return nil
	}
	names, err := l.group.names(true)
	for _, name := range names {
		if err != nil || l.ctx.Err() != nil {
			break
		}
		err = l.bring(filepath.Join(l.group.data, filepath.FromSlash(name)), stores)
	}
	return errors.Join(err, l.ctx.Err())
}

// purgeEvery is how often entries that no store needs any more are removed from the log.
const purgeEvery = 10 * time.Minute

// purge removes entries that no store needs any more, until ctx ends.
func (g *groupLog) purge(ctx context.Context, stores *sealedStores) {
	if g == nil {
		return
	}
	again := time.NewTicker(purgeEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if err := g.purgeOnce(ctx, stores); err != nil && ctx.Err() == nil {
			g.tell("removing old entries from the log of the group: " + err.Error())
		}
	}
}

// renewBehind is how many entries the last snapshot of a store may be behind the newest one of another store. Then it
// gets a new one, because it keeps all entries from the log being purged.
const renewBehind = 50_000

// renewMost is how many stores get one each time.
const renewMost = 20

func (g *groupLog) purgeOnce(ctx context.Context, stores *sealedStores) error {
	names, err := g.names(false)
	if err != nil {
		return err
	}
	names = append(names, recordsStore)
	var all []log.Options
	for _, name := range names {
		a, err := g.access(name, false)
		if err != nil {
			return err
		}
		o, err := a.options(g.log, g.tell)
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	covered, err := log.Purge(ctx, g.log, all)
	if err != nil {
		return err
	}
	newest, renewed := slices.Max(slices.Collect(maps.Values(covered))), 0
	for _, o := range all {
		switch {
		case newest-covered[o.Store] < renewBehind || renewed == renewMost:
		case o.Store == recordsStore:
			g.records.SnapshotSoon()
		default:
			path := filepath.Join(g.data, filepath.FromSlash(o.Store))
			did, err := stores.alone(path, func() error { return log.Renew(ctx, path, o) })
			if err != nil && !errors.Is(err, log.ErrMissing) {
				return err
			}
			if did {
				renewed++
			}
		}
	}
	return nil
}

// The requests of an engine about the log of the group.
const (
	logAccessPath = "/log/access"
	logMadePath   = "/log/made"
	logLevelPath  = "/log/level"
)

// ofLog answers a request about the store of a workspace on which the engine works.
func (g *gatekeeper) ofLog(answer func(w http.ResponseWriter, path string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path, err := g.ownPath(r)
		if err != nil || g.stores.group == nil {
			seat.Refuse(w, http.StatusForbidden, errors.Join(err, errOthers))
			return
		}
		if err := answer(w, path); err != nil {
			seat.Refuse(w, http.StatusInternalServerError, err)
		}
	}
}

// logAccess gives an engine the access to a store.
func (g *gatekeeper) logAccess(w http.ResponseWriter, path string) error {
	a, err := g.stores.group.ofWorkspace(path)
	if err != nil {
		return err
	}
	return protocol.Write(w, a)
}

// logMade records that the log has entries of a store.
func (g *gatekeeper) logMade(_ http.ResponseWriter, path string) error {
	a, err := g.stores.group.ofWorkspace(path)
	if err != nil {
		return err
	}
	return g.stores.group.made(a)
}

// logLevel brings the copy of a store that is to be read up to the end of its log.
func (g *gatekeeper) logLevel(_ http.ResponseWriter, path string) error {
	return g.stores.group.level.bring(path, g.stores)
}

// openerOf returns what opens a store of the workspace in an engine; nil without a group. query names the store in
// requests.
func (s workspaceStores) openerOf(query string) recorded.Opener {
	if s.log == nil {
		return nil
	}
	return func(path string) (recorded.Log, error) {
		ctx := context.Background() // the process ends with its calls
		response, err := s.service.Ask(ctx, http.MethodPost, logAccessPath+query, nil)
		if err != nil {
			return nil, err
		}
		var a access
		if err := errors.Join(protocol.Read(response.Body, &a, protocol.MaxMessage), response.Body.Close()); err != nil {
			return nil, err
		}
		return a.opened(ctx, s.log, path, s.tell, func(access) error {
			if !a.First {
				return nil
			}
			response, err := s.service.Ask(ctx, http.MethodPost, logMadePath+query, nil)
			if err != nil {
				return err
			}
			return response.Body.Close()
		})
	}
}

// bring has the service bring the copy of a store up to the end of its log.
func (s workspaceStores) bring(query string) error {
	response, err := s.service.Ask(context.Background(), http.MethodPost, logLevelPath+query, nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
