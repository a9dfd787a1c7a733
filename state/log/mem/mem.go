// Package mem is a log in memory, with the faults that real ones have.
//
// It implements the transport of package log for tests and simulations; nothing survives the process.
package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/state/log"
)

// Log is a log that members share. Safe for concurrent use.
type Log struct {
	mu      sync.Mutex // guards the fields below
	last    uint64
	entries map[string][]entry // by store, ascending
	parts   map[string][]byte
	grown   chan struct{} // closed, and made anew, with each entry

	frozen bool
	flying map[string]entry // of each store, while it is not known whether they will be stored; without sequence
}

// entry is a stored entry, or one that may be stored after the sequence expected.
type entry struct {
	sequence, expected uint64
	data               []byte
}

// New returns an empty log.
func New() *Log {
	return &Log{entries: map[string][]entry{}, parts: map[string][]byte{}, grown: make(chan struct{}),
		flying: map[string]entry{}}
}

// Member is a connection of a member to a log. It implements log.Transport.
type Member struct {
	log *Log

	// the fields below are guarded by log.mu
	cut    bool
	then   view
	silent int
}

// view is what a server knows that was cut off from the others.
type view struct {
	entries map[string][]entry
	parts   map[string][]byte
}

var _ log.Transport = (*Member)(nil)

// Join returns a connection.
func (l *Log) Join() *Member { return &Member{log: l} }

// Freeze stops the majority of the servers: from now on, entries are neither stored nor given up until Thaw. The first
// one of each store is in flight; all others of the store are refused without a sequence.
func (l *Log) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = true
}

// Thaw ends Freeze. Each entry in flight is stored if stores returns true for its store.
func (l *Log) Thaw(stores func(store string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = false
	for store, e := range l.flying {
		if stores(store) && lastOf(l.entries[store]) == e.expected {
			l.store(store, e.data)
		}
	}
	clear(l.flying)
}

// Lose removes the last n entries of the log, as a restored older snapshot does. Their sequences are used again. It
// returns how many it has removed.
func (l *Log) Lose(n int) (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; n > 0 && l.last > 0; n-- {
		for store, list := range l.entries {
			if lastOf(list) == l.last {
				l.entries[store] = list[:len(list)-1]
				lost++
			}
		}
		l.last--
	}
	return lost
}

// Entries returns the entries of a store that are stored, in order.
func (l *Log) Entries(store string) (sequences []uint64, all [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries[store] {
		sequences, all = append(sequences, e.sequence), append(all, e.data)
	}
	return sequences, all
}

// Last returns the last sequence of the log.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Cut separates the member's server from the others: it answers reads from what it has, for which it takes itself for
// the leader, and stores nothing. What is appended there, it forgets.
func (m *Member) Cut() {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	m.cut = true
	m.then = view{entries: map[string][]entry{}, parts: maps.Clone(m.log.parts)}
	for store, list := range m.log.entries {
		m.then.entries[store] = list[:len(list):len(list)]
	}
}

// Heal ends Cut.
func (m *Member) Heal() {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	m.cut, m.then = false, view{}
}

// Silence loses the answers to the next n entries that the member appends, stored or refused.
func (m *Member) Silence(n int) {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	m.silent = n
}

func lastOf(list []entry) uint64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].sequence
}

// store stores an entry. The caller has the lock.
func (l *Log) store(store string, data []byte) uint64 {
	l.last++
	list := l.entries[store]
	// a copy, because members that were cut off have the list of before
	l.entries[store] = append(list[:len(list):len(list)], entry{sequence: l.last, data: bytes.Clone(data)})
	close(l.grown)
	l.grown = make(chan struct{})
	return l.last
}

// Append implements log.Transport.
func (m *Member) Append(ctx context.Context, store string, expected uint64, data []byte) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", log.ErrUnanswered, err)
	}
	l := m.log
	l.mu.Lock()
	defer l.mu.Unlock()
	sequence, err := m.append(store, expected, data)
	if m.silent > 0 {
		m.silent--
		return 0, fmt.Errorf("%w: the answer was lost", log.ErrUnanswered)
	}
	return sequence, err
}

func (m *Member) append(store string, expected uint64, data []byte) (uint64, error) {
	l := m.log
	at := lastOf(l.entries[store])
	if m.cut {
		at = lastOf(m.then.entries[store])
	}
	_, flying := l.flying[store]
	switch {
	case m.cut && at == expected:
		return 0, fmt.Errorf("%w: the server has no majority", log.ErrUnanswered)
	case !m.cut && flying:
		return 0, fmt.Errorf("%w: another one is in flight", log.ErrUndecided)
	case at != expected:
		return 0, &log.Refused{Last: at}
	case l.frozen:
		l.flying[store] = entry{expected: expected, data: bytes.Clone(data)}
		return 0, fmt.Errorf("%w: the servers have no majority", log.ErrUnanswered)
	}
	return l.store(store, data), nil
}

// Next implements log.Transport.
func (m *Member) Next(ctx context.Context, store string, from uint64, wait time.Duration) (uint64, []byte, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return 0, nil, fmt.Errorf("%w: %w", log.ErrUnanswered, err)
		}
		m.log.mu.Lock()
		list, grown := m.log.entries[store], m.log.grown
		if m.cut {
			list = m.then.entries[store]
		}
		m.log.mu.Unlock()
		for _, e := range list {
			if e.sequence >= from {
				return e.sequence, bytes.Clone(e.data), nil
			}
		}
		if wait <= 0 {
			return 0, nil, log.ErrNone
		}
		select {
		case <-grown:
		case <-timer.C:
			return 0, nil, log.ErrNone
		case <-ctx.Done():
		}
	}
}

// Purge implements log.Transport.
func (m *Member) Purge(ctx context.Context, horizon uint64) error {
	return m.change(ctx, func() {
		for store, list := range m.log.entries {
			for len(list) > 0 && list[0].sequence < horizon {
				list = list[1:]
			}
			m.log.entries[store] = list
		}
	})
}

// change makes a change, unless the member is cut off.
func (m *Member) change(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", log.ErrUnanswered, err)
	}
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if m.cut || m.log.frozen {
		return fmt.Errorf("%w: the servers have no majority", log.ErrUnanswered)
	}
	f()
	return nil
}

// Put implements log.Transport.
func (m *Member) Put(ctx context.Context, name string, part []byte) error {
	if len(part) > log.MaxPart {
		return errors.New("the part is too large")
	}
	return m.change(ctx, func() { m.log.parts[name] = bytes.Clone(part) })
}

// known returns the parts that the member's server has.
func (m *Member) known(ctx context.Context, f func(parts map[string][]byte)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", log.ErrUnanswered, err)
	}
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if m.cut {
		f(m.then.parts)
	} else {
		f(m.log.parts)
	}
	return nil
}

// Get implements log.Transport.
func (m *Member) Get(ctx context.Context, name string) (part []byte, err error) {
	there := false
	err = m.known(ctx, func(parts map[string][]byte) { part, there = parts[name] })
	if err == nil && !there {
		err = log.ErrNone
	}
	return bytes.Clone(part), err
}

// List implements log.Transport.
func (m *Member) List(ctx context.Context, prefix string) (names []string, err error) {
	err = m.known(ctx, func(parts map[string][]byte) {
		for name := range parts {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	})
	return names, err
}

// Remove implements log.Transport.
func (m *Member) Remove(ctx context.Context, name string) error {
	return m.change(ctx, func() { delete(m.log.parts, name) })
}
