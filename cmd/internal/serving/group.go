package serving

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
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

// groupLog is the log of a group, as this member uses it. What is said of the records holds while this member leads.
type groupLog struct {
	name, member, data string
	secret             []byte
	conn               *jet.Conn
	log                *jet.GroupLog
	boot               string
	tell               func(line string)

	mark    groupMark
	records *log.Writer  // of the records
	st      *store.Store // the records
	level   *levels      // which stores of workspaces are at the end of their logs here
}

// groupMark is the file in the data directory that names the group of the data.
type groupMark struct {
	Format      int    `json:"format"`
	Group       string `json:"group"`
	Incarnation string `json:"incarnation"`
	// Made says that the log has had entries of the records. Before, and only then, the log may be empty.
	Made bool `json:"made"`
	// Remaking says that the log is being made from the copies in the directory, which was not finished.
	Remaking bool `json:"remaking,omitempty"`
}

// logBytes are reserved for each of the two streams of a new group.
const logBytes = 2 << 30

// openGroup connects to the log of the group, and creates it for a new group. The caller closes the group after all
// stores.
func openGroup(ctx context.Context, o Options, secret []byte) (_ *groupLog, err error) {
	g := &groupLog{name: o.Group, member: o.Member, data: o.Data, secret: secret, boot: log.ThisBoot(),
		tell: func(line string) { o.Log.Warn(line) }}
	if g.conn, err = connectGroup(ctx, &o); err != nil {
		return nil, err
	}
	if err := g.open(ctx); err != nil {
		return nil, errors.Join(err, g.conn.Close())
	}
	return g, nil
}

// connectGroup connects to the servers that have the log. The caller closes the connection.
func connectGroup(ctx context.Context, o *Options) (*jet.Conn, error) {
	server := o.Connector.Server(nil)
	if server.URL == "" {
		return nil, errors.New("-group needs a NATS server (-nats): the log of the group has to be elsewhere than this " +
			"machine's data")
	}
	to := server.Options()
	to.Name = "millipede-group"
	to.Log = func(line string) { o.Log.Warn(line) }
	conn, err := jet.Connect(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return conn, nil
}

func (g *groupLog) markPath() string { return filepath.Join(g.data, "group.json") }

// open opens the log.
func (g *groupLog) open(ctx context.Context) error {
	known, err := g.readMark()
	if err != nil {
		return err
	}
	if known && g.mark.Remaking {
		return errors.New("the log of the group was being made from the data in this directory, which was interrupted: " +
			"execute coordinator group recover, or group adopt, again")
	}
	if !known {
		if _, err := os.Stat(filepath.Join(g.data, "service.db")); err == nil {
			return fmt.Errorf("the directory %s has the data of a service without a group: begin a group with an empty "+
				"directory (-data), or take the data over with coordinator group adopt", g.data)
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
func (g *groupLog) make(ctx context.Context, known bool) error {
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

func (g *groupLog) readMark() (known bool, err error) {
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

func (g *groupLog) writeMark() error {
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
func (g *groupLog) close() error { return g.conn.Close() }

// depot keeps the files of the service beside the log. It implements store.Depot.
type depot struct {
	files *log.Files
	ctx   context.Context //nolint:containedctx // of the time in which this member leads
}

// fileTime bounds the time for one file, with that in which the log does not answer: runs under way wait as long for
// NATS. Who reads a file, or a piece of one, waits for readTime.
const (
	fileTime  = 10 * time.Minute
	readTime  = 20 * time.Second
	filePause = 200 * time.Millisecond // before it is tried again
)

// do calls f, again while the log does not answer, for at most a time.
func (d depot) do(most time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(d.ctx, most)
	defer cancel()
	for {
		err := f(ctx)
		if !errors.Is(err, log.ErrUnanswered) || sleep.For(ctx, filePause) != nil {
			return err
		}
	}
}

// Keep implements store.Depot.
func (d depot) Keep(name, path string) error {
	return d.do(fileTime, func(ctx context.Context) error {
		if err := d.files.Keep(ctx, name, path); err != nil || !grows(name) {
			return err
		}
		return d.files.Shed(ctx, name)
	})
}

// Fetch implements store.Depot.
func (d depot) Fetch(name, path string) error {
	return d.do(readTime, func(ctx context.Context) error { return d.files.Fetch(ctx, name, path) })
}

// Drop implements store.Depot.
func (d depot) Drop(name string) error {
	return d.do(fileTime, func(ctx context.Context) error {
		if err := d.files.Drop(ctx, name); err != nil || !grows(name) {
			return err
		}
		return d.files.Shed(ctx, name)
	})
}

// Extend implements store.Depot.
func (d depot) Extend(name string, offset int64, data []byte) error {
	return d.do(readTime, func(ctx context.Context) error { return d.files.Extend(ctx, name, offset, data) })
}

// grows reports whether a file grows before it is kept as a whole: the logs of phases do.
func grows(name string) bool { return strings.HasPrefix(name, tables.LogFile("")) }

// Names implements store.Depot.
func (d depot) Names() (names []string, err error) {
	err = d.do(readTime, func(ctx context.Context) error {
		names, err = d.files.Names(ctx)
		return err
	})
	return names, err
}

// openRecords opens the records that this member leads with w.
func (g *groupLog) openRecords(ctx context.Context, w *log.Writer, o store.Options, key *seal.Key) (*store.Store,
	error) {
	o.Log = func(string) (recorded.Log, error) { return w, nil }
	if !g.mark.Made {
		g.mark.Made = true
		if err := g.writeMark(); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	st, err := store.OpenOptions(g.data, key, o)
	if err != nil {
		return nil, err
	}
	g.records, g.st = w, st
	leading, end := context.WithCancelCause(ctx)
	go func() { // it ends when the records are closed
		<-w.Stopped()
		end(w.Err())
	}()
	g.level = &levels{group: g, ctx: leading, level: map[string]*levelled{}}
	st.KeepIn(depot{g.files(w.Position().Epoch), leading})
	return st, nil
}

// files are what the service keeps beside the log in an epoch.
func (g *groupLog) files(epoch uint64) *log.Files {
	return &log.Files{Transport: g.log, Now: time.Now, Epoch: epoch}
}

// cached are the directories of files that are kept beside the log.
var cached = []string{"configurations", "states", "plans", "logs", "timelines"}

// forget removes the files that this machine has: another member may have replaced them.
func (g *groupLog) forget() (err error) {
	for _, name := range cached {
		err = errors.Join(err, os.RemoveAll(filepath.Join(g.data, name)))
	}
	return err
}

// checkKey returns an error if the group has another key than this member.
func (g *groupLog) checkKey(ctx context.Context) error {
	o, err := g.copyOf()
	if err != nil {
		return err
	}
	err = log.CheckKey(ctx, o)
	if errors.Is(err, log.ErrEntry) {
		err = fmt.Errorf("%w. All members of a group need the same key: give the key file of the group with -key-file", err)
	}
	return err
}

// copyOf says which copy of the records the member has.
func (g *groupLog) copyOf() (log.Options, error) {
	a, err := g.access(recordsStore, !g.mark.Made)
	if err != nil {
		return log.Options{}, err
	}
	return a.options(g.log, g.tell)
}
