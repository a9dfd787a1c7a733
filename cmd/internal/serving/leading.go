package serving

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/group"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state/log"
)

// What a member of a group does while it leads.

// lead has a service with the records until this member leads no more.
func (m *member) lead(ctx context.Context, l group.Lead) error {
	if l.Before != m.Member {
		if err := m.group.forget(); err != nil {
			return errors.Join(err, l.Writer.Close())
		}
	}
	st, err := m.group.openRecords(ctx, l.Writer, store.Options{Program: m.Version}, m.key)
	if err != nil {
		return err
	}
	s := newServing(m.Options)
	return errors.Join(m.serve(ctx, s, st, l), st.Close())
}

func (m *member) serve(ctx context.Context, s *serving, st *store.Store, l group.Lead) error {
	defer m.relay.Follow("", "")
	beating, end := context.WithCancel(ctx)
	beats := make(chan struct{})
	go func() {
		defer close(beats)
		m.beat(beating, st, l.Writer)
	}()
	defer func() { end(); <-beats }()
	if err := m.settle(ctx, st, s); err != nil {
		return err
	}
	v := &served{st: st, key: m.key, group: m.group, members: m}
	v.run = func(ctx context.Context, v *served) error {
		handler, end, err := v.begin(m.at)
		if err != nil {
			return err
		}
		defer end()
		m.announce(v.token)
		m.Log.Info("this member leads the group", "member", m.Member, "epoch", l.Epoch)
		m.relay.Lead(m.Member, handler, func() bool {
			return l.Writer.Err() == nil && l.Writer.Unchanged() < group.Fresh(group.Term)
		})
		return m.host(ctx, v, l.Writer)
	}
	return s.serve(ctx, v)
}

// beat has the log hear of this member at least three times in a term, until ctx ends.
func (m *member) beat(ctx context.Context, st *store.Store, w *log.Writer) {
	again := time.NewTicker(group.Term / 12)
	defer again.Stop()
	for {
		// At once if the lead was handed over: nobody knows yet whether another member has it already.
		if w.Unchanged() >= group.Term/4 {
			if err := st.Beat(); err != nil && ctx.Err() == nil {
				m.Log.Warn("the log of the group does not answer", "error", err)
			}
		}
		select {
		case <-again.C:
		case <-w.Stopped():
			return
		case <-ctx.Done():
			return
		}
	}
}

// settle makes this member the coordinators that the group has, and notes the members.
func (m *member) settle(ctx context.Context, st *store.Store, s *serving) error {
	seats, err := m.seats(st)
	if err != nil {
		return err
	}
	s.Engines = max(s.Engines, seats)
	for n := range s.Engines + 1 {
		if err := m.sit(ctx, st, n); err != nil {
			return fmt.Errorf("reading who the coordinator of seat %d is: %w", n, err)
		}
	}
	return m.join(st, m.member.Info())
}

// seats returns how many seats the runs that are under way may be on: a workspace keeps its seat while it has work.
func (m *member) seats(st *store.Store) (most int, err error) {
	err = st.View(func(tx *store.Tx) error {
		if len(tables.Runs.List(tx, "active", tables.Everywhere)) == 0 {
			return nil
		}
		for r, err := range tables.Seats.All(tx) {
			if err != nil {
				return err
			}
			if r.Number <= maxEngines {
				most = max(most, r.Number)
			}
		}
		return nil
	})
	return most, err
}

// sit writes the identity of a seat to the directory of this member, or records a new one.
func (m *member) sit(ctx context.Context, st *store.Store, number int) error {
	home := layout.HomeAt(m.Data)
	if number > 0 {
		home = layout.HomeAt(filepath.Join(m.Data, "seats", fmt.Sprint(number)))
	}
	r := &record.Seat{Number: number}
	err := st.View(func(tx *store.Tx) error {
		known, err := tables.Seats.Get(tx, fmt.Sprint(number))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		r = known
		return err
	})
	if err != nil {
		return err
	}
	if r.Identity != nil {
		if err := os.MkdirAll(filepath.Dir(home.Identity()), 0o700); err != nil {
			return err
		}
		return wholefile.Durable(home.Identity(), wholefile.Private, wholefile.Bytes(r.Identity))
	}
	// What is in the directory may be the coordinator of another group.
	if err := os.Remove(home.Identity()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, _, err := estate.CoordinatorAt(ctx, home, keyWrapper{m.key}, rand.Text); err != nil {
		return err
	}
	text, err := os.ReadFile(home.Identity())
	if err != nil {
		return err
	}
	return st.Update(func(tx *store.Tx) error {
		now, err := tables.Seats.Get(tx, fmt.Sprint(number))
		if errors.Is(err, store.ErrNotFound) {
			now, err = &record.Seat{Number: number}, nil
		}
		if err != nil {
			return err
		}
		now.Identity = text
		return tables.Seats.Put(tx, now)
	})
}

// join records a member, if the records do not say the same of it.
func (m *member) join(st *store.Store, i group.Info) error {
	same := false
	if err := st.View(func(tx *store.Tx) error {
		r, err := tables.Members.Get(tx, i.Name)
		same = err == nil && r.Address == i.Address && r.Program == i.Program
		return nil
	}); err != nil || same {
		return err
	}
	return st.Update(func(tx *store.Tx) error {
		r, err := tables.Members.Get(tx, i.Name)
		if errors.Is(err, store.ErrNotFound) {
			r, err = &record.Member{Name: i.Name, Joined: time.Now().UTC()}, nil
		}
		if err != nil {
			return err
		}
		r.Address, r.Program = i.Address, i.Program
		return tables.Members.Put(tx, r)
	})
}

// host has the runs executed until this member leads no more: the process is interrupted, another member has the lead,
// or an operator has asked for that.
func (m *member) host(ctx context.Context, v *served, w *log.Writer) error {
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running := make(chan error, 1)
	go func() { running <- v.svc.Run(runCtx) }()
	members := time.NewTicker(time.Second)
	defer members.Stop()
	var failed error
	for over := false; !over; {
		select {
		case <-members.C:
			for _, other := range m.member.Others() {
				if err := m.join(v.st, other.Info); err != nil {
					m.Log.Warn("cannot record a member of the group", "member", other.Name, "error", err)
				}
			}
		case h := <-m.asked:
			err := m.handOver(v.st, h.to)
			h.done <- err
		case <-w.Stopped():
			failed, over = w.Err(), true
		case <-ctx.Done():
			over = true
		}
	}
	m.relay.Follow("", "")
	stop()
	if failed != nil && v.engines.abandon != nil {
		v.engines.abandon() // another member carries on, with engines of its own
	}
	return errors.Join(failed, <-running)
}

// drainTime is how long requests in progress are waited for before the lead is handed over.
const drainTime = 300 * time.Millisecond

// handOver hands the lead over to another member; an empty name means the one that is nearest to the end of the log.
func (m *member) handOver(st *store.Store, to string) error {
	var next *group.Seen
	for _, other := range m.member.Others() {
		alive := time.Since(other.At) < group.Term
		if alive && (to == "" || other.Name == to) && (next == nil || other.Sequence > next.Sequence) {
			next = &other
		}
	}
	switch {
	case next == nil && to == "":
		return errors.New("no other member of the group answers")
	case next == nil:
		return fmt.Errorf("the member %q does not answer: coordinator group status lists those that do", to)
	}
	if about := st.Features(); about.Level > next.Levels.Newest {
		return fmt.Errorf("the member %q (Millipede %s) does not know the features that the group uses", next.Name,
			next.Program)
	}
	m.relay.Drain(drainTime)
	if err := st.HandOver(next.Name); err != nil {
		return err
	}
	m.Log.Info("the lead of the group was handed over", "member", next.Name)
	return nil
}

// leave hands the lead over before the process ends, if this member leads and another one is there.
func (m *member) leave(ctx context.Context) {
	if !m.member.Info().Leads {
		return
	}
	h := handing{done: make(chan error, 1)}
	limit := time.NewTimer(2 * time.Second)
	defer limit.Stop()
	select {
	case m.asked <- h:
	case <-limit.C:
		return
	case <-ctx.Done():
		return
	}
	if err := <-h.done; err != nil {
		m.Log.Warn("the lead of the group is not handed over", "error", err)
	}
}

// Members implements service.Group.
func (m *member) Members() []service.Member {
	own := m.member.Info()
	end := m.group.records.Acknowledged().Sequence
	all := []service.Member{{Name: own.Name, Address: own.Address, Program: own.Program, Levels: own.Levels, Leads: true,
		Since: own.Since, Answers: true}}
	for _, other := range m.member.Others() {
		one := service.Member{Name: other.Name, Address: other.Address, Program: other.Program, Levels: other.Levels,
			Since: other.At.UTC(), Answers: time.Since(other.At) < group.Term}
		if one.Answers && other.Sequence < end {
			one.Behind = int(end - other.Sequence) //nolint:gosec // a number of entries
		}
		all = append(all, one)
	}
	return all
}

// HandOver implements service.Group.
func (m *member) HandOver(ctx context.Context, to string) error {
	h := handing{to, make(chan error, 1)}
	select {
	case m.asked <- h:
		return <-h.done
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Forget implements service.Group.
func (m *member) Forget(name string) { m.member.Forget(name) }
