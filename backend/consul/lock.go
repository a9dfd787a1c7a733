package consul

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/state/journal"
)

// The parts of OpenTofu's locks.
const (
	lockName = ".lock"
	infoName = ".lockinfo"
	// lockFlags marks a key as a lock of Consul's client.
	lockFlags   = 0x2ddccbc058a50c18
	sessionName = "Consul API Lock"
	sessionTTL  = 15 * time.Second
	lockDelay   = 5 * time.Second
)

const (
	// heldWait is how long one attempt of Lock waits for a lock that is held.
	heldWait = time.Second
	// delayWait is how long it waits for a lock without a holder: Consul does not assign it for a while after its
	// session expired without releasing it. Without waiting, the error could not name a holder.
	delayWait = lockDelay + 2*time.Second
	pause     = time.Second
)

// heldLock is a lock of this process. id is its session.
type heldLock struct {
	id   string
	lost chan struct{} // closed by keepLock
	stop context.CancelFunc
	done chan struct{} // closed when keepLock has returned
}

// Lock implements backend.Backend. The lock's ID is that of its session, which is renewed until the lock is
// released. If the process is killed, Consul releases the lock after the session's TTL (up to twice that) and the
// delay.
func (b *store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	if !b.lock {
		return backend.Lock{ID: info.ID}, nil
	}
	begun := time.Now()
	id, err := b.client.createSession(ctx, sessionName, sessionTTL, lockDelay)
	if err != nil {
		return backend.Lock{}, fmt.Errorf("creating the session of the lock: %w", err)
	}
	if err := b.acquire(ctx, workspace, id); err != nil {
		return backend.Lock{}, errors.Join(err, b.release(ctx, workspace, id))
	}
	info.ID, info.Info, info.Path, info.Created = id, "consul session: "+id, b.key(workspace), b.now().UTC()
	stored, err := b.client.put(ctx, b.below(workspace, infoName), nil, backend.EncodeLock(info))
	if err == nil && !stored {
		err = errors.New("the server refuses it")
	}
	if err != nil {
		return backend.Lock{}, errors.Join(fmt.Errorf("writing who holds the lock: %w", err),
			b.release(ctx, workspace, id))
	}
	checking, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &heldLock{id: id, lost: make(chan struct{}), stop: stop, done: make(chan struct{})}
	b.mu.Lock()
	former := b.held[workspace]
	b.held[workspace] = h
	b.mu.Unlock()
	if former != nil { // it was lost, or the key could not have been acquired
		former.stop()
		<-former.done
	}
	go b.keepLock(checking, h, b.below(workspace, lockName), begun)
	return backend.Lock{ID: id, Lost: h.lost}, nil
}

// acquire acquires the lock's key for a session. The error is *journal.Held if another session has it.
func (b *store) acquire(ctx context.Context, workspace, id string) error {
	key := b.below(workspace, lockName)
	begun := time.Now()
	var query url.Values
	for {
		at, err := b.client.get(ctx, key, query)
		switch {
		case err != nil:
			return fmt.Errorf("reading the lock: %w", err)
		case at != nil && at.Flags != lockFlags:
			return fmt.Errorf("the key %q exists, but is not a lock: its flags are %d", key, at.Flags)
		case at != nil && at.Session == id: // an earlier response was lost
			return nil
		case at != nil && at.Session != "":
			left := heldWait - time.Since(begun)
			if left <= 0 {
				return b.heldBy(ctx, workspace, at.Session)
			}
			// The response comes when the key has changed, or after the wait.
			wait := strconv.FormatInt(max(1, left.Milliseconds()), 10) + "ms"
			query = url.Values{"index": {strconv.FormatUint(at.ModifyIndex, 10)}, "wait": {wait}}
			continue
		}
		query = nil
		ok, err := b.client.put(ctx, key, url.Values{"acquire": {id}, "flags": {strconv.FormatUint(lockFlags, 10)}},
			nil)
		if err != nil {
			return fmt.Errorf("taking the lock: %w", err)
		}
		if ok {
			return nil
		}
		if time.Since(begun) >= delayWait {
			return b.heldBy(ctx, workspace, "")
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}

// heldBy returns the error about another session's lock. If there is no lock information yet, only the session's ID
// is known.
func (b *store) heldBy(ctx context.Context, workspace, session string) error {
	holder, err := b.holder(ctx, workspace)
	if err != nil {
		return fmt.Errorf("the state is locked, and the holder of the lock cannot be read: %w", err)
	}
	if holder == nil || session != "" && holder.ID != session { // left by a killed process
		holder = &journal.LockInfo{ID: session, Path: b.key(workspace), Info: "consul session: " + session}
		if session == "" {
			holder.Info = "the delay after the end of a session that held the lock"
		}
	}
	return &journal.Held{Holder: *holder}
}

// holder reads the lock information; nil if there is none.
func (b *store) holder(ctx context.Context, workspace string) (*journal.LockInfo, error) {
	at, err := b.client.get(ctx, b.below(workspace, infoName), nil)
	if err != nil || at == nil {
		return nil, err
	}
	info, err := backend.DecodeLock(at.Value)
	return &info, err
}

// keepLock renews the session, and detects the loss of the lock: if the session has ended, if the key no longer
// belongs to it, or if it could not be renewed for its TTL, after which Consul may end it at any moment.
func (b *store) keepLock(ctx context.Context, h *heldLock, key string, renewed time.Time) {
	defer close(h.done)
	defer h.stop()
	next := sessionTTL / 2
	for sleep.For(ctx, next) == nil {
		begun := time.Now()
		within, cancel := context.WithTimeout(ctx, max(time.Second, sessionTTL-begun.Sub(renewed)))
		alive, err := b.client.renewSession(within, h.id)
		if err == nil && alive {
			var at *pair
			if at, err = b.client.get(within, key, nil); err == nil {
				alive = at != nil && at.Session == h.id
			}
			renewed = begun
		}
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && alive:
			next = sessionTTL / 2
			continue
		case err != nil && time.Since(renewed) < sessionTTL:
			next = pause
			continue
		}
		close(h.lost)
		return
	}
}

// Unlock implements backend.Backend. Another process's lock is broken only if it has this ID, which OpenTofu does
// not check. The check and the removal are one transaction, before the end of the session, so that Consul's delay
// does not affect the next holder.
func (b *store) Unlock(ctx context.Context, workspace, lockID string) error {
	if !b.lock {
		return nil
	}
	b.mu.Lock()
	h := b.held[workspace]
	if h != nil && h.id == lockID {
		delete(b.held, workspace)
	} else {
		h = nil
	}
	b.mu.Unlock()
	if h != nil {
		h.stop()
		<-h.done
	}
	lock, err := b.client.get(ctx, b.below(workspace, lockName), nil)
	if err != nil {
		return err
	}
	holder, err := b.holder(ctx, workspace)
	if err != nil {
		return err
	}
	switch owned := lock != nil && lock.Session != ""; {
	case owned && lock.Session != lockID:
		return fmt.Errorf("%w: %s; the lock is %s%s", backend.ErrNotLocked, lockID, lock.Session,
			by(holder, lock.Session))
	case !owned && (holder == nil || holder.ID != lockID):
		return fmt.Errorf("%w: %s; there is no such lock", backend.ErrNotLocked, lockID)
	}
	return b.release(ctx, workspace, lockID)
}

func by(holder *journal.LockInfo, session string) string {
	if holder == nil || holder.ID != session {
		return ""
	}
	return " of " + holder.Who
}

// release removes a session's keys, and ends it. It is not cancelled, and does not change other sessions' locks.
func (b *store) release(ctx context.Context, workspace, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	lock, info := b.below(workspace, lockName), b.below(workspace, infoName)
	_, err := b.client.transact(ctx, operation{Verb: "check-session", Key: lock, Session: id},
		operation{Verb: "delete", Key: info}, operation{Verb: "delete", Key: lock})
	var gone *rolledBack
	if errors.As(err, &gone) { // it does not have the lock; its lock information may remain
		err = b.sweep(ctx, workspace, id)
	}
	return errors.Join(err, b.client.destroySession(ctx, id))
}

// sweep deletes the lock information of a session that ended without releasing its lock.
func (b *store) sweep(ctx context.Context, workspace, id string) error {
	at, err := b.client.get(ctx, b.below(workspace, infoName), nil)
	if err != nil || at == nil {
		return err
	}
	if info, err := backend.DecodeLock(at.Value); err != nil || info.ID != id {
		return nil //nolint:nilerr // it belongs to another session
	}
	_, err = b.client.transact(ctx, operation{Verb: "delete-cas", Key: at.Key, Index: at.ModifyIndex})
	var changed *rolledBack
	if errors.As(err, &changed) {
		return nil
	}
	return err
}
