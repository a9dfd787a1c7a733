// Package seal encrypts individual values, so that the cost is proportional to the changes. Each value is bound to
// the place where it is stored.
//
// It does not manage keys.
package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

// Size is the length of a secret in bytes.
const Size = chacha20poly1305.KeySize

// ErrBroken means that a value was not sealed with this key at this place, or has been modified.
var ErrBroken = errors.New("a sealed value was modified or moved")

// Key seals and opens values. A nil Key does not encrypt. Safe for concurrent use.
type Key struct{ aead cipher.AEAD }

// NewSecret generates a secret for a key.
func NewSecret() []byte {
	secret := make([]byte, Size)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// NewKey returns the key of a secret.
func NewKey(secret []byte) (*Key, error) {
	// XChaCha20-Poly1305: its nonces are long enough to be chosen at random for any number of values.
	aead, err := chacha20poly1305.NewX(secret)
	if err != nil {
		return nil, err
	}
	return &Key{aead}, nil
}

// Seal returns the sealed value: the nonce, the ciphertext and the tag. It can be opened only at the same place.
func (k *Key) Seal(place, value []byte) []byte {
	if k == nil {
		return value
	}
	out := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(value)+k.aead.Overhead())
	_, _ = rand.Read(out) // never fails
	return k.aead.Seal(out, out, value, place)
}

// Nonce returns the nonce of a sealed value, which is unique and independent of the content; nil if the value is
// too short to have one.
func Nonce(sealed []byte) []byte {
	if len(sealed) < chacha20poly1305.NonceSizeX+chacha20poly1305.Overhead {
		return nil
	}
	return sealed[:chacha20poly1305.NonceSizeX]
}

// Open returns the content of a sealed value, which is never nil without an error. The error is ErrBroken.
func (k *Key) Open(place, sealed []byte) ([]byte, error) { return k.OpenTo([]byte{}, place, sealed) }

// OpenTo is Open, but reuses a buffer for the result if it is large enough.
func (k *Key) OpenTo(buffer, place, sealed []byte) ([]byte, error) {
	if k == nil || sealed == nil {
		return sealed, nil
	}
	n := k.aead.NonceSize()
	if len(sealed) < n {
		return nil, ErrBroken
	}
	if buffer == nil {
		buffer = []byte{}
	}
	value, err := k.aead.Open(buffer[:0], sealed[:n], sealed[n:], place)
	if err != nil {
		return nil, ErrBroken
	}
	return value, nil
}
