package encryption

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind is a kind of key provider that uses a key service. A Kind is immutable.
type Kind struct {
	Name string
	// Schema, Env, Defaults and Conflicts are those of arguments.Spec.
	Schema    *schema.Block
	Env       map[string][]string
	Defaults  map[string]cty.Value
	Conflicts [][2]string
	// Open checks rules that the schema cannot express, and prepares the service. Diagnostics about an argument have its
	// path (Arguments.Problem). It may use the network, within ctx.
	Open func(ctx context.Context, s cloud.Environment, args arguments.Arguments) (KeyService, diag.List)
}

// KeyService generates data keys and recovers them. It is safe for concurrent use. Its errors contain no secrets.
type KeyService interface {
	// Make generates a new data key. meta is the argument of Recover; it is stored as unencrypted JSON with the
	// encrypted data.
	Make(ctx context.Context) (key []byte, meta any, err error)
	// Recover returns the key that Make has generated with this metadata, possibly in another process; nil if the
	// metadata contains no key.
	Recover(ctx context.Context, meta json.RawMessage) (key []byte, err error)
}

// ErrMetadata means that metadata belongs to another key service.
var ErrMetadata = errors.New("the metadata is not this key provider's")

// serviceTime bounds each use of a key service, opening it or requesting a key, including retries.
const serviceTime = 8 * time.Second

// opened is an open key service with its arguments.
type opened struct {
	args    cty.Value
	service KeyService
}

// service returns the source that uses a key service. The service is opened once for all requests with the same
// arguments.
func (x *keyRequest) service(kind *Kind, k keyProvider, a given) (source, diag.List) {
	value, diags := a.object(kind.Schema)
	if diags.HasErrors() {
		return nil, diags
	}
	spec := arguments.Spec{
		Subject: fmt.Sprintf("the key provider %q", kind.Name), Schema: kind.Schema, Env: kind.Env,
		Defaults:  kind.Defaults,
		Conflicts: kind.Conflicts,
	}
	args, more := spec.Decode(value)
	if diags = diags.Append(more); !diags.HasErrors() && !args.WhollyKnown() {
		diags = diags.Append(
			diag.New(diag.Error, "Unsuitable value type", "An argument of this key provider is not known yet.", nil),
		)
	}
	if !diags.HasErrors() {
		args, more = spec.Complete(args, x.env.Env)
		diags = diags.Append(more)
	}
	if diags.HasErrors() {
		return nil, eval.AtSource(diags, k.Body)
	}
	s, more := x.keys.open(k.address(), value, func() (KeyService, diag.List) {
		ctx, cancel := context.WithTimeoutCause(x.ctx, serviceTime, errSlow)
		defer cancel()
		service, diags := kind.Open(ctx, x.env, args)
		if diags.HasErrors() && errors.Is(context.Cause(ctx), errSlow) {
			diags = diag.Errors("Unable to fetch encryption key data", fmt.Sprintf("%s: %s.", k.metaKey(), errSlow),
				nil)
		}
		return service, diags
	})
	return &serviceKeys{name: k.address(), service: s, keys: x.keys}, eval.AtSource(diags.Append(more), k.Body)
}

var errSlow = fmt.Errorf("there was no answer within %s", serviceTime)

// open returns the service of a key provider. It calls make unless the service is open with the same arguments.
func (k *keys) open(address string, args cty.Value, make func() (KeyService, diag.List)) (KeyService, diag.List) {
	k.mu.Lock()
	have, ok := k.opened[address]
	k.mu.Unlock() // not held during network requests: opening twice does no harm
	if ok && have.args.RawEquals(args) {
		return have.service, nil
	}
	s, diags := make()
	if !diags.HasErrors() {
		k.mu.Lock()
		k.opened[address] = opened{args, s}
		k.mu.Unlock()
	}
	return s, diags
}

// object evaluates the arguments and nested blocks of a schema.
func (a given) object(b *schema.Block) (cty.Value, diag.List) {
	shape := &hcl.BodySchema{}
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		shape.Attributes = append(shape.Attributes, hcl.AttributeSchema{Name: name,
			Required: b.Attributes[name].Required})
	}
	for _, name := range slices.Sorted(maps.Keys(b.Blocks)) {
		shape.Blocks = append(shape.Blocks, hcl.BlockHeaderSchema{Type: name})
	}
	content, problems := a.body.Content(shape)
	var diags diag.List
	if diags = diags.Append(problems); diags.HasErrors() {
		return cty.NilVal, diags
	}
	values := map[string]cty.Value{}
	for _, name := range slices.Sorted(maps.Keys(content.Attributes)) {
		v, more := a.value(content.Attributes[name].Expr)
		diags = diags.Append(more)
		values[name] = v
	}
	nested := map[string][]cty.Value{}
	for _, block := range content.Blocks {
		if most := b.Blocks[block.Type].MaxItems; most > 0 && int64(len(nested[block.Type])) >= int64(most) {
			diags = diags.Append(diag.New(diag.Error, "Too many "+block.Type+" blocks",
				fmt.Sprintf("No more than %d %q blocks are allowed.", most, block.Type), &block.DefRange))
			continue
		}
		inner := a
		inner.body = block.Body
		v, more := inner.object(&b.Blocks[block.Type].Block)
		if diags = diags.Append(more); !more.HasErrors() {
			nested[block.Type] = append(nested[block.Type], v)
		}
	}
	for name, list := range nested {
		values[name] = cty.TupleVal(list)
	}
	return cty.ObjectVal(values), diags
}

// serviceKeys is a key provider whose keys a key service generates.
type serviceKeys struct {
	name    string
	service KeyService
	keys    *keys
}

// check implements source. The arguments were checked when the service was opened.
func (s *serviceKeys) check() error { return nil }

// provide implements source. Each encryption has its own key. When decrypting, nothing is encrypted, so no other
// key is requested: the recovered key is returned in its place.
func (s *serviceKeys) provide(ctx context.Context, kept json.RawMessage) (pair, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serviceTime, errSlow)
	defer cancel()
	if kept != nil {
		key, err := s.keys.recovered(s.name, kept, func() ([]byte, error) { return s.service.Recover(ctx, kept) })
		switch {
		case errors.Is(err, ErrMetadata):
			return pair{}, nil, undecodable{err}
		case err != nil:
			return pair{}, nil, fmt.Errorf("the key cannot be decrypted: %w", slow(ctx, err))
		case key != nil:
			return pair{Encryption: key, Decryption: key}, kept, nil
		}
	}
	key, meta, err := s.service.Make(ctx)
	if err != nil {
		return pair{}, nil, fmt.Errorf("no new key can be made: %w", slow(ctx, err))
	}
	text, err := json.Marshal(meta)
	return pair{Encryption: key}, text, err
}

// slow returns an error about the time limit in place of err, if it was exceeded.
func slow(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSlow) {
		return errSlow
	}
	return err
}

// recovered returns the key for the metadata, which is requested by ask once.
func (k *keys) recovered(name string, meta json.RawMessage, ask func() ([]byte, error)) ([]byte, error) {
	sum := sha256.Sum256(append([]byte(name+"\x00"), meta...))
	id := "recovered " + string(sum[:])
	k.mu.Lock()
	key := k.derived[id]
	k.mu.Unlock() // not held during network requests
	if key != nil {
		return key, nil
	}
	key, err := ask()
	if err == nil && key != nil {
		k.mu.Lock()
		k.derived[id] = key
		k.mu.Unlock()
	}
	return key, err
}
