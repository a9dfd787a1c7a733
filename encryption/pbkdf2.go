package encryption

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math/big"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
)

// OpenTofu's documented limits and defaults.
const (
	minPassphrase = 16
	minIterations = 200_000
)

var hashFunctions = map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New}

// passphrase is the key provider pbkdf2: it derives keys from a passphrase, or from the key of another provider.
type passphrase struct {
	text  string
	chain *pair
	how   derivation
	salt  int // length

	name string
	keys *keys
}

// derivation is the metadata of a derived key: the parameters of the derivation.
type derivation struct {
	Salt       []byte `json:"salt"`
	Iterations int    `json:"iterations"`
	Hash       string `json:"hash_function"`
	Length     int    `json:"key_length"`
}

func newPBKDF2(a given) (source, diag.List) {
	p := &passphrase{how: derivation{Iterations: 600_000, Hash: "sha512", Length: 32}, salt: 32, name: a.subject,
		keys: a.request.keys}
	content, diags := a.content(nil, []string{"passphrase", "chain", "key_length", "iterations", "hash_function",
		"salt_length"})
	if diags.HasErrors() {
		return nil, diags
	}
	diags = diags.Append(a.take(content, "passphrase", cty.String, &p.text), a.take(content, "hash_function",
		cty.String, &p.how.Hash))
	for name, into := range map[string]*int{"key_length": &p.how.Length, "iterations": &p.how.Iterations,
		"salt_length": &p.salt} {
		number := big.NewFloat(float64(*into))
		diags = diags.Append(a.take(content, name, cty.Number, number))
		if number.IsInt() { // other numbers leave the default, as in OpenTofu
			n, _ := number.Int64()
			*into = int(n)
		}
	}
	if attr, ok := content.Attributes["chain"]; ok && !diags.HasErrors() {
		chain, more := a.keyPair(attr.Expr)
		diags = diags.Append(more)
		p.chain = &chain
	}
	return p, diags
}

func (p *passphrase) check() error {
	_, known := hashFunctions[p.how.Hash]
	switch {
	case p.text == "" && p.chain == nil:
		return errors.New("it has neither a passphrase nor a chain to get one from")
	case p.text != "" && p.chain != nil:
		return errors.New("it has a passphrase and a chain, and they exclude each other")
	case p.chain != nil && len(p.chain.Encryption) < minPassphrase,
		p.chain != nil && p.chain.Decryption != nil && len(p.chain.Decryption) < minPassphrase:
		return fmt.Errorf("the key that the chain gives is too short (at least %d bytes are needed)", minPassphrase)
	case p.text != "" && len(p.text) < minPassphrase:
		return fmt.Errorf("the passphrase is too short (at least %d characters are needed)", minPassphrase)
	case p.how.Length <= 0:
		return errors.New("key_length has to be larger than zero")
	case p.how.Iterations < minIterations:
		return fmt.Errorf("iterations is dangerously low (at least %d are needed)", minIterations)
	case p.how.Iterations > maxIterations:
		return fmt.Errorf("iterations is too high (at most %d are computed)", maxIterations)
	case p.salt <= 0:
		return errors.New("salt_length has to be larger than zero")
	case p.salt > maxKeyLength:
		return fmt.Errorf("salt_length is too large (at most %d bytes are made)", maxKeyLength)
	case !known:
		return fmt.Errorf("there is no hash_function %q; there are sha256 and sha512", p.how.Hash)
	}
	return nil
}

// provide implements source.
func (p *passphrase) provide(_ context.Context, kept json.RawMessage) (pair, []byte, error) {
	encryption, decryption := []byte(p.text), []byte(p.text)
	if p.chain != nil {
		encryption, decryption = p.chain.Encryption, p.chain.Decryption
	}
	var out pair
	if kept != nil {
		var was derivation
		if err := json.Unmarshal(kept, &was); err != nil {
			return pair{}, nil, undecodable{err}
		}
		var err error
		if out.Decryption, err = p.key(decryption, was); err != nil {
			return pair{}, nil, err
		}
	}
	now := p.how
	// The length is a part of the use, since the salt depends on it.
	now.Salt = p.keys.salt(fmt.Sprint(p.name, " ", p.salt), p.salt)
	var err error
	if out.Encryption, err = p.key(encryption, now); err != nil {
		return pair{}, nil, err
	}
	meta, err := json.Marshal(now)
	return out, meta, err
}

// key derives a key; nil if the metadata is incomplete.
func (p *passphrase) key(secret []byte, d derivation) ([]byte, error) {
	if len(d.Salt) == 0 || d.Iterations == 0 || d.Hash == "" || d.Length == 0 {
		return nil, nil
	}
	function, ok := hashFunctions[d.Hash]
	if !ok || d.Iterations < 0 || d.Iterations > maxIterations || d.Length < 0 || d.Length > maxKeyLength {
		return nil, errors.New("the metadata of the encrypted data are invalid")
	}
	input, err := json.Marshal([]any{secret, d})
	if err != nil {
		return nil, err
	}
	var failure error
	key := p.keys.derive(string(input), func() []byte {
		key, err := pbkdf2.Key(function, string(secret), d.Salt, d.Iterations, d.Length)
		failure = err
		return key
	})
	return key, failure
}

// maxKeyLength bounds the length of derived keys and of salts, maxIterations the time of a derivation, which nothing
// interrupts: about a minute. Metadata may have been manipulated, and a configuration may be that of anybody.
const (
	maxKeyLength  = 1 << 20
	maxIterations = 50_000_000
)
