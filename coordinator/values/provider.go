package values

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
)

// Provider is the evaluated configuration of one provider instance.
type Provider struct {
	Addr addr.ProviderInstance
	// Value conforms to the provider's schema, with marks; Encoded is its form for workers; Digest identifies
	// both.
	Value   cty.Value
	Encoded []byte
	Digest  string
	// Ephemeral is set if parts of the value are ephemeral; Unknown if parts are unknown.
	Ephemeral, Unknown bool
	// Strings are the known, insensitive top-level strings, for placement rules.
	Strings map[string]string
	// Block is nil if the configuration has no provider block.
	Block *config.ProviderConfig
}

type providerCell struct {
	once  sync.Once
	p     *Provider
	diags diag.List
}

// Provider returns the configuration of a provider instance, which is evaluated at its first use. The values to
// which the block refers must be available. Problems are returned in each call.
func (s *Store) Provider(a addr.ProviderInstance) (*Provider, diag.List) {
	s.provMu.Lock()
	c := s.providers[a]
	if c == nil {
		c = &providerCell{}
		s.providers[a] = c
	}
	s.provMu.Unlock()
	c.once.Do(func() { c.p, c.diags = s.evalProvider(a) })
	return c.p, c.diags
}

func (s *Store) evalProvider(a addr.ProviderInstance) (*Provider, diag.List) {
	p := &Provider{Addr: a}
	schemas := s.Code.Schemas.Provider(a.Provider)
	if schemas == nil || schemas.Provider.Block == nil {
		return p, diag.Errors("Provider not available",
			fmt.Sprintf("No schema is known for the provider %s.", a.Provider.Display()), nil)
	}
	block := schemas.Provider.Block
	p.Value = block.EmptyValue()
	m := s.Module(a.Module)
	if m != nil {
		p.Block = m.Node.ProviderBlock(a.Provider, a.Alias)
	}
	var diags diag.List
	if p.Block != nil && p.Block.Mock != nil {
		return p, nil // not configured
	}
	if p.Block != nil {
		rep := RepetitionOf(a.Key)
		if name, ok := a.Key.Str(); ok {
			rep.EachValue = m.Node.ProviderInstances[p.Block.Local()][name]
		}
		p.Value, diags = s.Code.Body(p.Block.Config, block).Eval(m.Scope, rep, cty.NilVal)
		if diags.HasErrors() {
			return p, diags
		}
		p.Strings, p.Ephemeral = topStrings(p.Value), marks.Contains(p.Value, marks.Ephemeral)
	}
	bare, _ := p.Value.UnmarkDeep()
	p.Unknown = !bare.IsWhollyKnown()
	encoded, err := coding.EncodeValue(bare, block.ImpliedType())
	if err != nil {
		return p, diags.Append(diag.New(diag.Error, "Invalid provider configuration", err.Error(), nil))
	}
	p.Encoded = encoded
	h := sha256.New()
	h.Write([]byte(a.String()))
	h.Write([]byte{0})
	h.Write(encoded)
	p.Digest = hex.EncodeToString(h.Sum(nil))
	return p, diags
}

// ProviderKeys returns the keys of the instances of a provider block, sorted.
func (m *Module) ProviderKeys(block *config.ProviderConfig) []addr.Key {
	if block.ForEach == nil {
		return []addr.Key{addr.NoKey}
	}
	var keys []addr.Key
	for name := range m.Node.ProviderInstances[block.Local()] {
		keys = append(keys, addr.StringKey(name))
	}
	slices.SortFunc(keys, func(a, b addr.Key) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// HasProvider reports whether the configuration has a provider configuration: a block, or a module that may use
// the provider without one.
func (s *Store) HasProvider(pc addr.ProviderConfig) bool {
	node := s.Code.Tree.Modules[pc.Module]
	if node == nil {
		return false
	}
	return node.ProviderBlock(pc.Provider, pc.Alias) != nil || (pc.Module.IsRoot() && pc.Alias == "")
}

// HasInstance reports whether an existing provider configuration has the instance.
func (s *Store) HasInstance(pi addr.ProviderInstance) bool {
	pc := pi.Config()
	node := s.Code.Tree.Modules[pc.Module]
	block := node.ProviderBlock(pc.Provider, pc.Alias)
	key, isString := pi.Key.Str()
	if block == nil || block.ForEach == nil {
		return pi.Key == addr.NoKey
	}
	_, ok := node.ProviderInstances[block.Local()][key]
	return isString && ok
}

// ProviderOf returns the provider instance of an instance of a resource block.
func (m *Module) ProviderOf(r *config.Resource, rep eval.Repetition) (addr.ProviderInstance, diag.List) {
	resolved, diags := m.Node.ResolveProvider(r.Provider)
	if diags.HasErrors() {
		return addr.ProviderInstance{}, diags
	}
	out := resolved.Config.Instance(m.above(resolved.Config.Module).Addr, addr.NoKey)
	var expr hcl.Expression
	in, keyRep := m, rep
	switch {
	case r.ProviderKeyExpr != nil:
		expr = r.ProviderKeyExpr
	case resolved.Key != nil:
		expr = resolved.Key
		called := m.above(resolved.KeyCall.Path)
		in, keyRep = called.parent, called.Repetition
	}
	if expr == nil {
		return out, diags
	}
	v, more := m.store.Code.Expr(expr).Eval(in.Scope, cty.String, keyRep, cty.NilVal)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return out, diags
	}
	v, _ = v.Unmark()
	if !v.IsKnown() {
		if m.store.Phase == Validating {
			return out, diags
		}
		return out, diags.Append(diag.New(diag.Error, "Invalid provider instance key", "The key that chooses an "+
			"instance of the provider configuration is not known before the apply; it must be made of values that "+
			"are known when planning.", expr.Range().Ptr()))
	}
	if v.IsNull() {
		return out, diags.Append(diag.New(diag.Error, "Invalid provider instance key", "The key that chooses an "+
			"instance of the provider configuration must not be null.", expr.Range().Ptr()))
	}
	out.Key = addr.StringKey(v.AsString())
	if resolved.Block != nil && resolved.Block.ForEach != nil {
		home := m.above(resolved.Config.Module)
		if _, ok := home.Node.ProviderInstances[resolved.Block.Local()][v.AsString()]; !ok {
			return out, diags.Append(diag.New(diag.Error, "Provider instance not present",
				fmt.Sprintf("The provider configuration %s has no instance with the key %q.", resolved.Config,
					v.AsString()), expr.Range().Ptr()))
		}
	}
	return out, diags
}

// above returns the instance of a static module that contains m, or m itself.
func (m *Module) above(path addr.Module) *Module {
	for m.Node.Path != path {
		m = m.parent
	}
	return m
}

func topStrings(v cty.Value) map[string]string {
	out := map[string]string{}
	if v.IsMarked() || v.IsNull() || !v.IsKnown() {
		return out
	}
	for name := range v.Type().AttributeTypes() {
		av := v.GetAttr(name)
		if marks.Contains(av, marks.Sensitive) || marks.Contains(av, marks.Ephemeral) {
			continue
		}
		if av, _ = av.UnmarkDeep(); av.Type() == cty.String && av.IsKnown() && !av.IsNull() {
			out[name] = av.AsString()
		}
	}
	return out
}
