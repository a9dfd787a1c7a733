package estate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// SharedStores lets several operations of one process work on one state at the same time: they share its store, and an
// apply locks the objects that it touches instead of the whole state. Safe for concurrent use; the zero value is ready.
type SharedStores struct {
	mu    sync.Mutex // guards homes
	homes map[string]*sharedHome
}

// sharedHome is a home whose store several operations share.
type sharedHome struct {
	// settling is held while an operation settles runs that others have left.
	settling contextMutex
	// ending is held from the end of a version until the snapshot has that version, so that the snapshot gets every
	// version.
	ending contextMutex

	asking sync.Mutex      // guards asked
	asked  map[string]bool // requests of operations of this process that have the state open

	opening contextMutex // guards the fields below, and is held while the store is opened or closed
	users   int
	store   *openedStore
	texts   *tfstate.Texts // of the snapshots that were written since the store was opened
	// adopted is the version of the snapshot whose changes by others the store has adopted; see Sharing.Snapshot.
	adopted string
}

func (h *SharedStores) home(path string) *sharedHome {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.homes == nil {
		h.homes = map[string]*sharedHome{}
	}
	if h.homes[path] == nil {
		h.homes[path] = &sharedHome{
			settling: make(contextMutex, 1), ending: make(contextMutex, 1), opening: make(contextMutex, 1),
		}
	}
	return h.homes[path]
}

// contextMutex is a mutex: a caller stops waiting for it when its context ends.
type contextMutex chan struct{}

// lock locks it. If ctx ends first, lock returns the cause.
func (h contextMutex) lock(ctx context.Context) error {
	select {
	case h <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock locks it if it is not locked.
func (h contextMutex) tryLock() bool {
	select {
	case h <- struct{}{}:
		return true
	default:
		return false
	}
}

func (h contextMutex) unlock() { <-h }

// Sharing says how an operation shares a state with others of its process.
type Sharing struct {
	Stores *SharedStores
	// Request is the ID of the operation's request for locks. An operation that continues after a crash has the same one.
	Request string
	// Who is the name of the requester.
	Who string
	// Once: no process will continue an interrupted operation under this request.
	Once bool
	// Alive reports whether some process works on the request, or will continue it. The next operation settles the
	// others.
	Alive func(request string) bool
	// Snapshot is the current version of the snapshot. The store looks for changes by others only if it has
	// changed; empty means unknown.
	Snapshot string
	// Waits is called whenever the requests that the operation waits for change, with an empty list when it continues. It
	// may be nil.
	Waits func([]locks.Blocker)
}

// open returns the store of a home. The first user opens it.
func (h *sharedHome) open(ctx context.Context, e *Estate, at storeAt, info journal.LockInfo,
	timeout time.Duration) (*openedStore, diag.List) {
	if err := h.opening.lock(ctx); err != nil {
		return nil, diag.Errors("Operation interrupted", "The operation was stopped while it waited for the state "+
			"store.", nil)
	}
	defer h.opening.unlock()
	var diags diag.List
	if h.users == 0 {
		store, more := e.openStore(ctx, at, info, writes, timeout)
		if diags = more; diags.HasErrors() {
			return nil, diags
		}
		h.store, h.adopted, h.texts = store, "", &tfstate.Texts{}
	}
	h.users++
	return &openedStore{Store: h.store.Store, home: h.store.home, server: h.store.server, shared: h}, diags
}

// leave closes the store after its last user.
func (h *sharedHome) leave() diag.List {
	h.opening <- struct{}{}
	defer h.opening.unlock()
	if h.users--; h.users > 0 {
		return nil
	}
	store := h.store
	h.store, h.texts = nil, nil
	return store.close()
}

// openShared is openStateAs for a shared state. The service has locked the snapshot for all of them.
func (s *Opened) openShared(ctx context.Context, f StateOptions) diag.List {
	e := s.estate
	at, diags := e.storeFor(f, s.backend)
	if diags.HasErrors() {
		return diags
	}
	s.sharing, s.home = f.Sharing, f.Sharing.Stores.home(at.Path())
	if f.Sharing.Who != "" {
		s.info.Who = f.Sharing.Who
	}
	store, diags := s.home.open(ctx, e, at, s.info, f.LockTimeout)
	if diags.HasErrors() {
		return diags
	}
	s.store = store
	s.sync = &backend.Sync{Store: store, Backend: s.backend, Version: e.EngineVersion, Texts: s.home.texts}
	err := s.ensureWorkspace(ctx)
	if err == nil {
		err = s.pullShared(ctx)
	}
	if err != nil {
		return diags.Append(e.unreadable(err, true), store.close())
	}
	return diags
}

// pullShared adopts changes that others have made to the snapshot: a person may push a state while an operation that
// does not lock the workspace has the store open. While a run has locks, nobody else can change the snapshot.
func (s *Opened) pullShared(ctx context.Context) error {
	// A version that has ended is in the snapshot only after it is pushed. Reading the snapshot before that, and
	// the mark after it, would mistake the older snapshot for a change by others, and revert that version.
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.giveTurn()
	if err := s.home.opening.lock(ctx); err != nil {
		return err
	}
	defer s.home.opening.unlock()
	if v := s.sharing.Snapshot; v != "" && v == s.home.adopted {
		return nil
	}
	err := s.store.Lock(ctx, s.Workspace, s.info)
	var held *journal.Held
	if errors.As(err, &held) {
		return nil
	}
	if err == nil {
		_, err = s.sync.Pull(ctx, s.Workspace, s.info.ID)
		err = errors.Join(err, s.store.Unlock(context.WithoutCancel(ctx), s.Workspace, s.info.ID))
	}
	if err == nil {
		s.home.adopted = s.sharing.Snapshot
	}
	if err == nil && s.store.server != nil {
		s.store.server.Pulled()
	}
	return err
}

// runStore returns the store for runs.
func (s *Opened) runStore() journal.Store {
	if s.sharing == nil {
		return s.store
	}
	return turnStore{s.store, s}
}

// turnStore serializes the ends of runs: the snapshot has a version before the next one ends.
type turnStore struct {
	journal.Store
	opened *Opened
}

// Commit implements journal.Store.
func (t turnStore) Commit(ctx context.Context, tx journal.Commit) error {
	if tx.EndVersion {
		if err := t.opened.takeTurn(ctx); err != nil {
			return err
		}
	}
	return t.Store.Commit(ctx, tx)
}

// takeTurn waits until no other operation is ending a version.
func (s *Opened) takeTurn(ctx context.Context) error {
	if s.sharing == nil || s.turn {
		return nil
	}
	err := s.home.ending.lock(ctx)
	s.turn = err == nil
	return err
}

func (s *Opened) giveTurn() {
	if s.turn {
		s.turn = false
		s.home.ending.unlock()
	}
}

// registerRequest records whether a request belongs to an operation of this process.
func (h *sharedHome) registerRequest(request string, registered bool) {
	h.asking.Lock()
	defer h.asking.Unlock()
	if h.asked == nil {
		h.asked = map[string]bool{}
	}
	h.asked[request] = registered
	if !registered {
		delete(h.asked, request)
	}
}

func (h *sharedHome) isOurs(request string) bool {
	h.asking.Lock()
	defer h.asking.Unlock()
	return h.asked[request]
}

// ask requests locks under the operation's request ID.
func (s *Opened) ask(ctx context.Context, set locks.Set) error {
	// pullShared must not lock the whole state meanwhile.
	if err := s.home.opening.lock(ctx); err != nil {
		return err
	}
	defer s.home.opening.unlock()
	s.home.registerRequest(s.sharing.Request, true)
	s.asked = true
	return s.store.AskLocks(ctx, s.Workspace, locks.Request{ID: s.sharing.Request, Who: s.info.Who,
		Operation: s.info.Operation, At: s.estate.Now().UTC(), Set: set})
}

// leaveLocks withdraws the operation's request, unless it will be continued: an interrupted run, or a plan that was
// stopped while it waited.
func (s *Opened) leaveLocks(ctx context.Context) diag.List {
	if !s.asked {
		return nil
	}
	defer s.home.registerRequest(s.sharing.Request, false)
	ctx = context.WithoutCancel(ctx)
	all, err := s.store.LockRequests(ctx, s.Workspace)
	for _, q := range all {
		if q.ID != s.sharing.Request || err != nil {
			continue
		}
		leave := s.sharing.Once || !s.estate.Stop.Asked()
		if q.Run != "" {
			var run journal.Run
			run, _, err = s.store.RunPlan(ctx, q.Run)
			leave = err == nil && run.Over() || errors.Is(err, journal.ErrNoRun)
		}
		if leave {
			err = s.store.LeaveLocks(ctx, s.Workspace, q.ID)
		}
	}
	s.asked, s.LockID = false, ""
	return releasing(err)
}

// lookEvery is the interval at which a waiting operation checks whether the holders of locks have ended.
const lookEvery = 2 * time.Second

// lockFor locks the objects that a plan needs, and returns the plan for the state at that time. The errors name the
// changes of others on which the plan depends.
func (r *Operation) lockFor(ctx context.Context, p *plan.Plan) (*plan.Plan, diag.List) {
	var has locks.Set
	for try := 0; ; try++ {
		fit, diags := r.fit(ctx, p)
		if diags.HasErrors() {
			return nil, diags
		}
		needs, more := r.Engine.Session.Locks(ctx, fit)
		if diags = diags.Append(more); diags.HasErrors() {
			return nil, diags
		}
		const most = 3
		if len(r.adopted) > 0 || try == most { // the state keeps changing: lock it as a whole
			needs = locks.Set{locks.All: locks.Write}
		}
		if has != nil && has.Covers(needs) {
			return fit, diags
		}
		for o, m := range has {
			needs.Add(o, m)
		}
		if more := r.lock(ctx, needs); more.HasErrors() {
			return nil, diags.Append(more)
		}
		has = needs
		prior, more := r.State.Load(ctx)
		if diags = diags.Append(more); diags.HasErrors() {
			return nil, diags
		}
		r.adopted = r.estate.succession(r.Config.Tree, prior)
		prior.Apply(r.adopted...)
		r.Prior = prior
	}
}

// LockAll locks the whole state for an operation that shares it, and loads it again. A state that is not shared is
// already locked.
func (r *Operation) LockAll(ctx context.Context) diag.List {
	if r.State.sharing == nil {
		return nil
	}
	diags := r.lock(ctx, locks.Set{locks.All: locks.Write})
	if diags.HasErrors() {
		return diags
	}
	prior, more := r.State.Load(ctx)
	if diags = diags.Append(more); !diags.HasErrors() {
		r.Prior = prior
	}
	return diags
}

// lock requests locks and waits for them.
func (r *Operation) lock(ctx context.Context, set locks.Set) diag.List {
	s := r.State
	stopped := diag.Errors("Operation interrupted", "The plan waited for locks, and was stopped. None of its changes "+
		"were made.", nil)
	if r.estate.Stop.Asked() {
		return stopped
	}
	if err := s.ask(ctx, set); err != nil {
		return diag.Errors("Error acquiring the state lock", err.Error()+".", nil)
	}
	waited := r.estate.waiting(ctx)
	granted, diags := s.await(ctx, waited, func(list []locks.Blocker) { r.waits(list, waitText(list)) },
		func() diag.List { return r.settleLeft(ctx, false) })
	if !granted && !diags.HasErrors() {
		return stopped
	}
	return diags
}

// await waits until the requested locks are granted, or until waited ends. It calls waits whenever the reason for
// waiting changes, with nil at the end, and check from time to time, unless it is nil.
func (s *Opened) await(ctx, waited context.Context, waits func([]locks.Blocker), check func() diag.List) (
	granted bool, diags diag.List) {
	told := ""
	for {
		short, cancel := context.WithTimeout(waited, lookEvery)
		blockers, err := s.store.LockBlockers(ctx, s.Workspace, s.sharing.Request, maxBlockers)
		if text := waitText(blockers); err == nil && text != told {
			told = text
			waits(blockers)
		}
		if err == nil && len(blockers) == 0 {
			short = ctx // they are granted, even if waited has ended
		}
		if err == nil {
			err = s.store.AwaitLocks(short, s.Workspace, s.sharing.Request)
		}
		cancel()
		switch {
		case err == nil:
			if told != "" {
				waits(nil)
			}
			s.LockID = s.sharing.Request
			return true, nil
		case waited.Err() != nil:
			return false, nil
		case !errors.Is(err, context.DeadlineExceeded):
			return false, diag.Errors("Error acquiring the state lock", err.Error()+".", nil)
		}
		if check == nil {
			continue
		}
		if diags := check(); diags.HasErrors() {
			return false, diags
		}
	}
}

// waiting returns the context for waiting: it ends with a request to stop.
func (e *folder) waiting(ctx context.Context) context.Context {
	if e.Stop.Stopping != nil {
		return e.Stop.Stopping
	}
	return ctx
}

// maxBlockers is the most objects that a message names as the reason for waiting.
const maxBlockers = 10

func waitText(list []locks.Blocker) string {
	text := ""
	for _, b := range list {
		text += "  - " + b.String() + "\n"
	}
	return text
}

// waits shows the user, and passes to Sharing.Waits, what the operation waits for.
func (r *Operation) waits(list []locks.Blocker, text string) {
	if r.State.sharing.Waits != nil {
		r.State.sharing.Waits(list)
	}
	if text != "" {
		r.watch.Note("Waiting for what others change:\n" + text)
	}
}

// Requested returns the run that was started under the operation's request ID, and its plan; nil if there is none.
// It may have ended: the process may have been killed, or failed to write the snapshot, before it reported the end.
// As with Asked, a run that ended before any of it was started counts as none.
func (e *Estate) Requested(ctx context.Context, f StateOptions) (run *journal.Run, saved *planfile.Saved,
	diags diag.List) {
	at, diags := e.storeFor(f, nil)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	store, diags := f.Sharing.Stores.home(at.Path()).open(ctx, e, at, e.lockInfo(""), f.LockTimeout)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	defer func() { diags = diags.Append(store.close()) }()
	id, err := requested(ctx, store, e.Workspace(), f.Sharing.Request)
	switch {
	case err != nil:
		return nil, nil, diag.Errors("Failed to read the runs", err.Error()+".", nil)
	case id == "":
		return nil, nil, nil
	}
	return begun(ctx, store, id)
}

// requested returns the ID of the run that has a request for locks, or had it until it ended; empty if there is
// none.
func requested(ctx context.Context, store journal.Store, workspace, request string) (string, error) {
	all, err := store.LockRequests(ctx, workspace)
	if err != nil {
		return "", err
	}
	for _, q := range all {
		if q.ID == request && q.Run != "" {
			return q.Run, nil
		}
	}
	runs, err := store.Runs(ctx, workspace)
	if err != nil {
		return "", err
	}
	for _, r := range runs {
		if r.Request == request && r.Over() {
			return r.ID, nil
		}
	}
	return "", nil
}
