package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"

	"github.com/millipede-iac/millipede/wire"
)

// byzantinePool is the pool in which the byzantine worker is permitted. Only the objects of this pool may be damaged.
const byzantinePool = "east"

// isByzantine reports whether a pool is that of the byzantine worker.
func (w *world) isByzantine(pool string) bool { return w.options.byzantine && pool == byzantinePool }

// byzantine is a worker of one pool that forges messages. It knows the attempts of all pools, and sends heartbeats,
// claims, tombstones and results about them. It encrypts some results with the keys of its pool. NATS permits it to
// publish only under the subjects of its pool. It has a separate random source.
type byzantine struct {
	w      *world
	chance *rand.Rand
	rand   io.Reader
	ring   *wire.Keyring
	// forgeries counts the forged messages.
	forgeries int
}

// registers gives access to the keys on the server, without a connection.
type registers struct{ n *nats }

func (r registers) PutKey(context.Context, string, string, string, []byte) error {
	panic("sim: the byzantine worker stores no keys")
}

func (r registers) PutKeys(context.Context, string, string, []wire.SealedKey) error {
	panic("sim: the byzantine worker stores no keys")
}

func (r registers) PurgeKeys(context.Context, string, string) error {
	panic("sim: the byzantine worker removes no keys")
}

func (r registers) GetKey(_ context.Context, pool, run, recipient string) ([]byte, error) {
	sealed := r.n.keys[wire.KeySubject(pool, run, recipient)]
	return sealed, found(sealed != nil)
}

// byzantineNames are the names that the byzantine worker uses: its own, and that of an honest worker of another pool.
var byzantineNames = []string{"byzantine", "w1"}

func (w *world) addByzantine() {
	l := &byzantine{w: w, chance: rand.New(rand.NewPCG(w.seed, 3)), rand: seeded(fmt.Sprintf("byzantine %d", w.seed))}
	var err error
	if l.ring, err = wire.NewKeyring(registers{w.nats}, keyPair("byzantine"), l.rand); err != nil {
		panic(err)
	}
	w.nats.byzantineKey = l.ring.PublicKey()
	w.after(time.Second, l.forge)
}

// forge forges a message, and schedules the next one. When no more faults are injected, the worker is removed instead.
func (l *byzantine) forge() {
	w := l.w
	if w.calm {
		for _, pool := range w.options.pools {
			for _, name := range byzantineNames {
				delete(w.nats.workers, wire.HeartbeatSubject(pool, name))
			}
		}
		return
	}
	l.forgeries++
	w.faults["forgeries"]++
	kind := l.chance.IntN(8)
	if len(w.nats.known) == 0 {
		kind = 0
	}
	var ref wire.TaskRef
	if kind > 0 {
		recent := w.nats.known[max(0, len(w.nats.known)-12):]
		ref = recent[l.chance.IntN(len(recent))]
	}
	as := byzantinePool
	if l.chance.IntN(2) == 0 {
		as = w.options.pools[l.chance.IntN(len(w.options.pools))]
		if kind > 0 {
			as = ref.Pool
		}
	}
	// NATS permits a worker to publish only under the subjects of its own pool.
	if as == byzantinePool || w.options.without == guardSubject {
		ref.Pool = as
		switch kind {
		case 0, 1:
			l.beat(as)
		case 2, 3:
			l.claim(ref)
		case 4:
			l.swallow(as)
		default:
			l.result(ref)
		}
	}
	w.after(100*time.Millisecond+time.Duration(l.chance.Int64N(int64(900*time.Millisecond))), l.forge)
}

func (l *byzantine) name() string { return byzantineNames[l.chance.IntN(len(byzantineNames))] }

// beat claims in a heartbeat that this worker executes the last attempts of all pools.
func (l *byzantine) beat(pool string) {
	w := l.w
	h := wire.Heartbeat{
		Worker: l.name(), Pools: []string{pool}, Slots: 1 + l.chance.IntN(3), Version: "sim",
		Protocol: wire.ProtocolVersion,
		Platform: "linux_amd64", PublicKey: l.ring.PublicKey(),
	}
	for _, ref := range w.nats.known[max(0, len(w.nats.known)-40):] {
		h.Attempts = append(h.Attempts, ref.Attempt)
	}
	subject := wire.HeartbeatSubject(pool, h.Worker)
	heard, err := wire.ReadHeartbeat(subject, wire.EncodeHeartbeat(h))
	if err != nil {
		panic(err)
	}
	w.note("the byzantine worker: heartbeat %s with all attempts", subject)
	w.nats.workers[subject] = seen{heard, time.Now()}
	w.nats.tell(false, heard)
}

// claim claims an attempt, or writes a tombstone for it.
func (l *byzantine) claim(ref wire.TaskRef) {
	c := wire.Claim{
		Nonce: fmt.Sprintf("forged%d", l.forgeries), Worker: l.name(), At: time.Now(),
		Tombstone: l.chance.IntN(2) == 0, Reason: "forged",
	}
	l.w.note("the byzantine worker: claims %s, tombstone %v", wire.ClaimSubject(ref), c.Tombstone)
	l.w.nats.claim(ref, c)
}

// swallow fetches a task and never executes it.
func (l *byzantine) swallow(pool string) {
	done := false
	l.w.nats.tasks.remove(func(m *message) bool {
		take := !done && m.ref.Pool == pool
		done = done || take
		if take {
			l.w.note("the byzantine worker: swallows the task of %s", m.ref.Attempt)
		}
		return take
	})
}

// result forges the result of an attempt.
func (l *byzantine) result(ref wire.TaskRef) {
	w := l.w
	claim := w.nats.claims[wire.ClaimSubject(ref)]
	if claim.Nonce == "" && l.chance.IntN(2) == 0 {
		claim = w.nats.claim(ref, wire.Claim{Nonce: fmt.Sprintf("forged%d", l.forgeries), Worker: l.name(), At: time.Now()})
	}
	r := &wire.Result{
		Attempt: ref.Attempt, Nonce: claim.Nonce, Worker: claim.Worker, Pool: ref.Pool, Started: time.Now(),
		Ended: time.Now(),
	}
	switch kind := l.chance.IntN(4); kind {
	case 0:
		r.Doubt = "nobody knows"
	case 1:
		r.NotStarted = true
	case 2:
		r.Diagnostics = []wire.Diagnostic{{Severity: 'E', Summary: "It has failed"}}
	default:
		object := cty.ObjectVal(map[string]cty.Value{
			"id":   cty.StringVal(fmt.Sprintf("forged%d", l.forgeries)),
			"name": cty.StringVal(fmt.Sprintf("s1-%s99-1", byzantinePool)),
			"size": cty.NumberIntVal(1), "refs": cty.ListValEmpty(cty.String),
		})
		data, err := msgpack.Marshal(object, thingSchema.Block.ImpliedType())
		if err != nil {
			panic(err)
		}
		r.Apply = &wire.ApplyResult{Object: data, SchemaVersion: 1}
	}
	ctx := context.Background()
	sealer, err := l.ring.Open(ctx, ref.Pool, ref.Run) // without a key for the run, the result is not encrypted
	packer := wire.Packer{Run: ref.Run, Sealer: sealer, Rand: l.rand}
	packed, perr := packer.Pack(ctx, wire.ResultSubject(ref), wire.EncodeResult(r))
	if perr != nil {
		panic(perr)
	}
	w.note("the byzantine worker: result %s, sealed %v", wire.ResultSubject(ref), err == nil)
	w.nats.results.publish(ref, packed, "")
	w.nats.results.messages[len(w.nats.results.messages)-1].forged = true
}

// mustNotFailForForgeries checks that a run without operations in the byzantine worker's pool does not fail because of
// messages of that pool.
func (s *site) mustNotFailForForgeries(said string) {
	w := s.w
	failed := strings.Contains(said, "protocol between coordinator and workers")
	if failed && w.options.byzantine && !w.options.loss && s != w.sites[0] {
		w.violate("trust", "%s, which has nothing in pool %s, failed because of messages of that pool: %s", s.name,
			byzantinePool, said)
	}
}
