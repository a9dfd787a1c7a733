package encryption

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// setup makes methods from their blocks.
type setup struct {
	settings *settings
	static   *config.Static
	keys     *keys

	kinds []*Kind
	env   cloud.Environment
}

// keyRequest is one request for the keys of a method: with the metadata of encrypted data or, for encrypting, without.
type keyRequest struct {
	*setup
	ctx  context.Context
	in   metadata // nil for encrypting
	out  metadata
	done map[string]cty.Value // key provider -> its keys
}

// method makes a method from its block, with the keys for decrypting data with the metadata in. The metadata for
// decrypting the method's own output is added to out.
func (s *setup) method(ctx context.Context, b methodBlock, in, out metadata) (method, diag.List) {
	kind, ok := methodKinds[b.Type]
	if !ok {
		return nil, diag.Errors(fmt.Sprintf("Error fetching encryption method %q", b.Type),
			fmt.Sprintf("There is no encryption method %q; there are %s.",
				b.Type, strings.Join(slices.Sorted(maps.Keys(methodKinds)), ", ")), s.settings.at.Ptr())
	}
	x := &keyRequest{setup: s, ctx: ctx, in: in, out: out, done: map[string]cty.Value{}}
	m, diags := kind(given{x, b.Body, "encryption.method." + b.Type + "." + b.Name, nil})
	if diags.HasErrors() {
		return nil, diags
	}
	return m, diags
}

// given are the arguments of a block, with the request that evaluates them.
type given struct {
	request *keyRequest
	body    hcl.Body
	subject string
	stack   []string // the key providers that depend on the block, outermost first
}

// value evaluates an expression. A string that is the address of a key provider is evaluated as a reference to it,
// because JSON has no other form for it.
func (a given) value(e hcl.Expression) (cty.Value, diag.List) {
	v, diags := a.evaluate(e)
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String || !v.IsKnown() ||
		!strings.HasPrefix(v.AsString(), "key_provider.") {
		return v, diags
	}
	traversal, problems := syntax.ParseTraversalAbs([]byte(v.AsString()), "", hcl.InitialPos)
	if problems.HasErrors() {
		return v, diags
	}
	return a.evaluate(&hclsyntax.ScopeTraversalExpr{Traversal: traversal, SrcRange: e.Range()})
}

func (a given) evaluate(e hcl.Expression) (cty.Value, diag.List) {
	var plain []hcl.Traversal
	var diags diag.List
	providers := map[string]map[string]cty.Value{}
	for _, t := range e.Variables() {
		if t.RootName() != "key_provider" || len(t) != 3 {
			plain = append(plain, t)
			continue
		}
		typ, named, v, more := a.keysOf(t)
		if diags = diags.Append(more); more.HasErrors() {
			continue
		}
		if providers[typ] == nil {
			providers[typ] = map[string]cty.Value{}
		}
		providers[typ][named] = v
	}
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	ctx := &hcl.EvalContext{}
	if a.request.static != nil {
		var more diag.List
		ctx, more = a.request.static.Context(plain, config.StaticUse{Subject: a.subject, Range: a.request.settings.at})
		if diags = diags.Append(more); diags.HasErrors() {
			return cty.DynamicVal, diags
		}
	}
	all := map[string]cty.Value{}
	for typ, named := range providers {
		all[typ] = cty.ObjectVal(named)
	}
	ctx = ctx.NewChild()
	ctx.Variables = map[string]cty.Value{"key_provider": cty.ObjectVal(all)}
	v, problems := e.Value(ctx)
	if diags = diags.Append(problems); diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	v, _ = v.UnmarkDeep() // the whole configuration is treated as sensitive
	return v, diags
}

// keysOf returns the keys of the key provider to which a traversal refers.
func (a given) keysOf(t hcl.Traversal) (typ, named string, v cty.Value, diags diag.List) {
	at := t.SourceRange()
	typ, named, ok := address(t, "key_provider")
	if !ok {
		return "", "", cty.NilVal, diag.Errors("Invalid Key Provider expression format", "A key provider is named as "+
			"key_provider.TYPE.NAME.", &at)
	}
	k, ok := a.request.settings.keyProvider(typ, named)
	if !ok {
		return "", "", cty.NilVal, diag.Errors("Reference to undeclared key provider",
			fmt.Sprintf("The encryption block has no key_provider %q %q.", typ, named), &at)
	}
	v, diags = a.request.provide(k, a.stack)
	return typ, named, v, diags
}

// provide returns the keys of a key provider as expressions see them; they are computed once for a request.
func (x *keyRequest) provide(k keyProvider, stack []string) (cty.Value, diag.List) {
	address := k.address()
	if v, ok := x.done[address]; ok {
		return v, nil
	}
	if slices.Contains(stack, address) {
		return cty.NilVal, diag.Errors(noKeys, fmt.Sprintf(
			"The key provider %s needs its own key: %s.", address,
			strings.Join(append(slices.Clone(stack), address), " -> ")), nil)
	}
	provider, diags := x.source(k, append(slices.Clone(stack), address))
	diags = diags.WithSubject(&k.At)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	failed := func(summary string, err error) (cty.Value, diag.List) {
		return cty.NilVal, diags.Append(diag.New(diag.Error, summary, fmt.Sprintf("%s: %s.", k.metaKey(), err), &k.At))
	}
	if err := provider.check(); err != nil {
		return failed("Unable to build encryption key data", err)
	}
	var kept json.RawMessage
	if data, ok := x.in[k.metaKey()]; ok {
		kept = data
	}
	pair, meta, err := provider.provide(x.ctx, kept)
	switch {
	case isUndecodable(err):
		return failed("Unable to decode encrypted metadata (did you change your encryption config?)", err)
	case err != nil:
		return failed("Unable to fetch encryption key data", err)
	}
	if _, ok := x.out[k.metaKey()]; ok {
		return cty.NilVal, diag.Errors("Duplicate metadata key", fmt.Sprintf(
			"Two key providers of one method keep their metadata under the name %s. Give one of them another "+
				"encrypted_metadata_alias.", k.metaKey()), nil)
	}
	x.out[k.metaKey()] = meta
	x.done[address] = pair.value()
	return x.done[address], diags
}

// source makes a key provider from its block. stack are the key providers that depend on it, with itself as the
// last.
func (x *keyRequest) source(k keyProvider, stack []string) (source, diag.List) {
	a := given{x, k.Body, "encryption.key_provider." + k.Type + "." + k.Name, stack}
	if own, ok := ownKinds[k.Type]; ok {
		return own(a)
	}
	for _, kind := range x.kinds {
		if kind.Name == k.Type {
			return x.service(kind, k, a)
		}
	}
	known := slices.Collect(maps.Keys(ownKinds))
	for _, kind := range x.kinds {
		known = append(known, kind.Name)
	}
	slices.Sort(known)
	return nil, diag.Errors(fmt.Sprintf("Error fetching key_provider %q", k.Type),
		fmt.Sprintf("There is no key provider %q; there are %s.", k.Type, strings.Join(known, ", ")), nil)
}
