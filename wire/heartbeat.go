package wire

import (
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"
)

// What a message without a stream may measure. Whoever may publish under a pool's subjects may be hostile, and
// everybody who listens decodes what comes.
const (
	// MaxHeartbeat is the size of a heartbeat; it has room for the attempts of some thousand operations.
	MaxHeartbeat = 128 << 10
	// MaxEvent is the size of a live event.
	MaxEvent = 256 << 10
	// MaxClaim is the size of the content of a register.
	MaxClaim = 8 << 10
	// MaxText is the size of each text in a heartbeat.
	MaxText = 512
	// maxAttempts bounds what a heartbeat lists.
	maxAttempts = 4096
	// maxSlots is more than any worker can use.
	maxSlots = 1 << 16
)

// ErrForged means that a message says something else than its subject, which is what NATS lets its sender say.
var ErrForged = errors.New("the message does not agree with its subject")

var errUnreasonable = errors.New("the heartbeat lists more, or says it at greater length, than any worker does")

// ReadHeartbeat reads a heartbeat and holds it against its subject: it must be about the worker and the one pool that
// the subject names, and be of a reasonable size.
func ReadHeartbeat(subject string, data []byte) (Heartbeat, error) {
	t, err := parseTokens(subject, 3)
	if err != nil || t[0] != "hb" {
		return Heartbeat{}, fmt.Errorf("%q is not the subject of a heartbeat", subject)
	}
	if len(data) > MaxHeartbeat {
		return Heartbeat{}, fmt.Errorf("the heartbeat has %d bytes", len(data))
	}
	h, err := DecodeHeartbeat(data)
	if err != nil {
		return Heartbeat{}, err
	}
	switch {
	case len(h.Pools) != 1 || h.Pools[0] != t[1] || h.Worker != t[2]:
		return Heartbeat{}, ErrForged
	case h.Worker == "" || len(h.Attempts) > maxAttempts || h.Slots < 0 || h.Slots > maxSlots:
		return Heartbeat{}, errUnreasonable
	}
	for _, text := range []string{h.Worker, h.Pools[0], h.Version, h.Platform, h.PublicKey, h.Host, h.Identity,
		h.Trouble, string(h.Proof)} {
		if len(text) > MaxText {
			return Heartbeat{}, errUnreasonable
		}
	}
	return h, nil
}

// For returns the heartbeat as it is published in the name of one of the worker's pools.
func (h Heartbeat) For(pool string) Heartbeat {
	h.Pools = []string{pool}
	return h
}

// Prove signs a worker's name and its curve key with the nkey of its NATS user, and returns what a heartbeat carries.
func Prove(user nkeys.KeyPair, worker, publicKey string) (identity string, proof []byte, err error) {
	if identity, err = user.PublicKey(); err != nil {
		return "", nil, fmt.Errorf("reading the nkey of the NATS user: %w", err)
	}
	if proof, err = user.Sign(proofOf(worker, publicKey)); err != nil {
		return "", nil, fmt.Errorf("signing the worker's key: %w", err)
	}
	return identity, proof, nil
}

// Proven tells whether the owner of the nkey in Identity has signed the heartbeat's name and curve key. Replaying such
// a heartbeat gains an attacker nothing: only the worker can open what is sealed for its curve key.
func (h Heartbeat) Proven() bool {
	if !nkeys.IsValidPublicUserKey(h.Identity) {
		return false
	}
	user, err := nkeys.FromPublicKey(h.Identity)
	return err == nil && user.Verify(proofOf(h.Worker, h.PublicKey), h.Proof) == nil
}

func proofOf(worker, publicKey string) []byte {
	return []byte("millipede worker key\x00" + worker + "\x00" + publicKey)
}
