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

// liarPool is the pool that the liar may work for. The objects in it may be damaged; those outside must not.
const liarPool = "east"

// lied reports whether a pool is the liar's.
func (w *world) lied(pool string) bool { return w.options.liar && pool == liarPool }

// liar is a worker of one pool that knows all attempts of all pools, and says about them whatever it likes:
// heartbeats, claims, tombstones and results, of which some are sealed with the keys that it is given. NATS holds
// it to the subjects of its pool. It has chance of its own.
type liar struct {
	w      *world
	chance *rand.Rand
	rand   io.Reader
	ring   *wire.Keyring
	lies   int
}

// registers are the keys as the server has them, without a way there.
type registers struct{ n *nats }

func (r registers) PutKey(context.Context, string, string, string, []byte) error {
	panic("sim: nobody asks")
}

func (r registers) GetKey(_ context.Context, pool, run, recipient string) ([]byte, error) {
	sealed := r.n.keys[wire.KeySubject(pool, run, recipient)]
	return sealed, found(sealed != nil)
}

// liarNames are the names that it takes: one of its own, and that of an honest worker of another pool.
var liarNames = []string{"liar", "w1"}

func (w *world) addLiar() {
	l := &liar{w: w, chance: rand.New(rand.NewPCG(w.seed, 3)), rand: seeded(fmt.Sprintf("liar %d", w.seed))}
	var err error
	if l.ring, err = wire.NewKeyring(registers{w.nats}, keyPair("liar"), l.rand); err != nil {
		panic(err)
	}
	w.nats.liarKey = l.ring.PublicKey()
	w.after(time.Second, l.lie)
}

// lie says something that is not true, again and again, until the weather is calm: then it is found out, and put away.
func (l *liar) lie() {
	w := l.w
	if w.calm {
		for _, pool := range w.options.pools {
			for _, name := range liarNames {
				delete(w.nats.workers, wire.HeartbeatSubject(pool, name))
			}
		}
		return
	}
	l.lies++
	w.faults["lies"]++
	kind := l.chance.IntN(8)
	if len(w.nats.known) == 0 {
		kind = 0
	}
	var ref wire.TaskRef
	if kind > 0 {
		recent := w.nats.known[max(0, len(w.nats.known)-12):]
		ref = recent[l.chance.IntN(len(recent))]
	}
	as := liarPool
	if l.chance.IntN(2) == 0 {
		as = w.options.pools[l.chance.IntN(len(w.options.pools))]
		if kind > 0 {
			as = ref.Pool
		}
	}
	// NATS lets nobody publish under the subjects of a pool that it does not work for.
	if as == liarPool || w.options.without == guardSubject {
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
	w.after(100*time.Millisecond+time.Duration(l.chance.Int64N(int64(900*time.Millisecond))), l.lie)
}

func (l *liar) name() string { return liarNames[l.chance.IntN(len(liarNames))] }

// beat says that all attempts there are lie with this worker.
func (l *liar) beat(pool string) {
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
	w.note("the liar: %s lives, and has everything", subject)
	w.nats.workers[subject] = seen{heard, time.Now()}
	w.nats.tell(false, heard)
}

// claim takes an attempt, or says that nobody may start it.
func (l *liar) claim(ref wire.TaskRef) {
	c := wire.Claim{
		Nonce: fmt.Sprintf("lie%d", l.lies), Worker: l.name(), At: time.Now(),
		Tombstone: l.chance.IntN(2) == 0, Reason: "it is said",
	}
	l.w.note("the liar: claims %s, tombstone %v", wire.ClaimSubject(ref), c.Tombstone)
	l.w.nats.claim(ref, c)
}

// swallow takes a task and does nothing about it.
func (l *liar) swallow(pool string) {
	done := false
	l.w.nats.tasks.remove(func(m *message) bool {
		take := !done && m.ref.Pool == pool
		done = done || take
		if take {
			l.w.note("the liar: swallows the task of %s", m.ref.Attempt)
		}
		return take
	})
}

// result returns the result of an attempt.
func (l *liar) result(ref wire.TaskRef) {
	w := l.w
	claim := w.nats.claims[wire.ClaimSubject(ref)]
	if claim.Nonce == "" && l.chance.IntN(2) == 0 {
		claim = w.nats.claim(ref, wire.Claim{Nonce: fmt.Sprintf("lie%d", l.lies), Worker: l.name(), At: time.Now()})
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
			"id": cty.StringVal(fmt.Sprintf("lie%d", l.lies)), "name": cty.StringVal(fmt.Sprintf("s1-%s99-1", liarPool)),
			"size": cty.NumberIntVal(1), "refs": cty.ListValEmpty(cty.String),
		})
		data, err := msgpack.Marshal(object, thingSchema.Block.ImpliedType())
		if err != nil {
			panic(err)
		}
		r.Apply = &wire.ApplyResult{Object: data, SchemaVersion: 1}
	}
	ctx := context.Background()
	sealer, err := l.ring.Open(ctx, ref.Pool, ref.Run) // where it has no key, it says so in the clear
	packer := wire.Packer{Run: ref.Run, Sealer: sealer, Rand: l.rand}
	packed, perr := packer.Pack(ctx, wire.ResultSubject(ref), wire.EncodeResult(r))
	if perr != nil {
		panic(perr)
	}
	w.note("the liar: result %s, sealed %v", wire.ResultSubject(ref), err == nil)
	w.nats.results.publish(ref, packed, "")
	w.nats.results.messages[len(w.nats.results.messages)-1].forged = true
}

// mustNotFailForLies checks that a run without operations in the liar's pool does not fail because of messages from
// there.
func (s *site) mustNotFailForLies(said string) {
	w := s.w
	failed := strings.Contains(said, "protocol between coordinator and workers")
	if failed && w.options.liar && !w.options.loss && s != w.sites[0] {
		w.violate("trust", "%s, which has nothing in pool %s, failed for what is said there: %s", s.name, liarPool, said)
	}
}
