package group_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/service/group"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

// term is that of all tests, which have the clock of testing/synctest.
const term = 2500 * time.Millisecond

// guard is what a test leaves out, to see that it is needed.
type guard string

const (
	none     guard = ""
	question guard = "the question before the claim"
	exactly  guard = "a claim expects exactly what was applied"
	lease    guard = "the lease"
)

// cluster is a group of members in one process, over a log in memory.
type cluster struct {
	t       testing.TB
	dir     string
	log     *mem.Log
	key     *seal.Key
	nodes   []*node
	without guard

	mu        sync.Mutex // guards the fields below
	processes []*process // that answer
	started   []*process // all there were
	acked     map[string]ack
	owners    map[uint64]string // who has acknowledged changes in an epoch
	next      int
	lost      bool // the log has lost its end
	wrong     []string
}

// ack is a change that a client was told to be stored.
type ack struct {
	by *node
	at time.Time
}

// node is a machine of a member: its files, its connections, and its clock.
type node struct {
	c     *cluster
	name  string
	path  string
	conn  *mem.Member
	p     *process  // the last one
	wiped time.Time // when it lost its files

	mu      sync.Mutex    // guards the fields below
	paused  chan struct{} // closed when the machine goes on
	still   bool          // its clock stands still while it is paused
	since   time.Time     // when it was paused
	stood   time.Duration // for how long its clock stood still
	alone   bool          // no other member hears it
	offline bool          // no server is there
	settled time.Time     // since when it is neither paused, nor alone, nor offline
}

// process is a process of a member. It implements group.Peers and log.Transport.
type process struct {
	n        *node
	instance string
	member   *group.Member
	appends  atomic.Int64
	dead     atomic.Bool
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // of Run, once done is closed
	requests chan func(*bbolt.DB, group.Lead)

	mu       sync.Mutex // guards the fields below
	answer   func(group.Info) group.Info
	db       *bbolt.DB // while it leads
	lead     group.Lead
	draining bool
	leaders  []string // whom it has followed; "-" for nobody
}

var incarnation = log.ID{1, 2, 3}

// newCluster returns a group of members that do not run.
func newCluster(t testing.TB, names ...string) *cluster {
	key, err := log.Key([]byte("secret"), incarnation, "records")
	if err != nil {
		t.Fatal(err)
	}
	// Memory, where there is some, because new files are synced.
	dir, err := os.MkdirTemp("/dev/shm", "group")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cluster{t: t, dir: dir, log: mem.New(), key: key, acked: map[string]ack{}, owners: map[uint64]string{}}
	for _, name := range names {
		c.join(name)
	}
	return c
}

func (c *cluster) join(name string) *node {
	n := &node{c: c, name: name, conn: c.log.Join(), settled: time.Now()}
	n.path = filepath.Join(c.dir, fmt.Sprint(len(c.nodes)), "records.db")
	c.nodes = append(c.nodes, n)
	return n
}

// known are the names of all members.
func (c *cluster) known() (names []string) {
	for _, n := range c.nodes {
		names = append(names, n.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (c *cluster) violation(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// start starts the process of a member.
func (n *node) start() *process {
	n.c.mu.Lock()
	n.c.next++
	p := &process{n: n, instance: fmt.Sprint(n.name, " ", n.c.next), done: make(chan struct{}),
		requests: make(chan func(*bbolt.DB, group.Lead), 4)}
	n.c.mu.Unlock()
	o := group.Options{Own: group.Info{Name: n.name, Instance: p.instance, Address: n.name + ":1"}, Path: n.path,
		Copy: p.copy, Peers: p, Known: func(*log.Copy) ([]string, error) { return n.c.known(), nil }, Serve: p.serve,
		Changed: p.changed, Log: func(string) {}, Term: term, Now: n.now}
	if n.c.without == question {
		o.OmitQuestion()
	}
	p.member = group.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	n.p = p
	n.c.started = append(n.c.started, p)
	go func() {
		defer close(p.done)
		p.err = p.member.Run(ctx)
	}()
	return p
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return !p.dead.Load()
	}
}

// stop ends the process in order.
func (n *node) stop() error {
	n.resume()
	n.p.cancel()
	<-n.p.done
	return n.p.err
}

// kill ends the process at once.
func (n *node) kill() {
	n.p.dead.Store(true)
	_ = n.stop()
}

// pause stops the machine; its clock stands still if that is set.
func (n *node) pause(still bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused == nil {
		n.paused, n.still, n.since = make(chan struct{}), still, time.Now()
	}
}

func (n *node) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused == nil {
		return
	}
	if n.still {
		n.stood += time.Since(n.since)
	}
	close(n.paused)
	n.paused, n.settled = nil, time.Now()
}

// part separates the member from the others, and its server from those of the log.
func (n *node) part(alone, offline bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.alone, n.offline, n.settled = alone, offline, time.Now()
}

// gate returns when the machine is not paused.
func (n *node) gate() {
	for {
		n.mu.Lock()
		paused := n.paused
		n.mu.Unlock()
		if paused == nil {
			return
		}
		<-paused
	}
}

func (n *node) now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	stood := n.stood
	if n.paused != nil && n.still {
		stood += time.Since(n.since)
	}
	return time.Now().Add(-stood)
}

// fresh reports whether the process answers for the records.
func (p *process) fresh(w *log.Writer) bool {
	return w.Err() == nil && (p.n.c.without == lease || w.Unchanged() < group.Fresh(term))
}

// serve is what the process does while it leads.
func (p *process) serve(ctx context.Context, l group.Lead) (err error) {
	db, err := bbolt.Open(p.n.path, 0o600, &bbolt.Options{NoSync: true, Timeout: time.Second})
	if err != nil {
		return errors.Join(err, l.Writer.Close())
	}
	p.n.c.begins(p, db)
	p.mu.Lock()
	p.db, p.lead, p.draining = db, l, false
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.db = nil
		p.mu.Unlock()
		err = errors.Join(err, db.Close(), l.Writer.Close())
	}()
	beat := time.NewTicker(term / 12)
	defer beat.Stop()
	for {
		p.n.gate()
		if l.Writer.Unchanged() >= term/4 {
			_ = l.Writer.Beat(db) // Stopped tells
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.Writer.Stopped():
			return l.Writer.Err()
		case <-beat.C:
		case f := <-p.requests:
			f(db, l)
		}
	}
}

// submit has the member do something if it leads, and returns whether it may.
func (p *process) submit(f func(*bbolt.DB, group.Lead)) bool {
	p.mu.Lock()
	leads := p.db != nil
	p.mu.Unlock()
	if !leads {
		return false
	}
	select {
	case p.requests <- f:
		return true
	default:
		return false
	}
}

// change has the member store a change, which is noted when it is acknowledged.
func (p *process) change() (id string) {
	c := p.n.c
	c.mu.Lock()
	c.next++
	id = fmt.Sprintf("change%d.", c.next)
	c.mu.Unlock()
	p.submit(func(db *bbolt.DB, l group.Lead) {
		if !p.fresh(l.Writer) {
			return
		}
		err := recorded.Through(db, l.Writer, func(tx *recorded.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("values"))
			if err != nil {
				return err
			}
			return b.Put([]byte(id), []byte(p.n.name))
		})
		if err == nil && !p.dead.Load() {
			c.acknowledged(id, p.n, l.Epoch)
		}
	})
	return id
}

// handOver has the member hand the lead over.
func (p *process) handOver(to string) {
	p.submit(func(db *bbolt.DB, l group.Lead) {
		p.mu.Lock()
		p.draining = true
		p.mu.Unlock()
		_ = l.Writer.HandOver(db, to) // Stopped tells
		if l.Writer.Err() == nil {
			p.mu.Lock()
			p.draining = false
			p.mu.Unlock()
		}
	})
}

func (c *cluster) acknowledged(id string, n *node, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[id] = ack{n, time.Now()}
	if c.lost {
		return // epochs are used again, as their entries are
	}
	if owner := c.owners[epoch]; owner != "" && owner != n.name {
		c.wrong = append(c.wrong, fmt.Sprintf("%s and %s acknowledge changes in epoch %d", owner, n.name, epoch))
	}
	c.owners[epoch] = n.name
}

// missing returns the acknowledged changes that a file does not have.
func (c *cluster) missing(db *bbolt.DB) (ids []string) {
	all := content(db)
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.acked {
		if !strings.Contains(all, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// begins checks that whoever begins to lead lacks no change whose acknowledger could tell it so.
func (c *cluster) begins(p *process, db *bbolt.DB) {
	for _, id := range c.missing(db) {
		c.mu.Lock()
		a := c.acked[id]
		by := a.by
		c.mu.Unlock()
		if a.at.Before(by.wiped) {
			continue
		}
		for _, n := range []*node{by, p.n} {
			n.mu.Lock()
			settled := !n.alone && !n.offline && n.paused == nil && time.Since(n.settled) > 2*term
			n.mu.Unlock()
			if !settled {
				by = nil
				break
			}
		}
		if by != nil && by.p.running() && by != p.n {
			c.violation("%s leads without %s, which %s has acknowledged", p.n.name, id, by.name)
		}
	}
}

// read checks what the member answers, if it answers.
func (p *process) read() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db == nil || p.draining || p.dead.Load() || !p.n.hears() || !p.fresh(p.lead.Writer) {
		return
	}
	if ids := p.n.c.missing(p.db); len(ids) > 0 {
		p.n.c.violation("%s answers in epoch %d without %s", p.n.name, p.lead.Epoch, ids)
	}
}

// leads reports whether the process leads, and in which epoch.
func (p *process) leads() (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead.Epoch, p.db != nil && p.running() && p.member.Info().Leads
}

// leaders returns the names of those that lead, and the highest epoch of them.
func (c *cluster) leaders() (names string, epoch uint64) {
	var all []string
	for _, n := range c.nodes {
		if n.p == nil {
			continue
		}
		if e, ok := n.p.leads(); ok {
			all, epoch = append(all, n.name), max(epoch, e)
		}
	}
	return strings.Join(all, " "), epoch
}

// content returns what a file has.
func content(db *bbolt.DB) string {
	var all strings.Builder
	_ = recorded.View(db, func(tx *recorded.Tx) error {
		b := tx.Bucket([]byte("values"))
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			_, err := fmt.Fprintf(&all, "%s%s\n", k, v)
			return err
		})
	})
	return all.String()
}
