package wire_test

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/wire"
)

func TestAPairThatRemembersSecretsExchangesMessagesWithAnyOther(t *testing.T) {
	pair := func(remembers bool) (nkeys.KeyPair, string) {
		t.Helper()
		p, err := nkeys.CreateCurveKeys()
		if err == nil && remembers {
			p, err = wire.RememberSecrets(p)
		}
		if err != nil {
			t.Fatal(err)
		}
		public, err := p.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return p, public
	}
	remembers, its := pair(true)
	plain, their := pair(false)
	other, others := pair(true)
	for range 2 { // the second time with remembered secrets
		for _, c := range []struct {
			from, to nkeys.KeyPair
			fromKey  string
			toKey    string
		}{{remembers, plain, its, their}, {plain, remembers, their, its}, {remembers, other, its, others}} {
			sealed, err := c.from.SealWithRand([]byte("message"), c.toKey, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.to.Open(sealed, c.fromKey); err != nil || string(got) != "message" {
				t.Errorf("opened: %q, %v", got, err)
			}
			sealed[len(sealed)-1] ^= 1
			if _, err := c.to.Open(sealed, c.fromKey); !errors.Is(err, nkeys.ErrCouldNotDecrypt) {
				t.Errorf("a changed message: %v", err)
			}
		}
	}
	sealed, err := plain.Seal([]byte("message"), its)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remembers.Open(sealed, others); !errors.Is(err, nkeys.ErrCouldNotDecrypt) {
		t.Errorf("a message from another sender: %v", err)
	}
	if _, err := remembers.Open(sealed[:20], their); !errors.Is(err, nkeys.ErrInvalidEncrypted) {
		t.Errorf("a truncated message: %v", err)
	}
	if _, err := remembers.Seal([]byte("message"), "nobody"); !errors.Is(err, nkeys.ErrInvalidRecipient) {
		t.Errorf("an invalid recipient: %v", err)
	}
	sealed[0]++
	if _, err := remembers.Open(sealed, their); !errors.Is(err, nkeys.ErrInvalidEncVersion) {
		t.Errorf("another version: %v", err)
	}
}
