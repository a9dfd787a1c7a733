package serving

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
	"github.com/millipede-iac/millipede/wire/jet"
)

// With -group, every commit of the records and of the workspaces' stores is an entry of the group's log, and the files
// in the data directory are applied copies. The records are one store of the log; each store of a workspace is another,
// named by its path below the directory.

// recordsStore is the name of the store with the records.
const recordsStore = "records"

// group is the log of a group, as this member uses it.
type group struct {
	name, member, data string
	secret             []byte
	conn               *jet.Conn
	log                *jet.GroupLog
	boot               string
	tell               func(line string)

	mark    groupMark
	records *log.Writer  // of the records; nil before they are open
	st      *store.Store // set before engines start
}

// groupMark is the file in the data directory that names the group of the data.
type groupMark struct {
	Format      int    `json:"format"`
	Group       string `json:"group"`
	Incarnation string `json:"incarnation"`
	// Made says that the log has had entries of the records. Before, and only then, the log may be empty.
	Made bool `json:"made"`
}

// logBytes are reserved for each of the two streams of a new group.
const logBytes = 2 << 30

// storeOfLog is the record of a workspace's store that is in the log.
type storeOfLog struct {
	Name string
	// Made says that the log has had entries of the store. Before, and only then, it may have none.
	Made bool
}

var storesOfLog = store.Table[storeOfLog]{Name: "store of the log", ID: func(s *storeOfLog) string { return s.Name }}

// openGroup connects to the log of the group, and creates it for a new group; nil without -group. The caller closes the
// group after all stores.
func (s *serving) openGroup(ctx context.Context, secret []byte) (_ *group, err error) {
	if s.Group == "" {
		return nil, nil
	}
	server := s.Connector.Server(nil)
	if server.URL == "" {
		return nil, errors.New("-group needs a NATS server (-nats): the log of the group has to be elsewhere than this " +
			"machine's data")
	}
	to := server.Options()
	to.Name = "millipede-group"
	to.Log = func(line string) { s.Log.Warn(line) }
	g := &group{name: s.Group, data: s.Data, secret: secret, boot: log.ThisBoot(),
		tell: func(line string) { s.Log.Warn(line) }}
	if g.member, err = os.Hostname(); err != nil {
		return nil, fmt.Errorf("finding the name of this member: %w", err)
	}
	if g.conn, err = jet.Connect(ctx, to); err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	if err := g.open(ctx); err != nil {
		return nil, errors.Join(err, g.conn.Close())
	}
	return g, nil
}

func (g *group) markPath() string { return filepath.Join(g.data, "group.json") }

// open opens the log.
func (g *group) open(ctx context.Context) error {
	known, err := g.readMark()
	if err != nil {
		return err
	}
	if !known {
		if _, err := os.Stat(filepath.Join(g.data, "service.db")); err == nil {
			return fmt.Errorf("the directory %s has the data of a service without a group: begin a group with an empty "+
				"directory (-data)", g.data)
		}
	}
	if g.log, err = g.conn.GroupLogs().Open(ctx, g.name); errors.Is(err, jet.ErrNoGroup) {
		return g.make(ctx, known)
	}
	if err != nil {
		return err
	}
	incarnation := g.log.Incarnation().String()
	switch {
	case !known: // the data of this machine were lost, or it had none
		g.mark = groupMark{Group: g.name, Incarnation: incarnation, Made: true}
		return g.writeMark()
	case g.mark.Group != g.name || g.mark.Incarnation != incarnation:
		return fmt.Errorf("the directory %s has the data of the group %q (incarnation %s), and NATS has the log of %q "+
			"(incarnation %s)", g.data, g.mark.Group, g.mark.Incarnation, g.name, incarnation)
	}
	return nil
}

// make creates the log of a new group. The mark is written before: after a crash in between, the same group is made.
func (g *group) make(ctx context.Context, known bool) error {
	var incarnation log.ID
	switch {
	case known && g.mark.Made:
		return fmt.Errorf("%w: NATS has no log of the group %q, and the directory %s is a copy of it. Restore the streams "+
			"of the group", log.ErrLost, g.mark.Group, g.data)
	case known && g.mark.Group != g.name:
		return fmt.Errorf("the directory %s is that of the group %q", g.data, g.mark.Group)
	case known:
		if err := incarnation.Parse(g.mark.Incarnation); err != nil {
			return fmt.Errorf("reading %s: %w", g.markPath(), err)
		}
	default:
		_, _ = rand.Read(incarnation[:]) // never fails
		g.mark = groupMark{Group: g.name, Incarnation: incarnation.String()}
		if err := g.writeMark(); err != nil {
			return err
		}
	}
	var err error
	g.log, err = g.conn.GroupLogs().Create(ctx, g.name, incarnation, logBytes)
	return err
}

func (g *group) readMark() (known bool, err error) {
	data, err := os.ReadFile(g.markPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &g.mark)
	}
	if err == nil && g.mark.Format > log.Format {
		err = log.ErrNewer
	}
	if err != nil {
		return false, fmt.Errorf("reading which group the data are of (%s): %w", g.markPath(), err)
	}
	return true, nil
}

func (g *group) writeMark() error {
	g.mark.Format = log.Format
	data, err := json.Marshal(g.mark)
	if err == nil {
		err = os.MkdirAll(g.data, 0o700)
	}
	if err == nil {
		err = wholefile.Durable(g.markPath(), wholefile.Private, wholefile.Bytes(data))
	}
	return err
}

// close closes the connection. All stores are closed.
func (g *group) close() error {
	if g == nil {
		return nil
	}
	return g.conn.Close()
}

// stopped returns a channel that is closed when this member may no longer write the records, and the reason.
func (g *group) stopped() (<-chan struct{}, func() error) {
	if g == nil {
		return nil, nil
	}
	return g.records.Stopped(), g.records.Err
}

// depot keeps the files of the service beside the log. It implements store.Depot.
type depot struct{ files *log.Files }

// fileTime bounds the time for one file.
const fileTime = 10 * time.Minute

func (d depot) do(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), fileTime)
	defer cancel()
	return f(ctx)
}

// Keep implements store.Depot.
func (d depot) Keep(name, path string) error {
	return d.do(func(ctx context.Context) error { return d.files.Keep(ctx, name, path) })
}

// Fetch implements store.Depot.
func (d depot) Fetch(name, path string) error {
	return d.do(func(ctx context.Context) error { return d.files.Fetch(ctx, name, path) })
}

// Drop implements store.Depot.
func (d depot) Drop(name string) error {
	return d.do(func(ctx context.Context) error { return d.files.Drop(ctx, name) })
}

// Names implements store.Depot.
func (d depot) Names() (names []string, err error) {
	err = d.do(func(ctx context.Context) error {
		names, err = d.files.Names(ctx)
		return err
	})
	return names, err
}

// opener returns what opens the records; nil without a group.
func (g *group) opener(ctx context.Context) recorded.Opener {
	if g == nil {
		return nil
	}
	return func(path string) (recorded.Log, error) {
		access, err := g.access(recordsStore, !g.mark.Made)
		if err != nil {
			return nil, err
		}
		w, err := access.open(ctx, g.log, path, g.tell)
		if errors.Is(err, log.ErrHeld) {
			return nil, fmt.Errorf("opening %s: %w", path, store.ErrHeld)
		}
		if errors.Is(err, log.ErrEntry) {
			return nil, fmt.Errorf("%w. All members of a group need the same key: give the key file of the group with "+
				"-key-file", err)
		}
		if err != nil {
			return nil, err
		}
		g.records = w
		if !g.mark.Made {
			g.mark.Made = true
			if err := g.writeMark(); err != nil {
				return nil, errors.Join(err, w.Close())
			}
		}
		return w, nil
	}
}

// access is what a process needs to write a store of the group.
type access struct {
	Store, Member, Boot string
	Incarnation         log.ID
	Secret              []byte // from which the key of the store is made; of this store alone
	First               bool
}

func (g *group) access(name string, first bool) (access, error) {
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
func (g *group) ofWorkspace(path string) (a access, err error) {
	name, err := filepath.Rel(g.data, path)
	if err != nil {
		return a, err
	}
	name = filepath.ToSlash(name)
	known := new(storeOfLog)
	err = g.st.View(func(tx *store.Tx) (err error) {
		known, err = storesOfLog.Get(tx, name)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		known = &storeOfLog{Name: name}
		err = g.st.Update(func(tx *store.Tx) error { return storesOfLog.Put(tx, known) })
	}
	if err != nil {
		return a, fmt.Errorf("recording the store %s: %w", name, err)
	}
	return g.access(name, !known.Made)
}

// made records that the log has entries of a store.
func (g *group) made(a access) error {
	if !a.First {
		return nil
	}
	return g.st.Update(func(tx *store.Tx) error {
		return storesOfLog.Put(tx, &storeOfLog{Name: a.Store, Made: true})
	})
}

// openerOf returns what opens the store of a workspace in this process; nil without a group.
func (g *group) openerOf() recorded.Opener {
	if g == nil {
		return nil
	}
	return func(path string) (recorded.Log, error) {
		a, err := g.ofWorkspace(path)
		if err != nil {
			return nil, err
		}
		return a.opened(context.Background(), g.log, path, g.tell, g.made)
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

// recall makes the copies of the workspaces' stores that this machine lacks, from the log: they are read, and backed
// up, while nobody has them open.
func (g *group) recall(ctx context.Context) error {
	if g == nil {
		return nil
	}
	var names []string
	if err := g.st.View(func(tx *store.Tx) error {
		for s, err := range storesOfLog.All(tx) {
			if err != nil {
				return err
			}
			if s.Made {
				names = append(names, s.Name)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(g.data, filepath.FromSlash(name))
		if _, err := os.Stat(path); err == nil {
			continue
		}
		a, err := g.access(name, false)
		if err != nil {
			return err
		}
		o, err := a.options(g.log, g.tell)
		if err != nil {
			return err
		}
		c, err := log.OpenCopy(path, o)
		if err != nil {
			return err
		}
		if err := errors.Join(c.Follow(ctx), c.Close()); err != nil {
			return fmt.Errorf("making the copy of the store %s from the log: %w", name, err)
		}
	}
	return nil
}

// purgeEvery is how often entries that no store needs any more are removed from the log.
const purgeEvery = 10 * time.Minute

// purge removes entries that no store needs any more, until ctx ends.
func (g *group) purge(ctx context.Context, stores *sealedStores) {
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

func (g *group) purgeOnce(ctx context.Context, stores *sealedStores) error {
	names := []string{recordsStore}
	if err := g.st.View(func(tx *store.Tx) error {
		for s, err := range storesOfLog.All(tx) {
			if err != nil {
				return err
			}
			names = append(names, s.Name)
		}
		return nil
	}); err != nil {
		return err
	}
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
)

// logAccess gives an engine the access to the store of a workspace on which it works.
func (g *gatekeeper) logAccess(w http.ResponseWriter, r *http.Request) {
	path, err := g.ownPath(r)
	if err != nil || g.stores.group == nil {
		seat.Refuse(w, http.StatusForbidden, errors.Join(err, errOthers))
		return
	}
	a, err := g.stores.group.ofWorkspace(path)
	if err == nil {
		err = protocol.Write(w, a)
	}
	if err != nil {
		seat.Refuse(w, http.StatusInternalServerError, err)
	}
}

// logMade records that the log has entries of the store.
func (g *gatekeeper) logMade(w http.ResponseWriter, r *http.Request) {
	path, err := g.ownPath(r)
	if err != nil || g.stores.group == nil {
		seat.Refuse(w, http.StatusForbidden, errors.Join(err, errOthers))
		return
	}
	a, err := g.stores.group.ofWorkspace(path)
	if err == nil {
		err = g.stores.group.made(a)
	}
	if err != nil {
		seat.Refuse(w, http.StatusInternalServerError, err)
	}
}

// openerOf returns what opens a store of the workspace in an engine; nil without a group. query names the store in
// requests.
func (s workspaceStores) openerOf(query string) recorded.Opener {
	if s.log == nil {
		return nil
	}
	return func(path string) (recorded.Log, error) {
		ctx := context.Background()
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
