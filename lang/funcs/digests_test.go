package funcs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/zclconf/go-cty/cty"
)

func TestDigests(t *testing.T) {
	same{
		"md5 of nothing": {`md5("")`, `"d41d8cd98f00b204e9800998ecf8427e"`},
		"sha1":           {`sha1("hello")`, `"aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"`},
		"sha256": {`sha256("hello")`,
			`"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"`},
		"base64sha256 is the digest's bytes": {`base64sha256("hello")`,
			`"LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="`},
		"sha512 has 128 digits":            {`[length(sha512("x")), length(base64sha512("x"))]`, `[128, 88]`},
		"a digest is of the composed form": {`sha256("e\u0301") == sha256("\u00e9")`, `true`},
		"uuidv5 of a name": {`uuidv5("dns", "example.com")`,
			`"cfbff0d1-9375-5685-968c-48ce8b15ae17"`},
		"uuidv5 in any namespace": {`uuidv5("6BA7B8109DAD11D180B400C04FD430C8", "example.com")`,
			`uuidv5("dns", "example.com")`},
		"marks go through": {`issensitive(sha256(secret))`, `true`},
	}.prove(t, funcs.Options{})
	refused{
		"a namespace that is none": {`uuidv5("bogus", "x")`, badCall, `"bogus" is neither a known namespace nor a UUID`,
			""},
	}.prove(t, funcs.Options{})
}

func TestRsadecrypt(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	text, err := rsa.EncryptPKCS1v15(rand.Reader, &key.PublicKey, []byte("attack at dawn")) //nolint:staticcheck // rsadecrypt is defined by this padding
	if err != nil {
		t.Fatal(err)
	}

	ctx := scope(funcs.Options{})
	for name, v := range map[string]string{
		"cipher": base64.StdEncoding.EncodeToString(text),
		"key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		"ec":     string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		"broken": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: []byte("x")})),
	} {
		ctx.Variables[name] = cty.StringVal(v)
	}
	v, diags := eval(t, ctx, `rsadecrypt(cipher, key)`)
	if diags.HasErrors() || v.AsString() != "attack at dawn" {
		t.Fatalf("got %#v, %s", v, diags)
	}
	for claim, c := range map[string]struct{ expr, summary string }{
		"a ciphertext that is not base64":   {`rsadecrypt("!", key)`, badArgument},
		"a ciphertext of another key":       {`rsadecrypt("aGVsbG8=", key)`, badCall},
		"a key that is no key":              {`rsadecrypt(cipher, "bogus")`, badArgument},
		"a key that is broken":              {`rsadecrypt(cipher, broken)`, badArgument},
		"a key of another kind":             {`rsadecrypt(cipher, ec)`, badArgument},
		"a key in place of the ciphertext":  {`rsadecrypt(key, cipher)`, badArgument},
		"an empty ciphertext is not base64": {`rsadecrypt("", key)`, badCall},
	} {
		t.Run(claim, func(t *testing.T) { wantSummary(t, ctx, c.expr, c.summary) })
	}
}

func wantSummary(t *testing.T, ctx *hcl.EvalContext, expr, summary string) {
	t.Helper()
	v, diags := eval(t, ctx, expr)
	if !diags.HasErrors() {
		t.Fatalf("no error, but %#v", v)
	}
	if diags[0].Summary != summary {
		t.Fatalf("got %q: %s\nwant %q", diags[0].Summary, diags[0].Detail, summary)
	}
}
