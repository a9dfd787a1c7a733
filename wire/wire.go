// Package wire defines the protocol between coordinators, NATS and workers: subjects, messages, their codecs, and the
// contracts of the transport.
//
// wire/jet implements the contracts over NATS JetStream, wire/mem in memory; wire/wiretest is the suite that both pass.
// The package decides nothing: it starts no operation and holds no state. docs/adr/ gives the reasons for the rules of
// the protocol.
package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/trace"
)

// Conditions that callers handle.
var (
	// ErrNoWorker means that no live worker serves the pool.
	ErrNoWorker = errors.New("no live worker serves the pool")
	// ErrLostCall means that a call on the fast lane was sent and got no answer; it may be repeated.
	ErrLostCall = errors.New("the call was lost")
	// ErrOverdue means that a call on the fast lane was given up: the workers gave signs of life, or said that they were
	// busy, for longer than the operation may take.
	ErrOverdue = errors.New("no answer came in time")
	// ErrNotFound means that a blob, a claim or a key does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDisconnected means that the transport cannot be reached at the moment; nothing was sent.
	ErrDisconnected = errors.New("not connected to NATS")
	// ErrPermitLost means that another coordinator has released a permit, after it had resolved the operation under it. No
	// other operation may start under it.
	ErrPermitLost = errors.New("the permit was freed by another coordinator")
	// ErrLeft is a cause for ending the context of Semaphore.Acquire: the request stays in the queue, so that another
	// process can repeat it.
	ErrLeft = errors.New("the request is left to another process")
	// ErrStale means that a task was fetched so long ago that it may no longer be claimed: its run may be over, and its
	// register purged. Release the task.
	ErrStale = errors.New("the task was fetched too long ago")
	// ErrDenied means that this NATS user lacks a permission that an operation needs.
	ErrDenied = errors.New("not permitted by NATS")
	// ErrStore means that the message store can be reached but cannot store messages: its disk is full or broken, a stream
	// has reached its limit, or the server still refuses writes after an earlier failure. The message may have been stored
	// nevertheless.
	ErrStore = errors.New("the message store does not store what it is sent")
	// ErrFull is an ErrStore: a stream has reached its bound. It takes messages again when some are removed, or when it is
	// given more storage.
	ErrFull = fmt.Errorf("%w, because a stream is full", ErrStore)
	// ErrElsewhere means that another store than the one for the message has acknowledged it: a stream of another name, or
	// in another JetStream domain, has its subject. The message counts as not stored.
	ErrElsewhere = errors.New("another message store has acknowledged the message")
	// ErrUnanswered means that the transport is connected but did not answer, as while a cluster elects a leader. The
	// request may have been executed nevertheless.
	ErrUnanswered = errors.New("NATS did not answer")
	// ErrUnconfirmed means that the transport seems to have lost data, which a second answer has yet to confirm.
	ErrUnconfirmed = errors.New("the message store seems to have lost acknowledged data")
)

// Transport has all contracts over one connection. Close ends its goroutines and closes the connection.
type Transport interface {
	WorkQueue
	DirectTasks
	Claims
	Semaphore
	Blobs
	PoolBlobs
	Keys
	Caller
	Parts
	Presence
	Close() error
}

// AttemptID is the ID of one attempt to execute a task of a vertex. It is never used again.
type AttemptID string

// TaskRef identifies an attempt, with all names that its subject needs.
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
	// Ack acknowledges the message. It returns when the server has confirmed that (a double ack). After an error the
	// message may be delivered again, which is harmless: the receiver recognizes it by its claim and its attempt ID.
	Ack(ctx context.Context) error
	// Release returns the message for another receiver. It is delivered again after a quarter of a second, so that a
	// worker that cannot take it does not loop.
	Release(ctx context.Context) error
}

// Traced is a Delivery with the span that it was sent under; the zero value if the sender records none. Only tracing
// uses it.
type Traced interface{ Trace() trace.Context }

// WorkQueue is the safe lane: durable tasks to pools, durable results to coordinators.
type WorkQueue interface {
	// PublishTask returns when the stream has stored the task. Publishing the same attempt again is harmless.
	PublishTask(ctx context.Context, ref TaskRef, data []byte) error
	// FetchTasks returns up to n tasks of the pool. It waits until there is at least one, or until ctx ends.
	FetchTasks(ctx context.Context, pool string, n int) ([]Delivery, error)
	// PublishResult returns when the stream has stored the result.
	PublishResult(ctx context.Context, ref TaskRef, data []byte) error
	// FetchResults returns up to n results for the coordinator. It waits until there is at least one.
	FetchResults(ctx context.Context, coordinator string, n int) ([]Delivery, error)
	// PurgeRun removes everything of a finished run: tasks, results, keys, spilled messages, requests for permits, and
	// permits that dead processes held for it. No worker can claim an attempt of the run any more, even if it has fetched
	// the task before. pools are those that the run has used: nothing is looked for in others. Nil looks everywhere.
	PurgeRun(ctx context.Context, run string, pools []string) error
	// HighWater returns the last sequences and the identity (creation times) of the task and result streams, and of the
	// registers of the pools that are named, so that a coordinator notices a store that lost its tail. It returns
	// ErrStore while a stream takes no writes.
	HighWater(ctx context.Context, pools []string) (HighWater, error)
}

// DirectTasks passes a task directly to one worker. Nothing of this is durable. A sender that cannot pass a task on
// publishes it; if a worker then gets it twice, only one claim wins.
type DirectTasks interface {
	// HandTask offers the task to a worker of the pool that has reserved a slot since an attempt of the same vertex. It
	// returns nil if the worker has accepted the task. After an error the worker may have it nevertheless.
	HandTask(ctx context.Context, worker string, after AttemptID, ref TaskRef, data []byte) error
	// TakeHanded calls take for each task that is offered to the worker in the pool, until ctx ends. take returns whether
	// it accepts the task, and must not block.
	TakeHanded(ctx context.Context, pool, worker string, take func(after AttemptID, d Delivery) bool) error
}

// ErrNotTaken means that the worker has reserved no slot for the offered task.
var ErrNotTaken = errors.New("the worker has kept no slot for the task")

// Claim is the content of an attempt's write-once register.
type Claim struct {
	Nonce  string    `msgpack:"n"`
	Worker string    `msgpack:"w,omitempty"`
	At     time.Time `msgpack:"t"`
	// Tombstone says that no worker may ever start the attempt. A coordinator writes it, or a worker (named by Worker)
	// that cannot get the key to decrypt the task.
	Tombstone bool   `msgpack:"x,omitempty"`
	Reason    string `msgpack:"r,omitempty"`
}

// Claims is the write-once register per attempt.
type Claims interface {
	// Claim writes c unless the register has a content, and returns the content that it has then: the caller has won if
	// the nonce is its own. After an error the content is unknown. A nonce is for one handling of one delivery, and is
	// never used again.
	Claim(ctx context.Context, ref TaskRef, c Claim) (Claim, error)
	// ReadClaim returns the register's content, read from the leader of the stream, or ErrNotFound.
	ReadClaim(ctx context.Context, ref TaskRef) (Claim, error)
}

// Limit is the definition of a semaphore.
type Limit struct {
	Name  string `msgpack:"n"`
	Slots int    `msgpack:"s"`
}

// Check returns the error in a limit, for declaring and resizing limits.
func (l Limit) Check() error {
	if l.Name == "" || l.Slots < 1 {
		return fmt.Errorf("limit %q cannot have %d slots: it needs a name and at least one slot", l.Name, l.Slots)
	}
	return nil
}

// DefaultLimit names the limit that covers every vertex; -parallelism sets its slots.
const DefaultLimit = "default"

// poolLimits is the prefix of the names of limits that count places in pools.
const poolLimits = "pool/"

// PoolLimit returns the name of the limit that counts the places of a pool. Its size follows the slots of the live
// workers.
func PoolLimit(pool string) string { return poolLimits + pool }

// LimitedPool is the inverse of PoolLimit; ok is false for any other limit.
func LimitedPool(limit string) (pool string, ok bool) { return strings.CutPrefix(limit, poolLimits) }

// ParseLimit reads the change of a limit as people write it: NAME=SLOTS. The limits of places cannot be changed.
func ParseLimit(text string) (Limit, error) {
	name, number, ok := strings.Cut(text, "=")
	slots, err := strconv.Atoi(number)
	if !ok || err != nil || slots < 1 {
		return Limit{}, fmt.Errorf("%q is not a valid change of a limit: write NAME=SLOTS, with at least one slot", text)
	}
	if pool, place := LimitedPool(name); place {
		return Limit{}, fmt.Errorf("the limit %q follows the slots of the workers of pool %q: start more workers, or "+
			"give them more slots", name, pool)
	}
	return Limit{Name: name, Slots: slots}, nil
}

// PermitRequest is a request for a permit.
type PermitRequest struct {
	ID          string    `msgpack:"i"`
	Coordinator string    `msgpack:"c"`
	Run         string    `msgpack:"r"`
	At          time.Time `msgpack:"t"`
}

// Permit is a held slot of a limit. It stays held until Release, even if its process dies: the same request (Acquire
// with the same ID) then gets it again.
type Permit interface {
	Limit() string
	Request() PermitRequest
	// Confirm checks that the permit is still held, before an operation starts under it. It costs nothing while this
	// process has been awake and connected; after a pause it asks the server. It returns ErrPermitLost if another
	// coordinator has released the permit; after any other error the answer is unknown.
	Confirm(ctx context.Context) error
	// Release frees the slot. It returns when the server has confirmed that. After an error the slot may still be taken;
	// it is freed in the background, or later found by Acquire or OnAbandoned.
	Release(ctx context.Context) error
	// Leave abandons the permit without freeing the slot, as if this process had died: the slot stays taken until the same
	// request releases it, Acquire gets it again, or OnAbandoned frees it. The Permit must not be used afterwards.
	Leave()
}

// AbandonedFunc decides about a permit whose coordinator does not respond, or has forgotten it. It returns true if
// every operation that ran under the permit, or could still start, is resolved (by a tombstone, by the state, or by a
// deadline); then the slot is freed. Otherwise the permit stays held and is offered again later. It may run until its
// context ends.
type AbandonedFunc func(ctx context.Context, limit string, r PermitRequest) (free bool)

// LimitStatus is the state of a limit, as the command limits shows it.
type LimitStatus struct {
	Limit
	Held    []PermitRequest
	Waiting []PermitRequest
	// Silent has the coordinators of permits in Held whose processes do not answer.
	Silent map[string]Silence
	// Uses says what permits in Held are held for, by the ID of their request. It has those whose processes have said so.
	Uses map[string]PermitUse
}

// Silence is why a coordinator does not answer.
type Silence byte

const (
	// Gone: no process of the coordinator is connected. It has ended, or it holds no permits any more.
	Gone Silence = iota + 1
	// Mute: a process is connected, and does not answer. It may be stopped, or busy.
	Mute
)

// Semaphore has the limits, whose permits all runs and coordinators share.
type Semaphore interface {
	// DeclareLimit creates the limit if it does not exist, and returns it with the size that it has.
	DeclareLimit(ctx context.Context, l Limit) (Limit, error)
	// ResizeLimit changes the slots of a limit while runs go on.
	ResizeLimit(ctx context.Context, l Limit) error
	// Acquire queues the request (first in, first out) and waits for its permit or the end of ctx. If ctx ends, the
	// request is withdrawn, together with a permit that an earlier process held under its ID, unless the cause is ErrLeft.
	// If it fails before ctx ends, the request stays, for the caller to repeat it: an operation that an earlier process
	// started may still run under it.
	Acquire(ctx context.Context, limit string, r PermitRequest) (Permit, error)
	// Contended reports whether requests of other runs than the given one wait for the limit.
	Contended(ctx context.Context, limit, run string) (bool, error)
	Limits(ctx context.Context) ([]LimitStatus, error)
	// OnAbandoned sets the function that decides about abandoned permits that this connection finds; nil leaves them held.
	// Set it before the first Acquire.
	OnAbandoned(fn AbandonedFunc)
}

// Blobs stores large payloads under the lower-case hex SHA-256 of their content.
type Blobs interface {
	PutBlob(ctx context.Context, sha256 string, data []byte) error
	// GetBlob returns verified content or ErrNotFound.
	GetBlob(ctx context.Context, sha256 string) ([]byte, error)
	// GetBlobIf is GetBlob for content whose size somebody else has chosen: it passes the size to ok before it reads
	// the content, and returns the error of ok, if any. It never reads more than that size.
	GetBlobIf(ctx context.Context, sha256 string, ok func(bytes int64) error) ([]byte, error)
	HasBlob(ctx context.Context, sha256 string) (bool, error)
	// NameBlob gives a blob a name, such as that of a provider package for a platform. LookupBlob returns the hash for a
	// name, or ErrNotFound.
	NameBlob(ctx context.Context, name, sha256 string) error
	LookupBlob(ctx context.Context, name string) (string, error)
}

// PoolBlobs gives the workers of each pool a blob store of their own, so that no pool can change another's blobs:
// workers read Blobs and write the PoolBlobs of their pool; for coordinators it is the other way round.
type PoolBlobs interface {
	// PoolBlobs returns the blob store of a pool's workers. It is valid as long as the connection is.
	PoolBlobs(pool string) Blobs
}

// Regions is implemented by transports whose pools may have message stores of their own, in their regions.
type Regions interface {
	// Domains returns the name of the store of each pool that has one of its own, as it is set now. It returns an error if
	// that has changed since the transport used the pool, or if a store has something that belongs to another one.
	Domains(ctx context.Context) (map[string]string, error)
	// TaskBlobs returns where coordinators put what the workers of a pool read, and whether that is in a store of the
	// pool's own: otherwise it is the store of all.
	TaskBlobs(pool string) (blobs Blobs, own bool)
}

// Caller is the fast lane: calls to any worker of a pool, without persistence.
type Caller interface {
	// Call sends the request to one worker of the pool and waits for the answer. It returns ErrNoWorker at once if the
	// pool has no worker, and ErrLostCall if the worker has given no sign of life for four seconds. While all workers are
	// busy it waits. Presence.Emit carries progress.
	Call(ctx context.Context, pool string, data []byte) ([]byte, error)
	// Serve answers calls to the pool with handle, at most slots at a time, until ctx ends. Then it waits for the calls
	// that run. Each call runs on a goroutine of its own. The context of handle ends only with the connection, and its
	// current span is that of the call. Calls beyond slots go to other workers.
	Serve(ctx context.Context, pool string, slots int, handle func(ctx context.Context, data []byte) []byte) error
}

// Parts carries an answer that comes in parts: for a call of the fast lane whose answer is too large for one message,
// or should be seen before it is complete. None of it is durable.
type Parts interface {
	// TakeParts calls take for the parts that workers of the pool send to an address, one at a time, until stop is called;
	// stop waits for take. The address is a name that is used for one call only. A part is confirmed when take returns,
	// which holds back the sender, and may be passed more than once, but not after a later one.
	TakeParts(ctx context.Context, pool, address string, take func(data []byte)) (stop func(), err error)
	// SendPart sends a part, and returns when it was taken. It sends it again while it is not confirmed. It returns
	// ErrNotFound if nobody takes parts at the address (any more), and otherwise ends only with ctx or the connection.
	SendPart(ctx context.Context, pool, address string, data []byte) error
}

// Presence carries heartbeats, control messages and live events. None of them is durable.
type Presence interface {
	// Beat publishes a heartbeat for each pool of b, under the subject of that pool.
	Beat(ctx context.Context, b Heartbeat) error
	// Connected returns for how long the connection has been up without a break; 0 if it is down. A worker's silence means
	// something only if the connection has been up for longer.
	Connected() time.Duration
	// Workers returns the last heartbeat of each worker in each of its pools, with the time since then by this process's
	// clock. Workers that have left are not among them; those that have been killed are (Worker.Silent). The first call
	// asks all workers to announce themselves, and waits a moment for them.
	Workers(ctx context.Context) ([]Worker, error)
	// SubscribeHeartbeats calls fn for every heartbeat until ctx ends; fn must not block. Each heartbeat has passed
	// ReadHeartbeat: it is about one pool, and its sender may publish for that pool. Another worker of the pool may have
	// forged it.
	SubscribeHeartbeats(ctx context.Context, fn func(Heartbeat)) error
	// Control sends a control message to all workers of a pool ("" for all pools).
	Control(ctx context.Context, pool string, c Control) error
	SubscribeControl(ctx context.Context, pool string, fn func(Control)) error
	// Emit publishes a live event of a run (progress lines of operations) in the name of a pool; Events receives those
	// of all pools, with the pool that the event came from. Events of more than MaxEvent bytes are dropped.
	Emit(ctx context.Context, pool, run string, data []byte) error
	Events(ctx context.Context, run string, fn func(pool string, data []byte)) error
}

// Heartbeat is a worker's message about itself, once a second. Draining workers take no new tasks.
type Heartbeat struct {
	Worker string `msgpack:"w"`
	// Pools are all pools of the worker when it makes the heartbeat, and exactly one when it is received.
	Pools   []string `msgpack:"p"`
	Slots   int      `msgpack:"s"`
	Running int      `msgpack:"r"`
	Version string   `msgpack:"v"`
	// Protocol is the highest version of the protocol that the worker speaks; see Versions.
	Protocol int    `msgpack:"pv"`
	Platform string `msgpack:"pl"` // os_arch
	Draining bool   `msgpack:"d,omitempty"`
	Leaving  bool   `msgpack:"l,omitempty"`
	// Trouble says why a live worker takes no tasks, such as a full disk; empty while it takes them.
	Trouble string `msgpack:"t,omitempty"`
	// OwnEnvironment says that the worker refuses tasks that bring an environment.
	OwnEnvironment bool `msgpack:"oe,omitempty"`
	// PublicKey is the worker's curve public key: run keys are sealed to it.
	PublicKey string `msgpack:"k,omitempty"`
	Host      string `msgpack:"h,omitempty"`
	// Attempts are those that the worker has claimed and not yet reported.
	Attempts []AttemptID `msgpack:"a,omitempty"`
	// Identity is the public nkey of the worker's NATS user, and Proof its signature of the worker's name and
	// PublicKey; both are empty for a worker that connects without an nkey. See Proven.
	Identity string `msgpack:"i,omitempty"`
	Proof    []byte `msgpack:"pf,omitempty"`
	// Lowest is the lowest version of the protocol that the worker speaks.
	Lowest int `msgpack:"lv,omitempty"`
}

// DeadAfter is how long a worker may be silent before it counts as dead. The time counts only while this process was
// connected: otherwise each restart of the NATS server would look like the death of all workers.
const DeadAfter = 4 * time.Second

// Worker is a worker, as its last heartbeat describes it. Since is the time since that heartbeat. A worker that was
// killed sends no heartbeat that it leaves, so it stays listed: see Silent.
type Worker struct {
	Heartbeat
	Since time.Duration
}

// Silent reports whether the worker counts as dead. connected is the time for which the connection has been up; see
// Presence.Connected.
func (w Worker) Silent(connected time.Duration) bool { return min(w.Since, connected) > DeadAfter }

// Control is a message to workers.
type Control struct {
	// Kind is "stop" (ask providers of the run's operations to stop), "cancel" (start nothing more of the run), "announce"
	// (send a heartbeat now) or "warm" (start Providers). A coordinator obeys "cancel", too; there Run may also be the
	// name of the coordinator, for all its runs.
	Kind string `msgpack:"k"`
	Run  string `msgpack:"r,omitempty"`
	// Providers are those that a run will use ("warm"): workers download and start them without configuring them.
	Providers []Provider `msgpack:"p,omitempty"`
}
