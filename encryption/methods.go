package encryption

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/lang/diag"
)

// method encrypts and decrypts.
type method interface {
	seal(ctx context.Context, plain []byte) ([]byte, error)
	open(ctx context.Context, sealed []byte) ([]byte, error)
}

const unencryptedType = "unencrypted"

var methodKinds = map[string]func(given) (method, diag.List){
	"aes_gcm": newAESGCM, "external": newExternalMethod,
	unencryptedType: func(given) (method, diag.List) { return nil, nil }, // callers check for its type first
}

var errNoDecryptionKey = errors.New("there is no key for decrypting: the data were encrypted with another " +
	"key provider, or by another name of it")

// aesGCM is the method aes_gcm: the nonce, followed by the output of AES-GCM.
type aesGCM struct {
	keys pair
	aad  []byte
}

func newAESGCM(a given) (method, diag.List) {
	content, diags := a.content([]string{"keys"}, []string{"aad"})
	if diags.HasErrors() {
		return nil, diags
	}
	m := &aesGCM{}
	var more diag.List
	m.keys, more = a.keyPair(content.Attributes["keys"].Expr)
	diags = diags.Append(more)
	if attr, ok := content.Attributes["aad"]; ok {
		v, more := a.value(attr.Expr)
		if diags = diags.Append(more); !more.HasErrors() {
			m.aad, more = bytesOf(v, attr.Expr.Range())
			diags = diags.Append(more)
		}
	}
	if diags.HasErrors() {
		return nil, diags
	}
	for what, key := range map[string][]byte{"encrypting": m.keys.Encryption, "decrypting": m.keys.Decryption} {
		if n := len(key); n != 16 && n != 24 && n != 32 && (n > 0 || what == "encrypting") {
			diags = diags.Append(invalidMethod(fmt.Errorf("AES-GCM takes keys of 16, 24 or 32 bytes, and the one for "+
				"%s has %d", what, n)))
		}
	}
	return m, diags
}

func invalidMethod(err error) *diag.Diagnostic {
	return diag.New(diag.Error, "Invalid method configuration", err.Error()+".", nil)
}

func (m *aesGCM) seal(_ context.Context, plain []byte) ([]byte, error) {
	aead, err := gcm(m.keys.Encryption)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, plain, m.aad), nil
}

func (m *aesGCM) open(_ context.Context, sealed []byte) ([]byte, error) {
	if len(m.keys.Decryption) == 0 {
		return nil, errNoDecryptionKey
	}
	aead, err := gcm(m.keys.Decryption)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errors.New("the encrypted data are truncated")
	}
	n := aead.NonceSize()
	return aead.Open(nil, sealed[:n], sealed[n:], m.aad)
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// externalMethod is the method external: a user's programs encrypt and decrypt.
type externalMethod struct {
	keys             *pair
	encrypt, decrypt []string
	env              cloud.Environment
}

const methodMagic = "OpenTofu-External-Encryption-Method"

func newExternalMethod(a given) (method, diag.List) {
	content, diags := a.content([]string{"encrypt_command", "decrypt_command"}, []string{"keys"})
	if diags.HasErrors() {
		return nil, diags
	}
	m := &externalMethod{env: a.request.env}
	if attr, ok := content.Attributes["keys"]; ok {
		keys, more := a.keyPair(attr.Expr)
		diags = diags.Append(more)
		m.keys = &keys
	}
	for name, into := range map[string]*[]string{"encrypt_command": &m.encrypt, "decrypt_command": &m.decrypt} {
		more := a.take(content, name, cty.List(cty.String), into)
		if diags = diags.Append(more); !more.HasErrors() && (len(*into) == 0 || (*into)[0] == "") {
			diags = diags.Append(invalidMethod(fmt.Errorf("%s names no program", name)))
		}
	}
	return m, diags
}

// The messages of the protocol, version 1.
type (
	methodRequest struct {
		Key     []byte `json:"key,omitempty"`
		Payload []byte `json:"payload"`
	}
	methodAnswer struct {
		Payload []byte `json:"payload"`
	}
)

func (m *externalMethod) seal(ctx context.Context, plain []byte) ([]byte, error) {
	r := methodRequest{Payload: plain}
	if m.keys != nil {
		r.Key = m.keys.Encryption
	}
	var out methodAnswer
	err := call(ctx, m.env, m.encrypt, methodMagic, r, &out)
	return out.Payload, err
}

func (m *externalMethod) open(ctx context.Context, sealed []byte) ([]byte, error) {
	r := methodRequest{Payload: sealed}
	if m.keys != nil {
		if r.Key = m.keys.Decryption; len(r.Key) == 0 {
			return nil, errNoDecryptionKey
		}
	}
	var out methodAnswer
	err := call(ctx, m.env, m.decrypt, methodMagic, r, &out)
	return out.Payload, err
}
