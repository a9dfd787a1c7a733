package wire

import (
	"crypto/rand"
	"fmt"
	"io"
	"sync"

	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/nacl/box"
)

// maxSecrets bounds the number of secrets that a rememberedPair keeps: there are as many as other parties, but hostile
// senders may invent some.
const maxSecrets = 4096

// rememberedPair is a curve key pair that computes the secret that it shares with another party once, and its public
// key once. Each of these takes about as long as everything else about a small message.
type rememberedPair struct {
	nkeys.KeyPair
	public  string
	private *[32]byte

	mu      sync.Mutex // guards secrets
	secrets map[string]*[32]byte
}

// RememberSecrets returns a curve key pair (nkeys.CreateCurveKeys) with the keys of another one, which seals and opens
// the same messages. It is for processes that exchange many messages with few others: it keeps, in memory, the secret
// that it shares with each. Safe for concurrent use.
func RememberSecrets(pair nkeys.KeyPair) (nkeys.KeyPair, error) {
	public, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("reading the own curve key: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("reading the own curve key: %w", err)
	}
	prefix, raw, err := nkeys.DecodeSeed(seed)
	if err == nil && (prefix != nkeys.PrefixByteCurve || len(raw) != 32) {
		err = nkeys.ErrInvalidCurveSeed
	}
	if err != nil {
		return nil, fmt.Errorf("reading the own curve key: %w", err)
	}
	return &rememberedPair{KeyPair: pair, public: public, private: (*[32]byte)(raw), secrets: map[string]*[32]byte{}},
		nil
}

// PublicKey implements nkeys.KeyPair.
func (p *rememberedPair) PublicKey() (string, error) { return p.public, nil }

// secret returns the secret that the pair shares with the owner of a public key.
func (p *rememberedPair) secret(public string) (*[32]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.secrets[public]; s != nil {
		return s, nil
	}
	raw, err := nkeys.Decode(nkeys.PrefixByteCurve, []byte(public))
	if err != nil {
		return nil, err
	}
	if len(raw) != 32 {
		return nil, nkeys.ErrInvalidCurveKey
	}
	if len(p.secrets) >= maxSecrets {
		clear(p.secrets)
	}
	s := new([32]byte)
	box.Precompute(s, (*[32]byte)(raw), p.private)
	p.secrets[public] = s
	return s, nil
}

// A sealed message is the version, a nonce, and a box of NaCl.
const boxNonce = len(nkeys.XKeyVersionV1)
const boxStart = boxNonce + 24

// Seal implements nkeys.KeyPair.
func (p *rememberedPair) Seal(message []byte, recipient string) ([]byte, error) {
	return p.SealWithRand(message, recipient, rand.Reader)
}

// SealWithRand implements nkeys.KeyPair.
func (p *rememberedPair) SealWithRand(message []byte, recipient string, random io.Reader) ([]byte, error) {
	secret, err := p.secret(recipient)
	if err != nil {
		return nil, nkeys.ErrInvalidRecipient
	}
	out := make([]byte, boxStart, boxStart+box.Overhead+len(message))
	copy(out, nkeys.XKeyVersionV1)
	if _, err := io.ReadFull(random, out[boxNonce:]); err != nil {
		return nil, err
	}
	return box.SealAfterPrecomputation(out, message, (*[24]byte)(out[boxNonce:]), secret), nil
}

// Open implements nkeys.KeyPair.
func (p *rememberedPair) Open(sealed []byte, sender string) ([]byte, error) {
	if len(sealed) <= boxStart {
		return nil, nkeys.ErrInvalidEncrypted
	}
	if string(sealed[:boxNonce]) != nkeys.XKeyVersionV1 {
		return nil, nkeys.ErrInvalidEncVersion
	}
	secret, err := p.secret(sender)
	if err != nil {
		return nil, nkeys.ErrInvalidSender
	}
	message, ok := box.OpenAfterPrecomputation(nil, sealed[boxStart:], (*[24]byte)(sealed[boxNonce:]), secret)
	if !ok {
		return nil, nkeys.ErrCouldNotDecrypt
	}
	return message, nil
}
