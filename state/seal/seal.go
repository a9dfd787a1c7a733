// Package seal encrypts values one by one, so that a store pays for what changes. Each is bound to the place that it is
// kept at.
//
// It keeps no keys, and knows nothing of where they come from.
package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

// Size is the length of a secret in bytes.
const Size = chacha20poly1305.KeySize

// ErrBroken means that a value was not sealed with this key at this place, or was changed since.
var ErrBroken = errors.New("a sealed value is not what was written there")

// Key seals and opens values. Nil leaves them in the clear. Safe for concurrent use.
type Key struct{ aead cipher.AEAD }

// NewSecret makes a secret for a key.
func NewSecret() []byte {
	secret := make([]byte, Size)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// NewKey returns the key of a secret.
func NewKey(secret []byte) (*Key, error) {
	// XChaCha20-Poly1305: its nonces are long enough to be drawn at random for as many values as a store ever writes.
	aead, err := chacha20poly1305.NewX(secret)
	if err != nil {
		return nil, err
	}
	return &Key{aead}, nil
}

// Seal returns what is to be kept of a value: the nonce, the ciphertext and the tag. Only at the same place can it be
// opened.
func (k *Key) Seal(place, value []byte) []byte {
	if k == nil {
		return value
	}
	out := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(value)+k.aead.Overhead())
	_, _ = rand.Read(out) // never fails
	return k.aead.Seal(out, out, value, place)
}

// Nonce returns the part of what Seal has returned that it returns no second time, whatever it seals, nil for what is
// too short to have one. It says nothing about what is sealed.
func Nonce(sealed []byte) []byte {
	if len(sealed) < chacha20poly1305.NonceSizeX+chacha20poly1305.Overhead {
		return nil
	}
	return sealed[:chacha20poly1305.NonceSizeX]
}

// Open returns the value of what Seal has returned. It is never nil for what is not; the error is ErrBroken.
func (k *Key) Open(place, sealed []byte) ([]byte, error) { return k.OpenTo([]byte{}, place, sealed) }

// OpenTo is Open with the value in the place of what is in a buffer, where it has room there.
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
