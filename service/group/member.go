package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/state/log"
)

// Member is a member of a group. Safe for concurrent use.
type Member struct {
	o Options

	mu     sync.Mutex // guards the fields below
	own    Info
	writer *log.Writer // while it leads
	others map[string]Seen
	leader *Info // another one that leads; nil if none is known
	// twice says that another process has this member's name, which was heard at twiceAt.
	twice   error
	twiceAt time.Time
}

// Seen is another member, as it was seen last.
type Seen struct {
	Info
	At time.Time
}

// New returns a member, which does nothing before Run.
func New(o Options) *Member {
	return &Member{o: o.withDefaults(), own: o.Own, others: map[string]Seen{}}
}

// Run follows the log and leads when it is this member's turn, until ctx ends: then it returns nil. The error is of
// Serve, or ErrTwice, ErrAhead, log.ErrChain or log.ErrLost: the member must not go on.
func (m *Member) Run(ctx context.Context) (err error) {
	stop, err := m.o.Peers.Answer(m.answer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for {
		w, before, err := m.follow(ctx)
		if err == nil && w != nil {
			err = m.lead(ctx, w, before)
		}
		if ctx.Err() != nil && again(err) {
			return nil
		}
		if !again(err) {
			return err
		}
		if err != nil {
			m.o.Log("this member leads no more, and follows: " + err.Error())
		}
	}
}

// lead has the service served until it ends.
func (m *Member) lead(ctx context.Context, w *log.Writer, before string) error {
	at := w.Position()
	m.mu.Lock()
	m.writer, m.leader = w, nil
	m.own.at(at)
	m.own.Since = m.o.Now().UTC()
	m.mu.Unlock()
	telling, end := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { m.tell(telling) })
	err := m.o.Serve(ctx, Lead{Writer: w, Epoch: at.Epoch, Before: before})
	end()
	others.Wait()
	m.mu.Lock()
	m.writer = nil
	m.own.at(w.Acknowledged())
	m.own.Since = time.Time{}
	m.mu.Unlock()
	return err
}

// tell tells the others that this member leads, and hears how far they are, until ctx ends.
func (m *Member) tell(ctx context.Context) {
	for ctx.Err() == nil {
		_ = m.o.Peers.Ask(ctx, m.Info(), m.o.Asking, func(i Info) bool { // without a connection nobody hears it
			m.saw(i)
			return true
		})
		_ = sleep.For(ctx, m.o.Term/5) // ctx.Err says it, too
	}
}

// Info returns what the member says of itself.
func (m *Member) Info() Info {
	m.mu.Lock()
	own, w := m.own, m.writer
	m.mu.Unlock()
	if w != nil {
		own.at(w.Acknowledged())
		own.Leads = w.Err() == nil && w.Unchanged() < Fresh(m.o.Term)
	}
	return own
}

// Others returns the other members that were seen, in the order of their names.
func (m *Member) Others() []Seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Seen, 0, len(m.others))
	for _, s := range m.others {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Seen) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Forget forgets another member.
func (m *Member) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.others, name)
}

// saw notes what another member has said of itself.
func (m *Member) saw(i Info) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i.Name == m.own.Name {
		if i.Instance != m.own.Instance {
			m.twice, m.twiceAt = fmt.Errorf("%w: it is %s, at %s. Give each process a name of its own (-member)", ErrTwice,
				i.Name, i.Address), m.o.Now()
		}
		return
	}
	m.others[i.Name] = Seen{i, m.o.Now()}
	// An older leader that does not know it yet says that it leads, too.
	if i.Leads && m.writer == nil && i.Epoch >= m.own.Epoch && (m.leader == nil || i.Epoch >= m.leader.Epoch) {
		known := m.leader != nil && m.leader.Name == i.Name && m.leader.Epoch == i.Epoch && m.leader.Address == i.Address
		m.leader = &i
		if !known {
			m.o.Changed(&i)
		}
	}
}

// doubled returns ErrTwice if another process with the name of this member was heard lately.
func (m *Member) doubled() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.twice != nil && m.o.Now().Sub(m.twiceAt) < m.o.Term {
		return m.twice
	}
	return nil
}

// answer answers the question of another member.
func (m *Member) answer(i Info) Info {
	m.saw(i)
	return m.Info()
}

// lost forgets the leader, of which nothing was heard.
func (m *Member) lost() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leader != nil {
		m.leader = nil
		m.o.Changed(nil)
	}
}

// follow follows the log until this member leads, and returns the member that led before. Without an error and a
// Writer, ctx has ended.
func (m *Member) follow(ctx context.Context) (_ *log.Writer, before string, err error) {
	o, err := m.o.Copy()
	if err != nil {
		return nil, "", err
	}
	c, err := log.OpenCopy(m.o.Path, o)
	if err != nil {
		return nil, "", err
	}
	f := &follower{m: m, c: c, first: o.First, heard: m.o.Now()}
	w, err := f.run(ctx)
	if w == nil {
		err = errors.Join(err, c.Close())
	}
	if ctx.Err() != nil && again(err) {
		return nil, "", nil
	}
	return w, f.before, err
}

// follower is one time of following the log.
type follower struct {
	m     *Member
	c     *log.Copy
	first bool // the log may have no entry
	// before is the member that led before this one does.
	before string
	// heard is when the log had something new, or could not be asked.
	heard time.Time
	// beyond is since when another member has more than the log, and above is what it said.
	beyond time.Time
	above  Info
}

// unansweredPause is between the tries to ask a log that does not answer.
const unansweredPause = 100 * time.Millisecond

func (f *follower) run(ctx context.Context) (*log.Writer, error) {
	if err := f.catchUp(ctx); err != nil {
		return nil, err
	}
	// The one that led last need not wait for itself. A new group has no leader to wait for.
	at := f.c.Position()
	now := at.Member == f.m.own.Name || at.Sequence == 0 && f.first
	for ctx.Err() == nil {
		if err := f.m.doubled(); err != nil {
			return nil, err
		}
		silent := f.m.o.Now().Sub(f.heard)
		if now || silent >= f.m.o.Term {
			now = false
			f.m.lost()
			w, err := f.claim(ctx)
			if w != nil || err != nil {
				return w, err
			}
			continue
		}
		w, err := f.step(ctx, min(f.m.o.Term-silent, f.m.o.Term/5))
		if w != nil || err != nil {
			return w, err
		}
	}
	return nil, nil //nolint:nilnil // ctx has ended
}

// catchUp applies what the log has.
func (f *follower) catchUp(ctx context.Context) error {
	for {
		err := f.c.Follow(ctx)
		f.note()
		if !errors.Is(err, log.ErrUnanswered) {
			return err
		}
		if err := sleep.For(ctx, unansweredPause); err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

// note makes the position of the copy known.
func (f *follower) note() {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.m.own.at(f.c.Position())
	f.heard = f.m.o.Now()
}

// step applies the next entry. It returns a Writer if that entry hands the records over to this member.
func (f *follower) step(ctx context.Context, wait time.Duration) (*log.Writer, error) {
	before := f.c.Position()
	applied, err := f.c.Step(ctx, wait)
	switch {
	case errors.Is(err, log.ErrUnanswered):
		f.heard = f.m.o.Now() // who cannot ask the log does not know that it is silent
		_ = sleep.For(ctx, unansweredPause)
		return nil, nil //nolint:nilnil // there is none
	case err != nil || !applied:
		return nil, err
	}
	f.note()
	f.beyond, f.above = time.Time{}, Info{}
	if at := f.c.Position(); at.Epoch > before.Epoch && at.Member == f.m.own.Name {
		f.m.o.Log(fmt.Sprintf("the lead was handed over to this member, %s", at.Member))
		f.before = before.Member
		return f.c.Take(ctx)
	}
	return nil, nil //nolint:nilnil // there is none
}

// claim asks the others, and then the log. Without a Writer and an error, the member follows the log further.
func (f *follower) claim(ctx context.Context) (*log.Writer, error) {
	if !f.m.o.omit.question {
		if ok, err := f.question(ctx); !ok || err != nil {
			return nil, err
		}
	}
	at := f.c.Position()
	if at.Sequence == 0 && !f.first {
		// Nobody knows an entry: what the log says about its end decides, after a time that tells a server that is behind
		// from a log that has lost everything.
		if err := f.c.Probe(ctx); err != nil {
			return nil, err
		}
		return nil, f.catchUp(ctx)
	}
	f.before = at.Member
	w, err := f.c.Claim(ctx)
	if err == nil {
		return w, nil
	}
	f.heard = f.m.o.Now()
	if ctx.Err() != nil || !again(err) {
		return nil, err
	}
	return nil, nil //nolint:nilnil // another one was faster, or the copy will tell
}

// question asks the others, and reports whether this member may claim the lead: not if one leads, or has applied more
// than this one. The error says that nobody may.
func (f *follower) question(ctx context.Context) (ok bool, err error) {
	m := f.m
	own := m.Info()
	known, err := m.o.Known(f.c)
	if err != nil {
		return false, err
	}
	missing := map[string]bool{}
	for _, name := range known {
		missing[name] = name != own.Name
	}
	ok = true
	waits := func() bool { return slices.ContainsFunc(known, func(n string) bool { return missing[n] }) }
	each := func(i Info) bool {
		m.saw(i)
		delete(missing, i.Name)
		if i.Name != own.Name {
			err = f.judge(i, own)
			ok = ok && !i.Leads && i.Sequence <= own.Sequence
		}
		return err == nil
	}
	// Members that nobody knows yet, and other processes with this one's name, answer at once.
	asked := m.o.Peers.Ask(ctx, own, m.o.Asking/5, each)
	if asked == nil && err == nil && ok && waits() {
		asked = m.o.Peers.Ask(ctx, own, m.o.Asking, func(i Info) bool { return each(i) && waits() })
	}
	// What a member had does not come back because it answers no more: it has ended, as its entries are lost.
	if err == nil && !f.beyond.IsZero() && f.above.Sequence > own.Sequence {
		err, ok = f.judge(f.above, own), false
	}
	if err == nil {
		err = m.doubled()
	}
	if err == nil && asked != nil && ctx.Err() == nil && !errors.Is(asked, log.ErrUnanswered) {
		err = asked
	}
	if asked != nil || !ok {
		f.heard = m.o.Now()
	}
	return ok && asked == nil && ctx.Err() == nil, err
}

// judge returns an error if what another member has says that the log is not the one that it was.
func (f *follower) judge(i, own Info) error {
	switch {
	case i.Sequence == own.Sequence && i.Hash != own.Hash:
		return differs(i)
	case i.Sequence <= own.Sequence:
		return nil
	}
	if f.beyond.IsZero() {
		f.beyond = f.m.o.Now()
	}
	if i.Sequence > f.above.Sequence {
		f.above = i
	}
	if f.m.o.Now().Sub(f.beyond) >= f.m.o.Suspicion {
		return ahead(i, own.Sequence)
	}
	return nil
}
