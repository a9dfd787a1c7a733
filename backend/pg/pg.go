// Package pg stores snapshots in a PostgreSQL database, compatible with OpenTofu's backend "pg".
//
// A workspace is a row; its lock is an advisory lock of a database session, which the server releases when the
// session ends for any reason.
package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/lib/pq"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// pingEvery is the interval of checks whether the session that holds a lock still exists.
const pingEvery = 10 * time.Second

type store struct {
	db *sql.DB
	// where is the database, without a password; table is the quoted name of the table.
	where, table string
	// creation is the key of the lock under which the rows of new workspaces are created.
	creation int64

	mu   sync.Mutex // guards held and the fields of its locks
	held map[string]*heldLock
}

// heldLock is a lock of this process. It has its own session, because another session could not release it.
type heldLock struct {
	id      string
	key     int64
	session *sql.Conn
	stop    context.CancelFunc
	done    chan struct{}
	// writing is held while the session writes, which may take longer than a ping.
	writing sync.Mutex
}

// creationKey returns the key of the lock that guards new rows: the negative FNV-1 hash of schema and table.
func creationKey(schema, table string) int64 {
	h := fnv.New32()
	_, _ = h.Write([]byte(schema + "\x00" + table)) // never fails
	return -int64(h.Sum32())
}

// Describe implements backend.Backend.
func (b *store) Describe(workspace string) backend.Description {
	return backend.Description{Where: b.where + " " + workspace, Form: tfstate.Compact}
}

// Close closes the sessions; with them their locks end.
func (b *store) Close() error {
	b.mu.Lock()
	held := b.held
	b.held = map[string]*heldLock{}
	b.mu.Unlock()
	var errs []error
	for _, h := range held {
		if h.session != nil { // otherwise it is only reserved, without a session
			h.stop()
			<-h.done
			errs = append(errs, closeSession(h.session))
		}
	}
	return errors.Join(append(errs, b.db.Close())...)
}

// Read implements backend.Backend.
func (b *store) Read(ctx context.Context, workspace string) ([]byte, error) {
	var data sql.NullString
	err := b.db.QueryRowContext(ctx, "SELECT data FROM "+b.table+" WHERE name = $1", workspace).Scan(&data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case data.String == "":
		return nil, nil
	}
	return []byte(data.String), nil
}

// Write implements backend.Backend. The row is committed, and so durable, when Write returns. While this process
// holds the workspace's lock, the session of the lock writes: if it has ended, the lock is lost, and nothing is
// written.
func (b *store) Write(ctx context.Context, workspace string, data []byte) error {
	statement := "INSERT INTO " + b.table + " (name, data) VALUES ($1, $2) " +
		"ON CONFLICT (name) DO UPDATE SET data = EXCLUDED.data"
	b.mu.Lock()
	h := b.held[workspace]
	own := h != nil && h.session != nil
	b.mu.Unlock()
	if !own {
		_, err := b.db.ExecContext(ctx, statement, workspace, string(data))
		return err
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	_, err := h.session.ExecContext(ctx, statement, workspace, string(data))
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return fmt.Errorf("the database session that held the lock has ended, and the lock with it: %w", err)
	}
	return err
}

// Lock implements backend.Backend. A workspace with a row is locked by the row's id, one without by the key under
// which rows are created. The database does not store the information about a lock, so the holder in journal.Held is
// the database session that has the lock: its ID is the number of the server process.
func (b *store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	h := &heldLock{}
	if !b.reserve(workspace, h) {
		return backend.Lock{}, &journal.Held{Holder: info}
	}
	lock, err := b.lock(ctx, workspace, info, h)
	if err != nil {
		b.take(workspace, "")
	}
	return lock, err
}

// reserve records that this process is about to lock a workspace. It returns false if it has done so already.
func (b *store) reserve(workspace string, h *heldLock) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[workspace] != nil {
		return false
	}
	b.held[workspace] = h
	return true
}

// take removes the lock of this process with an ID, empty for one that is only reserved; nil if there is none.
func (b *store) take(workspace, id string) *heldLock {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.held[workspace]
	if h == nil || h.id != id {
		return nil
	}
	delete(b.held, workspace)
	return h
}

// lock takes the lock for which h is reserved.
func (b *store) lock(ctx context.Context, workspace string, info journal.LockInfo, h *heldLock) (backend.Lock,
	error) {
	session, err := b.db.Conn(ctx)
	if err != nil {
		return backend.Lock{}, err
	}
	key, locked, err := b.lockSession(ctx, session, workspace)
	if err != nil || !locked {
		if err == nil {
			err = refusal(ctx, session, key)
		}
		return backend.Lock{}, errors.Join(err, closeSession(session))
	}
	checking, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.mu.Lock()
	h.id, h.key, h.session, h.stop, h.done = info.ID, key, session, stop, make(chan struct{})
	b.mu.Unlock()
	lost := make(chan struct{})
	go h.checkSession(checking, lost)
	return backend.Lock{ID: info.ID, Lost: lost}, nil
}

// lockSession takes the lock of a workspace in a session, and returns its key. If it fails, nothing stays locked.
func (b *store) lockSession(ctx context.Context, session *sql.Conn, workspace string) (key int64, locked bool,
	err error) {
	var row, creation bool
	err = session.QueryRowContext(ctx, "SELECT id, pg_try_advisory_lock(id), pg_try_advisory_lock($2) FROM "+b.table+
		" WHERE name = $1", workspace, b.creation).Scan(&key, &row, &creation)
	if errors.Is(err, sql.ErrNoRows) {
		err = session.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", b.creation).Scan(&locked)
		return b.creation, locked, err
	}
	if err != nil {
		return 0, false, err
	}
	if creation {
		if err := unlockSession(ctx, session, b.creation); err != nil {
			return 0, false, err
		}
	} else if row { // another process is creating a workspace, possibly this one
		return b.creation, false, unlockSession(ctx, session, key)
	}
	return key, row, nil
}

func unlockSession(ctx context.Context, session *sql.Conn, key int64) error {
	var was bool
	err := session.QueryRowContext(ctx, "SELECT pg_advisory_unlock($1)", key).Scan(&was)
	if err == nil && !was {
		err = fmt.Errorf("the session does not hold the advisory lock %d any more", key)
	}
	return err
}

// checkSession detects the end of the session: then the server has released the lock.
func (h *heldLock) checkSession(ctx context.Context, lost chan<- struct{}) {
	defer close(h.done)
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !h.writing.TryLock() {
			continue // a session that writes exists, and reports its end itself
		}
		within, cancel := context.WithTimeout(ctx, pingEvery)
		err := h.session.PingContext(within)
		cancel()
		h.writing.Unlock()
		if err != nil && ctx.Err() == nil {
			close(lost)
			return
		}
	}
}

// Unlock implements backend.Backend. Another session's lock ends with that session: the error names it.
func (b *store) Unlock(ctx context.Context, workspace, lockID string) error {
	var h *heldLock
	if lockID != "" {
		h = b.take(workspace, lockID)
	}
	if h == nil {
		return b.foreign(ctx, workspace, lockID)
	}
	h.stop()
	<-h.done
	return errors.Join(unlockSession(ctx, h.session, h.key), closeSession(h.session))
}

// closeSession closes the session instead of returning it to the pool, so that it keeps no lock.
func closeSession(session *sql.Conn) error {
	err := session.Raw(func(any) error { return errEnd })
	if errors.Is(err, errEnd) || errors.Is(err, sql.ErrConnDone) {
		err = nil
	}
	if closed := session.Close(); closed != nil && !errors.Is(closed, sql.ErrConnDone) {
		err = errors.Join(err, closed)
	}
	return err
}

// foreign returns an error with the session that holds the lock to release.
func (b *store) foreign(ctx context.Context, workspace, lockID string) error {
	key := b.creation
	err := b.db.QueryRowContext(ctx, "SELECT id FROM "+b.table+" WHERE name = $1", workspace).Scan(&key)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	switch s, err := holder(ctx, b.db, key); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: %s; there is no lock on the workspace", backend.ErrNotLocked, lockID)
	case err != nil:
		return err
	default:
		return fmt.Errorf("%w: %s; a lock of this backend ends with the database session that took it, which is that "+
			"of the server process %d (user %q, from %q). End that command, or have an administrator end the session "+
			"with pg_terminate_backend(%[3]d)", backend.ErrNotLocked, lockID, s.pid, s.user.String, s.address.String)
	}
}

// refusal returns the error for a lock that another session has: *journal.Held, or that of the database.
func refusal(ctx context.Context, own *sql.Conn, key int64) error {
	s, err := holder(ctx, own, key)
	if err != nil && !errors.Is(err, sql.ErrNoRows) { // without a row, the lock has just been released
		return err
	}
	who := s.user.String
	if s.address.Valid {
		who += "@" + s.address.String
	}
	return &journal.Held{Holder: journal.LockInfo{
		ID: strconv.Itoa(s.pid), Who: who, Created: s.start.Time, Path: strconv.FormatInt(key, 10),
		Info: "The ID is the number of the server process. The database stores no other information about a lock.",
	}}
}

// holdingSession is the session that has a lock. Columns that the user may not see are null.
type holdingSession struct {
	pid           int // of the server process
	user, address sql.NullString
	start         sql.NullTime
}

// holder returns the session that has a lock, or sql.ErrNoRows. It asks through db, a session or all of them.
func holder(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, key int64,
) (holdingSession, error) {
	var s holdingSession
	err := db.QueryRowContext(ctx, "SELECT l.pid, a.usename, host(a.client_addr), a.backend_start FROM pg_locks l "+
		"LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted "+
		"AND (l.classid::bigint << 32) | l.objid::bigint = $1 "+
		"AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())",
		key).Scan(&s.pid, &s.user, &s.address, &s.start)
	return s, err
}

// Workspaces implements backend.Backend.
func (b *store) Workspaces(ctx context.Context) ([]string, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT name FROM "+b.table+" WHERE name <> $1 ORDER BY name COLLATE \"C\"",
		journal.DefaultWorkspace)
	if err != nil {
		return nil, err
	}
	defer rows.Close() // Next has closed them, or there is another error
	names := []string{journal.DefaultWorkspace}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// Create implements backend.Backend. It writes an empty state, as OpenTofu does.
func (b *store) Create(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	empty, err := backend.EmptyState()
	if err != nil {
		return err
	}
	_, err = b.db.ExecContext(ctx, "INSERT INTO "+b.table+" (name, data) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
		workspace, string(empty))
	return err
}

// Delete implements backend.Backend.
func (b *store) Delete(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace || workspace == "" {
		return backend.ErrDefault
	}
	_, err := b.db.ExecContext(ctx, "DELETE FROM "+b.table+" WHERE name = $1", workspace)
	return err
}

// errEnd makes database/sql remove a session from its pool.
var errEnd = driver.ErrBadConn

func quote(name string) string { return pq.QuoteIdentifier(name) }
