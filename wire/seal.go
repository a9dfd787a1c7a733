package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
)

// ErrNoKey means that this process does not have the key of the run (yet). A worker releases the task for others.
var ErrNoKey = errors.New("the key of the run is not here")

// ErrNotAuthentic means that a message was modified, truncated, or moved to another subject, or that it is sealed with
// another run's key.
var ErrNotAuthentic = errors.New("the message is not authentic")

const (
	runKeySize = 32 // AES-256
	nonceSize  = 12
	tagSize    = 16
)

// Sealer seals messages with the key of one run (AES-256-GCM). It is safe for concurrent use. A key seals at most 2^32
// messages, which is more than a run has.
type Sealer struct {
	key  [runKeySize]byte
	aead cipher.AEAD
	rand io.Reader
}

// newSealer uses a key of runKeySize bytes; nonces come from rand, which must be safe for concurrent use.
func newSealer(key []byte, rand io.Reader) (*Sealer, error) {
	if len(key) != runKeySize {
		return nil, fmt.Errorf("the key has %d bytes instead of %d", len(key), runKeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	s := &Sealer{aead: aead, rand: rand}
	copy(s.key[:], key)
	return s, nil
}

// NewSealer makes a fresh key from rand and uses it. crypto/rand.Reader is the rand of production.
func NewSealer(rand io.Reader) (*Sealer, error) {
	key := make([]byte, runKeySize)
	if _, err := io.ReadFull(rand, key); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return newSealer(key, rand)
}

// Seal appends the sealed form of plain to dst: a nonce, the ciphertext, a tag. about is not in it, and Open needs the
// same again.
func (s *Sealer) Seal(dst, plain, about []byte) ([]byte, error) {
	at := len(dst)
	dst = append(dst, make([]byte, nonceSize, nonceSize+len(plain)+tagSize)...)
	nonce := dst[at : at+nonceSize]
	if _, err := io.ReadFull(s.rand, nonce); err != nil {
		return nil, fmt.Errorf("making a nonce: %w", err)
	}
	return s.aead.Seal(dst, nonce, plain, about), nil
}

// Open returns the plaintext, or ErrNotAuthentic. It does not change sealed, and shares no memory with it.
func (s *Sealer) Open(sealed, about []byte) ([]byte, error) {
	if len(sealed) < nonceSize {
		return nil, ErrNotAuthentic
	}
	plain, err := s.aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], about)
	if err != nil {
		return nil, ErrNotAuthentic
	}
	return plain, nil
}

// openInPlace is Open without about. It overwrites sealed.
func (s *Sealer) openInPlace(sealed []byte) ([]byte, error) {
	if len(sealed) < nonceSize {
		return nil, ErrNotAuthentic
	}
	body := sealed[nonceSize:]
	plain, err := s.aead.Open(body[:0], sealed[:nonceSize], body, nil)
	if err != nil {
		return nil, ErrNotAuthentic
	}
	return plain, nil
}
