package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Progress writes the snapshot from time to time while a run changes the state, so that whoever looks into the backend
// sees how far it is. It stands between the run and the store, and notes what is committed; it writes beside the run,
// one snapshot at a time. A backend that is slow or dead delays nothing but the next of these snapshots.
//
// What it writes has the serial that the version being made will have. The store's mark says that this is not a
// version, so the next Push writes in any case.
type Progress struct {
	journal.Store
	Sync      *Sync
	Workspace string
	// Every is the time between two snapshots; see PersistInterval.
	Every time.Duration
	// Lost is closed when the lock is lost: nothing is written from then on. May be nil.
	Lost <-chan struct{}
	// Tell is told when a snapshot could not be written, once until one could; may be nil.
	Tell func(text string)

	mu      sync.Mutex     // guards pending
	pending []state.Change // committed since the last snapshot

	// What follows belongs to Run.
	now  *state.State // as of the last snapshot
	told bool
}

// leastInterval is the shortest time between two snapshots of a run, and the default, as in OpenTofu.
const leastInterval = 20 * time.Second

// PersistInterval reads TF_STATE_PERSIST_INTERVAL: the seconds between two snapshots of a run.
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
func (p *Progress) Commit(ctx context.Context, workspace, lockID string, tx journal.Tx) error {
	err := p.Store.Commit(ctx, workspace, lockID, tx)
	if err == nil && workspace == p.Workspace && len(tx.Changes) > 0 {
		p.mu.Lock()
		p.pending = append(p.pending, tx.Changes...)
		p.mu.Unlock()
	}
	return err
}

// lastWait is how long the end of a run waits for a snapshot that is being written. One that is cut off could arrive
// after the last one.
const lastWait = 30 * time.Second

// Start begins to write. stop ends it, and returns when nothing is in progress any more; it may be called more than
// once.
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
			p.Tell(fmt.Sprintf("The snapshot of the state cannot be written at the moment: %s. The run goes on, and "+
				"the store "+
				"has everything; it is tried again.\n", err))
		}
	}
}

// write writes what is known, if it is news.
func (p *Progress) write(ctx context.Context) error {
	p.mu.Lock()
	news := p.pending
	p.pending = nil
	p.mu.Unlock()
	if len(news) == 0 {
		return nil
	}
	err := p.writeWith(ctx, news)
	if err != nil { // they are still news; those that the state has already are the same once more
		p.mu.Lock()
		p.pending = append(news, p.pending...)
		p.mu.Unlock()
	}
	return err
}

func (p *Progress) writeWith(ctx context.Context, news []state.Change) error {
	if p.now == nil {
		now, err := p.Store.Load(ctx, p.Workspace) // with the news, and perhaps newer ones
		if err != nil {
			return err
		}
		head, err := p.Sync.head(ctx, p.Workspace)
		if err != nil {
			return err
		}
		now.Serial, now.Lineage = head.Serial+1, head.Lineage
		if now.Lineage == "" { // the store makes one when the first version ends
			now.Lineage = uuid.NewString()
		}
		p.now = now
	}
	p.now.Apply(news...)
	d := p.Sync.Backend.Describe(p.Workspace)
	write := func(w io.Writer) error { return tfstate.Write(w, p.now, p.Sync.Version, d.Form) }
	sum := sha256.New()
	if err := write(sum); err != nil { // what is written has to be known before
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
		Where: d.Where, Lineage: p.now.Lineage, SHA256: digest, // no serial: it holds no version
	})
}
