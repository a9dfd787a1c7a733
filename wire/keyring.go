package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"

	"github.com/nats-io/nkeys"
)

// Keys stores run keys: one for each pool that a run uses, sealed for the curve key of each recipient. It is durable,
// so that a worker finds the key of a task whose coordinator is down, and has nothing in the clear. The keys of each
// pool are separate, because its workers can read no others.
type Keys interface {
	// PutKey returns when the sealed key is stored; one that is there already is replaced.
	PutKey(ctx context.Context, pool, run, recipient string, sealed []byte) error
	// GetKey returns the sealed key or ErrNotFound.
	GetKey(ctx context.Context, pool, run, recipient string) ([]byte, error)
}

// Keyring shares run keys. A coordinator creates the key of a run for each pool that the run uses, and shares it with
// the workers of that pool, which open it. The curve key pair of a worker is only in memory. That of a coordinator is
// stored outside of the state's directory, because a resumed run needs it again. A Keyring is safe for concurrent use.
type Keyring struct {
	keys Keys
	self nkeys.KeyPair
	pub  string
	rand io.Reader

	mu     sync.Mutex // guards the maps
	open   map[scope]*Sealer
	shared map[grant]bool // what the register holds, as far as this process knows
}

// scope identifies a key.
type scope struct{ pool, run string }

func (s scope) String() string { return fmt.Sprintf("run %s for pool %s", s.run, s.pool) }

type grant struct {
	scope
	recipient string
}

// NewKeyring returns a ring around a curve key pair (nkeys.CreateCurveKeys). rand must be safe for concurrent use.
func NewKeyring(keys Keys, self nkeys.KeyPair, rand io.Reader) (*Keyring, error) {
	pub, err := self.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("reading the own curve key: %w", err)
	}
	if !nkeys.IsValidPublicCurveKey(pub) {
		return nil, fmt.Errorf("the own key %s is no curve key", pub)
	}
	return &Keyring{keys: keys, self: self, pub: pub, rand: rand, open: map[scope]*Sealer{}, shared: map[grant]bool{}},
		nil
}

// PublicKey is what others seal run keys to.
func (k *Keyring) PublicKey() string { return k.pub }

// Create makes the key of a run for a pool. It returns when the register holds it, sealed for this ring: from then on
// Open finds it after a crash.
func (k *Keyring) Create(ctx context.Context, pool, run string) (*Sealer, error) {
	s, err := NewSealer(k.rand)
	if err != nil {
		return nil, err
	}
	of := scope{pool, run}
	if err := k.put(ctx, grant{of, k.pub}, s); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[of] = s
	return s, nil
}

// Open returns the key of a run for a pool, from memory or from the register. It returns ErrNoKey where the register
// has none for this ring.
func (k *Keyring) Open(ctx context.Context, pool, run string) (*Sealer, error) {
	of := scope{pool, run}
	k.mu.Lock()
	s := k.open[of]
	k.mu.Unlock()
	if s != nil {
		return s, nil
	}
	sealed, err := k.keys.GetKey(ctx, pool, run, k.pub)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNoKey
	}
	if err != nil {
		return nil, fmt.Errorf("fetching the key of %s: %w", of, err)
	}
	if s, err = k.unseal(of, sealed); err != nil {
		return nil, fmt.Errorf("opening the key of %s: %w", of, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[of] = s
	return s, nil
}

// Share seals a key that this ring has for a recipient. Repeating it costs nothing. Call it for the live workers of a
// pool before the pool's first task, and for those that appear later. The caller checks that they are workers of the
// pool.
func (k *Keyring) Share(ctx context.Context, pool, run, recipient string) error {
	to := grant{scope{pool, run}, recipient}
	k.mu.Lock()
	s, done := k.open[to.scope], k.shared[to]
	k.mu.Unlock()
	if done {
		return nil
	}
	if s == nil {
		return fmt.Errorf("sharing the key of %s: %w", to.scope, ErrNoKey)
	}
	return k.put(ctx, to, s)
}

// Forget removes the keys of a finished run from memory. Queue.PurgeRun removes them from the register.
func (k *Keyring) Forget(run string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.open, func(s scope, _ *Sealer) bool { return s.run == run })
	maps.DeleteFunc(k.shared, func(g grant, _ bool) bool { return g.run == run })
}

// The sealed form is the sender's public key (56 characters) and an nkeys box of the AES key and the subject under
// which the box is stored for whoever it is sealed for, so that one key cannot be passed off as that of another run or
// pool.
const publicKeySize = 56

func (k *Keyring) put(ctx context.Context, to grant, s *Sealer) error {
	if !nkeys.IsValidPublicCurveKey(to.recipient) {
		return fmt.Errorf("sharing the key of %s: %q is no public curve key", to.scope, to.recipient)
	}
	box, err := k.self.SealWithRand(append(s.key[:], KeySubject(to.pool, to.run, to.recipient)...),
		to.recipient, k.rand)
	if err != nil {
		return fmt.Errorf("sealing the key of %s: %w", to.scope, err)
	}
	if err := k.keys.PutKey(ctx, to.pool, to.run, to.recipient, append([]byte(k.pub), box...)); err != nil {
		return fmt.Errorf("storing the key of %s: %w", to.scope, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shared[to] = true
	return nil
}

func (k *Keyring) unseal(of scope, sealed []byte) (*Sealer, error) {
	if len(sealed) < publicKeySize {
		return nil, ErrNotAuthentic
	}
	sender := string(sealed[:publicKeySize])
	if !nkeys.IsValidPublicCurveKey(sender) {
		return nil, ErrNotAuthentic
	}
	plain, err := k.self.Open(sealed[publicKeySize:], sender)
	if err != nil || len(plain) < runKeySize || string(plain[runKeySize:]) != KeySubject(of.pool, of.run, k.pub) {
		return nil, ErrNotAuthentic
	}
	return newSealer(plain[:runKeySize], k.rand)
}
