package wire

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nkeys"
)

// Bounds of messages without a stream. A hostile worker may publish under its pool's subjects, and everybody who
// listens decodes the messages.
const (
	// MaxHeartbeat is the largest heartbeat in bytes, enough for the attempts of some thousand operations.
	MaxHeartbeat = 128 << 10
	// MaxEvent is the largest live event in bytes.
	MaxEvent = 256 << 10
	// MaxClaim is the largest content of a register in bytes.
	MaxClaim = 8 << 10
	// MaxText is the largest text in a heartbeat in bytes.
	MaxText = 512
	// MaxVersion is the highest version of the protocol that a message can name.
	MaxVersion = 255
	// maxAttempts is the most attempts that a heartbeat may list.
	maxAttempts = 4096
	// maxSlots is more than any worker can use.
	maxSlots = 1 << 16
)

// ErrForged means that a message contradicts its subject, which NATS has checked.
var ErrForged = errors.New("the message does not agree with its subject")

var errUnreasonable = errors.New("the heartbeat lists more, or says it at greater length, than any worker does")

var errUnprintable = errors.New("the names in the heartbeat have control characters")

// ReadHeartbeat reads a heartbeat and checks it against its subject: it must be about the worker and the one pool that
// the subject names, and keep the bounds. Otherwise the error wraps ErrForged. Its texts are shown in tables, on pages
// and in logs: names with control characters are refused, and in the other texts each is replaced.
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
	case h.Worker == "" || len(h.Attempts) > maxAttempts || h.Slots < 0 || h.Slots > maxSlots ||
		h.Protocol < 0 || h.Protocol > MaxVersion || h.Lowest < 0:
		return Heartbeat{}, errUnreasonable
	}
	for _, text := range []string{h.Worker, h.Pools[0], h.Version, h.Platform, h.PublicKey, h.Host, h.Identity,
		h.Trouble, string(h.Proof)} {
		if len(text) > MaxText {
			return Heartbeat{}, errUnreasonable
		}
	}
	for _, name := range []string{h.Worker, h.Pools[0], h.PublicKey, h.Identity} {
		if Printable(name) != name {
			return Heartbeat{}, errUnprintable
		}
	}
	for _, text := range []*string{&h.Version, &h.Platform, &h.Host, &h.Trouble} {
		*text = Printable(*text)
	}
	return h, nil
}

// Printable replaces characters that end a line, move the cursor or turn the direction of a text, and invalid UTF-8, by
// U+FFFD.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// For returns the heartbeat for one of the worker's pools.
func (h Heartbeat) For(pool string) Heartbeat {
	h.Pools = []string{pool}
	return h
}

// Prove signs a worker's name and curve key with the nkey of its NATS user. It returns the public nkey and the
// signature, for the heartbeat.
func Prove(user nkeys.KeyPair, worker, publicKey string) (identity string, proof []byte, err error) {
	if identity, err = user.PublicKey(); err != nil {
		return "", nil, fmt.Errorf("reading the nkey of the NATS user: %w", err)
	}
	if proof, err = user.Sign(proofOf(worker, publicKey)); err != nil {
		return "", nil, fmt.Errorf("signing the worker's key: %w", err)
	}
	return identity, proof, nil
}

// Proven reports whether the owner of the nkey in Identity has signed the heartbeat's name and curve key. An attacker
// gains nothing by repeating such a heartbeat: only the worker can open keys that are sealed for its curve key.
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
