package tables

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// alphabet has the characters of IDs.
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// NewID makes an ID: the kind, and 16 random characters.
func NewID(kind string) string { return kind + "-" + Random(16) }

// Random returns n characters of the alphabet, each equally likely.
func Random(n int) string {
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

// NewSecret makes a secret with more than 256 bits of randomness.
func NewSecret() string { return Random(44) }

// NewToken makes a token with more than 256 bits of randomness, in the form that clients expect.
func NewToken() string { return Random(14) + ".atlasv1." + Random(44) }

// Hash returns the digest of a token. Only the digest is stored.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
