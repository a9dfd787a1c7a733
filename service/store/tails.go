package store

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"
)

// tailEvery is the interval at which what was written to logs is kept in the depot: so much of their ends is lost with
// the machine.
const tailEvery = 200 * time.Millisecond

// tailMost bounds what is kept of a log at a time, in bytes.
const tailMost = 4 << 20

// tails keeps the logs that are written in the depot. Its methods do nothing if it is nil.
type tails struct {
	depot Depot
	done  chan struct{}
	group sync.WaitGroup

	keeping sync.Mutex // held while pieces are kept

	mu    sync.Mutex // guards grown
	grown map[*Log]bool
}

func newTails(d Depot) *tails {
	t := &tails{depot: d, done: make(chan struct{}), grown: map[*Log]bool{}}
	t.group.Go(t.run)
	return t
}

// grew notes that a log has grown.
func (t *tails) grew(l *Log) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grown[l] = true
}

// ends has no more pieces of a log kept. It waits for one that is being kept.
func (t *tails) ends(l *Log) {
	t.mu.Lock()
	delete(t.grown, l)
	t.mu.Unlock()
	t.keeping.Lock()
	defer t.keeping.Unlock()
	l.mu.Lock() // no piece of it is kept afterwards
	defer l.mu.Unlock()
	l.ended = true
}

func (t *tails) run() {
	again := time.NewTicker(tailEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			t.keep()
		case <-t.done:
			t.keep()
			return
		}
	}
}

func (t *tails) close() {
	close(t.done)
	t.group.Wait()
}

// keep keeps what was written since the last time. What cannot be kept is tried again.
func (t *tails) keep() {
	t.mu.Lock()
	all := t.grown
	t.grown = map[*Log]bool{}
	t.mu.Unlock()
	failed := false
	for l := range all {
		if failed { // the others wait for the next time, too
			t.grew(l)
			continue
		}
		t.keeping.Lock()
		err := t.extend(l)
		t.keeping.Unlock()
		if failed = err != nil; failed {
			t.grew(l)
		}
	}
}

// extend keeps the new end of one log.
func (t *tails) extend(l *Log) error {
	l.mu.Lock()
	from, to, over := l.kept, min(l.end, l.kept+tailMost), l.ended
	more := to < l.end
	l.mu.Unlock()
	if over || from == to {
		return nil
	}
	if more {
		t.grew(l)
	}
	data := make([]byte, to-from)
	if _, err := l.file.ReadAt(data, from); errors.Is(err, fs.ErrClosed) {
		return nil // nobody writes it any more
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := t.depot.Extend(l.name, from, data); err != nil {
		return err
	}
	l.mu.Lock()
	l.kept = to
	l.mu.Unlock()
	return nil
}
