package funcs

import (
	"crypto/md5"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/gocty"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/ssh"
)

func digests() family {
	return family{
		"base64sha256": {base64SHA256.ofString(), "Computes the SHA-256 digest of a string, in base64."},
		"base64sha512": {base64SHA512.ofString(), "Computes the SHA-512 digest of a string, in base64."},
		"md5":          {hexMD5.ofString(), "Computes the MD5 digest of a string, in hexadecimal digits."},
		"rsadecrypt": {rsaDecrypt(),
			"Decrypts a base64 ciphertext (RSA, PKCS #1 v1.5) with a private key in PEM form."},
		"sha1":   {hexSHA1.ofString(), "Computes the SHA-1 digest of a string, in hexadecimal digits."},
		"sha256": {hexSHA256.ofString(), "Computes the SHA-256 digest of a string, in hexadecimal digits."},
		"sha512": {hexSHA512.ofString(), "Computes the SHA-512 digest of a string, in hexadecimal digits."},
		"uuidv5": {uuidV5(), "Computes the UUID (version 5) of a name in a namespace: dns, url, oid, x500, or " +
			"any UUID."},
	}
}

// digest is a hash function with the encoding of its result.
type digest struct {
	hash  func() hash.Hash
	write func([]byte) string
}

var (
	base64SHA256 = digest{sha256.New, base64.StdEncoding.EncodeToString}
	base64SHA512 = digest{sha512.New, base64.StdEncoding.EncodeToString}
	hexMD5       = digest{md5.New, hex.EncodeToString}
	hexSHA1      = digest{sha1.New, hex.EncodeToString}
	hexSHA256    = digest{sha256.New, hex.EncodeToString}
	hexSHA512    = digest{sha512.New, hex.EncodeToString}
)

func (d digest) ofString() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		h := d.hash()
		h.Write([]byte(args[0].AsString()))
		return cty.StringVal(d.write(h.Sum(nil))), nil
	}, plain("str", cty.String))
}

func bcryptHash() function.Function {
	cost := plain("cost", cty.Number)
	return function.New(&function.Spec{
		Params:       []function.Parameter{plain("str", cty.String)},
		VarParam:     &cost,
		Type:         function.StaticReturnType(cty.String),
		RefineResult: notNull,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if len(args) > 2 {
				return cty.NilVal, errors.New("bcrypt takes a string and perhaps a cost")
			}
			cost := bcrypt.DefaultCost
			if len(args) == 2 {
				if err := gocty.FromCtyValue(args[1], &cost); err != nil {
					return cty.NilVal, err
				}
			}
			if cost > maxCost && cost <= bcrypt.MaxCost {
				return cty.NilVal, function.NewArgErrorf(1, "a cost of %d is the greatest: each one more doubles the time",
					maxCost)
			}
			out, err := bcrypt.GenerateFromPassword([]byte(args[0].AsString()), cost)
			if err != nil {
				return cty.NilVal, fmt.Errorf("hashing the password: %w", err)
			}
			return cty.StringVal(string(out)), nil
		},
	})
}

func rsaDecrypt() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		text, err := base64.StdEncoding.DecodeString(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "the ciphertext must be base64: %w", err)
		}
		key, err := ssh.ParseRawPrivateKey([]byte(args[1].AsString()))
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(1, "the private key cannot be read: %w", err)
		}
		private, ok := key.(*rsa.PrivateKey)
		if !ok {
			return cty.NilVal, function.NewArgErrorf(1, "an RSA key is required, not %T", key)
		}
		// The padding is an old one, which the function's definition prescribes; it is not used to encrypt new
		// data.
		out, err := rsa.DecryptPKCS1v15(nil, private, text) //nolint:staticcheck // as above
		if err != nil {
			return cty.NilVal, fmt.Errorf("decrypting: %w", err)
		}
		return cty.StringVal(string(out)), nil
	}, plain("ciphertext", cty.String), plain("privatekey", cty.String))
}

func uuidV5() function.Function {
	wellKnown := map[string]uuid.UUID{
		"dns": uuid.NameSpaceDNS, "url": uuid.NameSpaceURL, "oid": uuid.NameSpaceOID, "x500": uuid.NameSpaceX500,
	}
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		space, ok := wellKnown[args[0].AsString()]
		if !ok {
			var err error
			if space, err = uuid.Parse(args[0].AsString()); err != nil {
				return cty.NilVal, fmt.Errorf("%q is neither a known namespace nor a UUID: %w", args[0].AsString(), err)
			}
		}
		return cty.StringVal(uuid.NewSHA1(space, []byte(args[1].AsString())).String()), nil
	}, plain("namespace", cty.String), plain("name", cty.String))
}
