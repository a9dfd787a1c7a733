package service

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// alphabet has the characters of IDs.
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// newID makes an ID: the kind, and 16 random characters.
func newID(kind string) string { return kind + "-" + random(16) }

// random returns n characters of the alphabet, each equally likely.
func random(n int) string {
	out := make([]byte, 0, n)
	var drawn [32]byte
	for len(out) < n {
		_, _ = rand.Read(drawn[:]) // never fails
		for _, b := range drawn {
			if b &= 63; int(b) < len(alphabet) && len(out) < n {
				out = append(out, alphabet[b])
			}
		}
	}
	return string(out)
}

// newSecret makes a secret with more than 256 bits of randomness.
func newSecret() string { return random(44) }

// newToken makes a token with more than 256 bits of randomness, in the form that clients expect.
func newToken() string { return random(14) + ".atlasv1." + random(44) }

// Hash returns the digest of a token. Only the digest is stored.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
