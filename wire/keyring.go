package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/nats-io/nkeys"
)

// Keys is the register of run keys, each sealed for one recipient's curve key. It is durable, so that a worker finds
// the key of a task whose coordinator is down, and holds nothing in the clear.
type Keys interface {
	// PutKey returns when the sealed key is stored; one that is there already is replaced.
	PutKey(ctx context.Context, run, recipient string, sealed []byte) error
	// GetKey returns the sealed key or ErrNotFound.
	GetKey(ctx context.Context, run, recipient string) ([]byte, error)
}

// Keyring hands run keys over. A coordinator creates a run's key and shares it with each worker whose heartbeat names a
// public key; a worker opens it. The own key pair of a worker lives in memory only; that of a coordinator lives
// outside the state's directory, because what it opens is needed again to resume a run. A Keyring is safe for
// concurrent use.
type Keyring struct {
	keys Keys
	self nkeys.KeyPair
	pub  string
	rand io.Reader

	mu     sync.Mutex // guards the maps
	open   map[string]*Sealer
	shared map[[2]string]bool // run and recipient that the register holds, as far as this process knows
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
	return &Keyring{keys: keys, self: self, pub: pub, rand: rand, open: map[string]*Sealer{}, shared: map[[2]string]bool{}}, nil
}

// PublicKey is what others seal run keys to.
func (k *Keyring) PublicKey() string { return k.pub }

// Create makes the key of a new run. It returns when the register holds it, sealed for this ring: from then on Open
// finds it after a crash.
func (k *Keyring) Create(ctx context.Context, run string) (*Sealer, error) {
	s, err := NewSealer(k.rand)
	if err != nil {
		return nil, err
	}
	if err := k.put(ctx, run, k.pub, s); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[run] = s
	return s, nil
}

// Open returns the key of a run, from memory or from the register. It returns ErrNoKey where the register has none for
// this ring.
func (k *Keyring) Open(ctx context.Context, run string) (*Sealer, error) {
	k.mu.Lock()
	s := k.open[run]
	k.mu.Unlock()
	if s != nil {
		return s, nil
	}
	sealed, err := k.keys.GetKey(ctx, run, k.pub)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNoKey
	}
	if err != nil {
		return nil, fmt.Errorf("fetching the key of run %s: %w", run, err)
	}
	if s, err = k.unseal(run, sealed); err != nil {
		return nil, fmt.Errorf("opening the key of run %s: %w", run, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[run] = s
	return s, nil
}

// Share seals the key of an open run for a recipient. Sharing again is free. Call it for every live worker of a pool
// before the pool's first task, and for those that appear later.
func (k *Keyring) Share(ctx context.Context, run, recipient string) error {
	k.mu.Lock()
	s, done := k.open[run], k.shared[[2]string{run, recipient}]
	k.mu.Unlock()
	if done {
		return nil
	}
	if s == nil {
		return fmt.Errorf("sharing the key of run %s: %w", run, ErrNoKey)
	}
	return k.put(ctx, run, recipient, s)
}

// Forget drops what the ring knows of a finished run; the register is emptied by Queue.PurgeRun.
func (k *Keyring) Forget(run string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, run)
	for id := range k.shared {
		if id[0] == run {
			delete(k.shared, id)
		}
	}
}

// The sealed form is the sender's public key (56 characters) and an nkeys box of the AES key and the run's name.
const publicKeySize = 56

func (k *Keyring) put(ctx context.Context, run, recipient string, s *Sealer) error {
	if !nkeys.IsValidPublicCurveKey(recipient) {
		return fmt.Errorf("sharing the key of run %s: %q is no public curve key", run, recipient)
	}
	box, err := k.self.SealWithRand(append(s.key[:], run...), recipient, k.rand)
	if err != nil {
		return fmt.Errorf("sealing the key of run %s: %w", run, err)
	}
	if err := k.keys.PutKey(ctx, run, recipient, append([]byte(k.pub), box...)); err != nil {
		return fmt.Errorf("storing the key of run %s: %w", run, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shared[[2]string{run, recipient}] = true
	return nil
}

func (k *Keyring) unseal(run string, sealed []byte) (*Sealer, error) {
	if len(sealed) < publicKeySize {
		return nil, ErrNotAuthentic
	}
	sender := string(sealed[:publicKeySize])
	if !nkeys.IsValidPublicCurveKey(sender) {
		return nil, ErrNotAuthentic
	}
	plain, err := k.self.Open(sealed[publicKeySize:], sender)
	if err != nil || len(plain) < runKeySize || string(plain[runKeySize:]) != run {
		return nil, ErrNotAuthentic
	}
	return newSealer(plain[:runKeySize], k.rand)
}
