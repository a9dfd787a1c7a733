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
	// PutKeys stores a key for up to MaxRecipients recipients at once: for all of them or for none.
	PutKeys(ctx context.Context, pool, run string, sealed []SealedKey) error
	// GetKey returns the sealed key or ErrNotFound.
	GetKey(ctx context.Context, pool, run, recipient string) ([]byte, error)
	// PurgeKeys removes the keys of a run for a pool. Queue.PurgeRun removes more than keys.
	PurgeKeys(ctx context.Context, pool, run string) error
}

// MaxRecipients is the maximum number of keys of one PutKeys: together they have less than 16 KiB, the bound of a
// message of keys, even with the longest name of a pool.
const MaxRecipients = 32

// SealedKey is the key of a run for a pool, sealed for one recipient.
type SealedKey struct {
	Recipient string `msgpack:"r"` // a public curve key
	Sealed    []byte `msgpack:"s"`
}

// EncodeSealedKeys encodes the keys of one PutKeys for a transport that stores them as one message.
func EncodeSealedKeys(list []SealedKey) []byte { return marshal(&list) }

// DecodeSealedKeys is the inverse of EncodeSealedKeys.
func DecodeSealedKeys(data []byte) ([]SealedKey, error) {
	return unmarshalAs[[]SealedKey]("keys", data)
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
	shared map[grant]bool // the content of the register, as far as this process knows
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

// PublicKey is the key to which others seal run keys.
func (k *Keyring) PublicKey() string { return k.pub }

// Create makes the key of a run for a pool, and shares it with recipients, at most MaxRecipients - 1; see Share. It
// returns when the register holds the key, sealed for this ring as well: from then on Open finds it after a crash.
func (k *Keyring) Create(ctx context.Context, pool, run string, recipients ...string) (*Sealer, error) {
	s, err := NewSealer(k.rand)
	if err != nil {
		return nil, err
	}
	of := scope{pool, run}
	var list []SealedKey
	for _, recipient := range append([]string{k.pub}, recipients...) {
		sealed, err := k.seal(grant{of, recipient}, s)
		if err != nil {
			return nil, err
		}
		list = append(list, SealedKey{recipient, sealed})
	}
	if err := k.keys.PutKeys(ctx, pool, run, list); err != nil {
		return nil, fmt.Errorf("storing the key of %s: %w", of, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[of] = s
	for _, stored := range list {
		k.shared[grant{of, stored.Recipient}] = true
	}
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
// pool before the pool's first task, unless Create had them, and for those that appear later. The caller checks that
// they are workers of the pool.
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

// Purge removes the keys of a run for a pool from the register, for a run whose keys are all that the register still
// has.
func (k *Keyring) Purge(ctx context.Context, pool, run string) error {
	return k.keys.PurgeKeys(ctx, pool, run)
}

// The sealed form is the sender's public key (56 characters) and an nkeys box. The box contains the AES key and the
// subject under which the box is stored for its recipient, so that one key cannot be passed off as that of another run
// or pool.
const publicKeySize = 56

func (k *Keyring) seal(to grant, s *Sealer) ([]byte, error) {
	if !nkeys.IsValidPublicCurveKey(to.recipient) {
		return nil, fmt.Errorf("sharing the key of %s: %q is no public curve key", to.scope, to.recipient)
	}
	box, err := k.self.SealWithRand(append(s.key[:], KeySubject(to.pool, to.run, to.recipient)...),
		to.recipient, k.rand)
	if err != nil {
		return nil, fmt.Errorf("sealing the key of %s: %w", to.scope, err)
	}
	return append([]byte(k.pub), box...), nil
}

func (k *Keyring) put(ctx context.Context, to grant, s *Sealer) error {
	sealed, err := k.seal(to, s)
	if err != nil {
		return err
	}
	if err := k.keys.PutKey(ctx, to.pool, to.run, to.recipient, sealed); err != nil {
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
