package encryption

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// pair is the keys of a key provider. Decryption is nil if there is nothing to decrypt.
type pair struct {
	Encryption []byte `json:"encryption_key,omitempty"`
	Decryption []byte `json:"decryption_key,omitempty"`
}

// value returns the keys as expressions see them.
func (p pair) value() cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"encryption_key": bytesValue(p.Encryption), "decryption_key": bytesValue(p.Decryption),
	})
}

func bytesValue(data []byte) cty.Value {
	if len(data) == 0 {
		return cty.NullVal(cty.List(cty.Number))
	}
	list := make([]cty.Value, len(data))
	for i, b := range data {
		list[i] = cty.NumberIntVal(int64(b))
	}
	return cty.ListVal(list)
}

// bytesOf is the inverse of bytesValue. The value may also be a list that the user wrote.
func bytesOf(v cty.Value, at hcl.Range) ([]byte, diag.List) {
	unsuitable := func(err error) ([]byte, diag.List) {
		return nil, diag.Errors("Unsuitable value type", fmt.Sprintf("This has to be a list of bytes: %s.", err), &at)
	}
	list, err := syntax.Convert(v, cty.List(cty.Number))
	switch {
	case err != nil:
		return unsuitable(err)
	case !list.IsWhollyKnown():
		return unsuitable(errors.New("it is not known"))
	case list.IsNull():
		return nil, nil
	}
	var out []byte
	if err := gocty.FromCtyValue(list, &out); err != nil {
		return unsuitable(err)
	}
	return out, nil
}

// noKeys is the summary about a value that is not the result of a key provider.
const noKeys = "Expected key_provider value"

// keyPair evaluates an argument whose value is the keys of a key provider.
func (a given) keyPair(e hcl.Expression) (pair, diag.List) {
	at := e.Range()
	v, diags := a.value(e)
	if diags.HasErrors() {
		return pair{}, diags
	}
	if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() || !(v.Type().IsObjectType() || v.Type().IsMapType()) {
		return pair{}, diag.Errors(noKeys, fmt.Sprintf("This has to be a key provider, key_provider.TYPE.NAME, and "+
			"it is %s.", v.Type().FriendlyName()), &at)
	}
	parts := v.AsValueMap()
	encryption, ok := parts["encryption_key"]
	if !ok {
		return pair{}, diag.Errors("Missing encryption_key value", "A value that replaces a key provider must have the "+
			"attribute encryption_key.", &at)
	}
	var p pair
	var more diag.List
	p.Encryption, diags = bytesOf(encryption, at)
	if decryption, ok := parts["decryption_key"]; ok {
		p.Decryption, more = bytesOf(decryption, at)
	}
	return p, diags.Append(more)
}

// take decodes an argument into a Go value; it does nothing if the argument is not set.
func (a given) take(content *hcl.BodyContent, name string, typ cty.Type, into any) diag.List {
	attr, ok := content.Attributes[name]
	if !ok {
		return nil
	}
	v, diags := a.value(attr.Expr)
	if diags.HasErrors() {
		return diags
	}
	at := attr.Expr.Range()
	v, err := syntax.Convert(v, typ)
	if err == nil {
		err = gocty.FromCtyValue(v, into)
	}
	if err != nil {
		return diags.Append(diag.New(diag.Error, "Unsuitable value type", fmt.Sprintf("Unsuitable value for %q: %s.",
			name, err), &at))
	}
	return diags
}

// content checks the arguments of a block.
func (a given) content(required, optional []string) (*hcl.BodyContent, diag.List) {
	schema := &hcl.BodySchema{}
	for _, name := range required {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name, Required: true})
	}
	for _, name := range optional {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	content, problems := a.body.Content(schema)
	var diags diag.List
	return content, diags.Append(problems)
}

// source is a key provider with its arguments.
type source interface {
	// check returns an error if the arguments are invalid.
	check() error
	// provide returns a key for encrypting, and the metadata to store with the encrypted data. kept is the metadata
	// of the data to decrypt, or nil; if it is set, the pair has the key for that, too.
	provide(ctx context.Context, kept json.RawMessage) (pair, []byte, error)
}

// ownKinds are the key providers that need no key service.
var ownKinds map[string]func(given) (source, diag.List)

func init() { // their arguments may refer to other key providers
	ownKinds = map[string]func(given) (source, diag.List){"pbkdf2": newPBKDF2, "external": newExternalKeys}
}

// undecodable is the error about metadata of another key provider.
type undecodable struct{ cause error }

func (u undecodable) Error() string { return u.cause.Error() }

func isUndecodable(err error) bool {
	var u undecodable
	return errors.As(err, &u)
}

// keys caches keys that are expensive to derive, for the lifetime of the process. A key provider derives its key
// for encrypting only once, for all uses: with a new salt in each process.
type keys struct {
	mu      sync.Mutex // guards the fields below
	salts   map[string][]byte
	derived map[string][]byte
	// opened are the open key services, by the addresses of their key providers.
	opened map[string]opened
}

func newKeys() *keys {
	return &keys{salts: map[string][]byte{}, derived: map[string][]byte{}, opened: map[string]opened{}}
}

// salt returns the salt of a use, which is generated at the first call.
func (k *keys) salt(use string, length int) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.salts[use] == nil {
		k.salts[use] = make([]byte, length)
		_, _ = rand.Read(k.salts[use]) // never fails
	}
	return k.salts[use]
}

// derive returns the result of make, which is called once for each input.
func (k *keys) derive(input string, make func() []byte) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.derived[input] == nil {
		k.derived[input] = make()
	}
	return k.derived[input]
}
