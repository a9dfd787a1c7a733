package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Progress writes the snapshot periodically while a run changes the state, so that readers of the backend see the
// progress. It wraps the store of the run, and gathers the changes of its commits. It writes concurrently with the run,
// one snapshot at a time. A slow or unavailable backend delays only the next of these snapshots.
//
// The snapshot has the serial that the version in progress will have. The store's mark says that it is not a version,
// so the next Push always writes.
type Progress struct {
	journal.Store
	Sync      *Sync
	Workspace string
	// Every is the time between two snapshots; see PersistInterval.
	Every time.Duration
	// Lost is closed when the lock is lost: nothing is written afterwards. May be nil.
	Lost <-chan struct{}
	// Tell is called when a snapshot could not be written, once until a write succeeds; may be nil.
	Tell func(text string)

	mu      sync.Mutex     // guards pending
	pending []state.Change // committed since the last snapshot
	// ended says that the version in progress has ended, or is about to: nothing more is written.
	ended atomic.Bool

	// The fields below are used only by the writing goroutine.
	now  *state.State // as of the last snapshot
	told bool
}

// leastInterval is the minimum time between two snapshots of a run, and the default, as in OpenTofu.
const leastInterval = 20 * time.Second

// PersistInterval parses TF_STATE_PERSIST_INTERVAL: the seconds between two snapshots of a run.
func PersistInterval(text string) (time.Duration, error) {
	if text == "" {
		return leastInterval, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > int(24*time.Hour/time.Second) || time.Duration(n)*time.Second < leastInterval {
		return 0, fmt.Errorf("the environment variable TF_STATE_PERSIST_INTERVAL is the number of seconds between two "+
			"snapshots during a run, at least %d and at most a day: %q is not", int(leastInterval/time.Second), text)
	}
	return time.Duration(n) * time.Second, nil
}

// Commit implements journal.Store.
func (p *Progress) Commit(ctx context.Context, tx journal.Commit) error {
	ends := tx.EndVersion && tx.Workspace == p.Workspace
	if ends { // before the serial grows: see writeWith
		p.ended.Store(true)
	}
	err := p.Store.Commit(ctx, tx)
	if ends && err != nil {
		p.ended.Store(false)
	}
	if err == nil && tx.Workspace == p.Workspace && len(tx.Changes) > 0 {
		p.mu.Lock()
		p.pending = append(p.pending, tx.Changes...)
		p.mu.Unlock()
	}
	return err
}

// lastWait is how long the end of a run waits for a write in progress. A write that is abandoned could overwrite
// the final snapshot.
const lastWait = 30 * time.Second

// Start starts writing. stop stops it, and returns when no write is in progress; it may be called more than once.
func (p *Progress) Start(ctx context.Context) (stop func()) {
	end, over := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() { // stop waits for it
		defer close(over)
		p.run(ctx, end)
	}()
	return sync.OnceFunc(func() {
		close(end)
		timer := time.NewTimer(lastWait)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
		}
		cancel()
		<-over
	})
}

func (p *Progress) run(ctx context.Context, end <-chan struct{}) {
	ticker := time.NewTicker(p.Every)
	defer ticker.Stop()
	for {
		select {
		case <-end:
			return
		case <-p.Lost:
			return
		case <-ticker.C:
		}
		err := p.write(ctx)
		switch {
		case err == nil:
			p.told = false
		case !p.told && p.Tell != nil && ctx.Err() == nil:
			p.told = true
			p.Tell(fmt.Sprintf("The snapshot of the state cannot be written at the moment: %s. The run continues, and "+
				"the store "+
				"has everything; it is tried again.\n", err))
		}
	}
}

// write writes the committed changes, if there are any.
func (p *Progress) write(ctx context.Context) error {
	p.mu.Lock()
	news := p.pending
	p.pending = nil
	p.mu.Unlock()
	if len(news) == 0 {
		return nil
	}
	err := p.writeWith(ctx, news)
	if err != nil { // they stay pending; applying some of them again has no effect
		p.mu.Lock()
		p.pending = append(news, p.pending...)
		p.mu.Unlock()
	}
	return err
}

func (p *Progress) writeWith(ctx context.Context, news []state.Change) error {
	if p.now == nil {
		now, err := p.Store.Load(ctx, p.Workspace) // with the pending changes, and perhaps later ones
		if err != nil {
			return err
		}
		head, err := p.Sync.head(ctx, p.Workspace)
		if err != nil {
			return err
		}
		if p.ended.Load() { // the serial may be that of the version that has just ended; its snapshot comes next
			return nil
		}
		now.Serial, now.Lineage = head.Serial+1, head.Lineage
		if now.Lineage == "" { // the store assigns one when the first version ends
			now.Lineage = uuid.NewString()
		}
		p.now = now
	}
	p.now.Apply(news...)
	d := p.Sync.Backend.Describe(p.Workspace)
	write := func(w io.Writer) error { return tfstate.Write(w, p.now, p.Sync.Version, d.Form) }
	sum := sha256.New()
	if err := write(sum); err != nil { // the digest must be known before
		return err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if err := p.Sync.announce(ctx, p.Workspace, digest); err != nil {
		return err
	}
	if _, err := writeState(ctx, p.Sync.Backend, p.Workspace, write); err != nil {
		return err
	}
	return p.Store.SetMark(ctx, p.Workspace, journal.SnapshotMark{
		Where: d.Where, Lineage: p.now.Lineage, SHA256: digest, // no serial: it is not a version
	})
}
