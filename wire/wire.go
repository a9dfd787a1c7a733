// Package wire says what travels between coordinator, NATS and workers: subjects, messages, their codecs, the
// contracts of the transport.
//
// wire/jet implements the contracts over NATS JetStream, wire/mem in memory; wire/wiretest is the suite that
// both pass. The package decides nothing: it starts no operation and holds no state. The rules that the
// contracts rest on are in docs/adr/ under the name of the protocol.
package wire

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/trace"
)

// Conditions that callers handle.
var (
	// ErrNoWorker means that no live worker serves the pool.
	ErrNoWorker = errors.New("no live worker serves the pool")
	// ErrLostCall means that a fast-lane call went out and no answer came; it may be repeated.
	ErrLostCall = errors.New("the call was lost")
	// ErrNotFound means that a blob, a claim or a key does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDisconnected means that the transport cannot be reached at the moment; nothing was sent.
	ErrDisconnected = errors.New("not connected to NATS")
	// ErrPermitLost means that another coordinator freed a permit, having resolved what ran under it: nothing more may
	// be started under it.
	ErrPermitLost = errors.New("the permit was freed by another coordinator")
	// ErrLeft is a cause to end the context of Semaphore.Acquire with: the request is left as it is, for another
	// process to make it again.
	ErrLeft = errors.New("the request is left to another process")
	// ErrStale means that a task was fetched so long ago that it may not be claimed any more: its run may be over, and
	// its register emptied. Release the task.
	ErrStale = errors.New("the task was fetched too long ago")
	// ErrDenied means that NATS does not permit this user what an operation needs.
	ErrDenied = errors.New("not permitted by NATS")
	// ErrStore means that the message store can be reached, but stores nothing: its disk is full or broken, a limit of
	// a stream is reached, or the server still refuses writes because an earlier one failed. What was sent may be
	// stored all the same.
	ErrStore = errors.New("the message store does not store what it is sent")
	// ErrUnanswered means that the transport is connected and no answer came, as while a cluster elects a leader. What
	// was asked may have been done all the same.
	ErrUnanswered = errors.New("NATS did not answer")
	// ErrRegressed means that the transport lost data that it had acknowledged: dispatch must freeze.
	ErrRegressed = errors.New("the message store lost acknowledged data")
)

// Transport is all the contracts over one connection. Close ends its goroutines and the connection.
type Transport interface {
	Queue
	Hands
	Claims
	Semaphore
	Blobs
	PoolBlobs
	Keys
	Caller
	Presence
	Close() error
}

// AttemptID names one try to carry one vertex out; it is unique for ever.
type AttemptID string

// TaskRef names an attempt with what its subject needs.
type TaskRef struct {
	Pool        string
	Coordinator string
	Run         string
	Attempt     AttemptID
}

// Delivery is one message of the queue. It is delivered again unless Ack succeeds.
type Delivery interface {
	Ref() TaskRef
	Data() []byte
	// Sequence is the position in the stream; it only grows while the store loses nothing.
	Sequence() uint64
	// Ack confirms; it returns when the server has taken notice (a double ack). After an error the message may come
	// again; that harms nothing, because the claim, and the attempt's id, tell it from a new one.
	Ack(ctx context.Context) error
	// Release gives the message back for somebody else. It is offered again after a quarter of a second, so that a
	// worker that cannot take it does not spin.
	Release(ctx context.Context) error
}

// Traced is a Delivery that tells under which span it was sent; the zero value where the sender records none. Nothing
// rests on it.
type Traced interface{ Trace() trace.Context }

// Queue is the safe lane: durable tasks to pools, durable results to coordinators.
type Queue interface {
	// PublishTask returns when the stream has stored the task. Publishing the same attempt again is harmless.
	PublishTask(ctx context.Context, ref TaskRef, data []byte) error
	// FetchTasks waits until at least one task of the pool is there, or ctx ends, and returns at most n.
	FetchTasks(ctx context.Context, pool string, n int) ([]Delivery, error)
	// PublishResult returns when the stream has stored the result.
	PublishResult(ctx context.Context, ref TaskRef, data []byte) error
	// FetchResults waits until at least one result for the coordinator is there and returns at most n.
	FetchResults(ctx context.Context, coordinator string, n int) ([]Delivery, error)
	// PurgeRun removes what a finished run left: tasks, results, keys, spilled messages, requests for permits and the
	// permits that processes which are gone held for it. Its registers stay blocked for as long as a worker may hold a
	// task that it fetched before.
	PurgeRun(ctx context.Context, run string) error
	// HighWater returns the last sequences and the identity (creation times) of the task and result streams, and of the
	// registers of the pools that are named, so that a coordinator notices a store that lost its tail. It returns
	// ErrStore while a stream takes no writes.
	HighWater(ctx context.Context, pools []string) (HighWater, error)
}

// Hands gives a task to one worker directly. Nothing of it is durable, and nothing rests on it: whoever cannot hand a
// task over publishes it, and of two who have it only one wins its claim.
type Hands interface {
	// HandTask offers the task to a worker of the pool that has kept a slot since an attempt of the same vertex. It
	// returns nil when the worker has taken it. After an error the worker may have it nevertheless.
	HandTask(ctx context.Context, worker string, after AttemptID, ref TaskRef, data []byte) error
	// TakeHanded calls take for each task of the pool that is offered to the worker, until ctx ends. take says whether
	// it has taken the task, and does not keep the caller waiting for more than that.
	TakeHanded(ctx context.Context, pool, worker string, take func(after AttemptID, d Delivery) bool) error
}

// ErrNotTaken means that the worker to whom a task was offered has kept no slot for it.
var ErrNotTaken = errors.New("the worker has kept no slot for the task")

// Claim is the content of an attempt's write-once register.
type Claim struct {
	Nonce  string    `msgpack:"n"`
	Worker string    `msgpack:"w,omitempty"`
	At     time.Time `msgpack:"t"`
	// Tombstone says that nobody may ever start the attempt. A coordinator sets it, or a worker (whom Worker names
	// then) that is not given the key to read the task with.
	Tombstone bool   `msgpack:"x,omitempty"`
	Reason    string `msgpack:"r,omitempty"`
}

// Claims is the write-once register per attempt.
type Claims interface {
	// Claim writes c unless the register holds something. It returns the register's content afterwards: the
	// caller won exactly when the nonce is its own. An error means that nothing is known. A nonce is for one handling
	// of one delivery, never used again.
	Claim(ctx context.Context, ref TaskRef, c Claim) (Claim, error)
	// ReadClaim returns the register's content from the stream's leader, or ErrNotFound.
	ReadClaim(ctx context.Context, ref TaskRef) (Claim, error)
}

// Limit is one semaphore.
type Limit struct {
	Name  string `msgpack:"n"`
	Slots int    `msgpack:"s"`
}

// DefaultLimit names the limit that covers every vertex; -parallelism sets its slots.
const DefaultLimit = "default"

// poolLimits begins the names of the limits that count places in pools.
const poolLimits = "pool/"

// PoolLimit names the limit that counts the places in a pool: its size follows the slots of the live workers.
func PoolLimit(pool string) string { return poolLimits + pool }

// LimitedPool is the inverse of PoolLimit; ok tells whether the limit is such a one.
func LimitedPool(limit string) (pool string, ok bool) { return strings.CutPrefix(limit, poolLimits) }

// PermitRequest says who asks.
type PermitRequest struct {
	ID          string    `msgpack:"i"`
	Coordinator string    `msgpack:"c"`
	Run         string    `msgpack:"r"`
	At          time.Time `msgpack:"t"`
}

// Permit is one held slot of a limit. It stays held until Release, whatever dies: a permit whose process died is
// offered again to the same request (Acquire with the same ID).
type Permit interface {
	Limit() string
	Request() PermitRequest
	// Confirm tells whether the permit is still held, before something is started under it. It is free while this
	// process has been awake and connected; after a pause it asks. It returns ErrPermitLost when another coordinator
	// has freed the permit, and another error when nothing is known.
	Confirm(ctx context.Context) error
	// Release frees the slot; it returns when the server has taken notice. After an error the slot may still be taken;
	// it is freed in the background, or found again by Acquire or OnOrphan.
	Release(ctx context.Context) error
	// Leave has this process let go of the permit as if it had died: the slot stays taken until it is released by the
	// same request, asked for again by this process or another one, or OnOrphan frees it. The permit is of no use from
	// then on.
	Leave()
}

// Orphan decides about a permit whose request nobody answers for: its coordinator is gone, or has forgotten it. It
// returns true when everything that ran, or may yet start, under the permit is resolved (by tombstones, by the state,
// by a deadline); then the slot is freed. Else the permit stays held, and is offered again later. It may take as long
// as its context lives.
type Orphan func(ctx context.Context, limit string, r PermitRequest) (free bool)

// LimitStatus is what `limits` shows.
type LimitStatus struct {
	Limit
	Held    []PermitRequest
	Waiting []PermitRequest
}

// Semaphore is the global semaphore: permits across all runs and coordinators.
type Semaphore interface {
	// DeclareLimit creates the limit if it does not exist and returns it as it is now (the existing one wins).
	DeclareLimit(ctx context.Context, l Limit) (Limit, error)
	// ResizeLimit changes the slots of a limit while runs go on.
	ResizeLimit(ctx context.Context, l Limit) error
	// Acquire queues the request (first in, first out) and waits for its permit or the end of ctx. A request that is
	// given up (ctx ended) is withdrawn, and with it the permit that an earlier process held under its name; unless
	// ErrLeft is the cause. One that fails before ctx ends is left as it is too, for the caller to make it again: what
	// an earlier process began may still run under that name.
	Acquire(ctx context.Context, limit string, r PermitRequest) (Permit, error)
	// Contended tells whether other requests than those of the given run wait for the limit.
	Contended(ctx context.Context, limit, run string) (bool, error)
	Limits(ctx context.Context) ([]LimitStatus, error)
	// OnOrphan sets who decides about orphaned permits that this connection comes across; nil leaves them held. Set it
	// before the first Acquire.
	OnOrphan(fn Orphan)
}

// Blobs keeps large payloads by the lower-case hex SHA-256 of their content.
type Blobs interface {
	PutBlob(ctx context.Context, sha256 string, data []byte) error
	// GetBlob returns verified content or ErrNotFound.
	GetBlob(ctx context.Context, sha256 string) ([]byte, error)
	HasBlob(ctx context.Context, sha256 string) (bool, error)
	// NameBlob binds a name (a provider package for a platform, say) to a blob; LookupBlob finds it or ErrNotFound.
	NameBlob(ctx context.Context, name, sha256 string) error
	LookupBlob(ctx context.Context, name string) (string, error)
}

// PoolBlobs gives the workers of each pool a place of their own for large payloads, so that no pool can touch what is
// another's: workers read Blobs and write PoolBlobs of the pool that they work for, coordinators do it the other way.
type PoolBlobs interface {
	// PoolBlobs returns the blobs of a pool's workers, valid for as long as the connection.
	PoolBlobs(pool string) Blobs
}

// Caller is the fast lane: calls to some worker of a pool, nothing persisted.
type Caller interface {
	// Call sends the request to one worker of the pool and waits for the answer. It returns ErrNoWorker at
	// once when nobody serves the pool, ErrLostCall when the answer is lost: the worker has given no sign of life for
	// four seconds. Where every worker is busy it waits. Progress travels by Presence.Emit.
	Call(ctx context.Context, pool string, data []byte) ([]byte, error)
	// Serve answers calls to the pool with handle, at most slots at a time, until ctx ends; then it finishes those that
	// run. Calls run on goroutines of their own, which Serve waits for; the context that handle gets ends only with the
	// connection, and its current span is that of the call's. Calls beyond slots go to other workers.
	Serve(ctx context.Context, pool string, slots int, handle func(ctx context.Context, data []byte) []byte) error
}

// Presence tells who is alive, and carries control messages and live events. Nothing of it is durable.
type Presence interface {
	// Beat publishes a heartbeat for each pool of b, in the name of that pool.
	Beat(ctx context.Context, b Heartbeat) error
	// Connected tells for how long the connection has been up without a break; 0 when it is down. A missing heartbeat
	// means something only when this is longer than the time it is missing for.
	Connected() time.Duration
	// Workers returns the last heartbeat of each worker in each of its pools, with the time since it by this process's
	// clock. Workers that left are not among them. The first call asks all workers to announce themselves, and waits a
	// moment.
	Workers(ctx context.Context) ([]Worker, error)
	// WatchWorkers calls fn for every heartbeat until ctx ends; fn must not block. What it gets has passed
	// ReadHeartbeat: it is about one pool, and comes from somebody who may speak for that pool, though not from the
	// worker for certain.
	WatchWorkers(ctx context.Context, fn func(Heartbeat)) error
	// Control sends a control message to all workers of a pool ("" for all pools).
	Control(ctx context.Context, pool string, c Control) error
	WatchControl(ctx context.Context, pool string, fn func(Control)) error
	// Emit publishes a live event of a run (progress lines of operations) in the name of a pool; Events receives those
	// of all pools, with the pool that the event came from. Events of more than MaxEvent bytes are dropped.
	Emit(ctx context.Context, pool, run string, data []byte) error
	Events(ctx context.Context, run string, fn func(pool string, data []byte)) error
}

// Heartbeat is what a worker says of itself once a second. Draining workers take nothing new.
type Heartbeat struct {
	Worker string `msgpack:"w"`
	// Pools are all that the worker serves where it makes the heartbeat, and exactly one where it is received.
	Pools    []string `msgpack:"p"`
	Slots    int      `msgpack:"s"`
	Running  int      `msgpack:"r"`
	Version  string   `msgpack:"v"`
	Protocol int      `msgpack:"pv"`
	Platform string   `msgpack:"pl"` // os_arch
	Draining bool     `msgpack:"d,omitempty"`
	Leaving  bool     `msgpack:"l,omitempty"`
	// Trouble says why the worker takes no tasks although it is alive, such as a disk without room; empty while it
	// takes them.
	Trouble string `msgpack:"t,omitempty"`
	// OwnEnvironment tells that the worker refuses tasks that bring an environment.
	OwnEnvironment bool `msgpack:"oe,omitempty"`
	// PublicKey is the worker's curve public key: run keys are sealed to it.
	PublicKey string `msgpack:"k,omitempty"`
	Host      string `msgpack:"h,omitempty"`
	// Attempts are those that the worker has claimed, and has not reported yet.
	Attempts []AttemptID `msgpack:"a,omitempty"`
	// Identity is the public nkey of the worker's NATS user, and Proof its signature of the worker's name and
	// PublicKey; both are empty for a worker that connects without an nkey. See Proven.
	Identity string `msgpack:"i,omitempty"`
	Proof    []byte `msgpack:"pf,omitempty"`
}

// Worker is a worker as last seen.
type Worker struct {
	Heartbeat
	Since time.Duration
}

// Control is a message to workers.
type Control struct {
	// Kind is "stop" (ask providers of the run's operations to stop), "cancel" (start nothing more of the run)
	// "announce" (send a heartbeat now) or "warm" (be ready for Providers; see there). A coordinator heeds "cancel"
	// too, and there Run may also be the name of the coordinator: whatever it runs.
	Kind string `msgpack:"k"`
	Run  string `msgpack:"r,omitempty"`
	// Providers are those that a run will ask ("warm"): workers fetch and start them, unconfigured.
	Providers []Provider `msgpack:"p,omitempty"`
}
