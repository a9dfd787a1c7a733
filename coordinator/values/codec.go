package values

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// DecodeStored returns the value of a stored object of the current schema version, with its sensitive marks. It
// is an error if the object has another schema version or the old flatmap form, which only its provider can
// read.
func DecodeStored(o *state.Object, s *schema.Schema) (cty.Value, error) {
	if o.SchemaVersion != s.Version || o.Flatmap != nil {
		return cty.DynamicVal, fmt.Errorf("the object is stored with schema version %d, and the provider's is %d",
			o.SchemaVersion, s.Version)
	}
	v, err := coding.UnmarshalJSON(o.Attrs, s.Block.ImpliedType())
	if err != nil {
		return cty.DynamicVal, err
	}
	return MarkSensitive(v, s.Block, o.Sensitive), nil
}

// MarkSensitive marks the attributes that the schema declares sensitive, and the given paths.
func MarkSensitive(v cty.Value, b *schema.Block, paths []cty.Path) cty.Value {
	v = marks.Apply(v, marks.Sensitive, paths)
	if declared := b.SensitivePaths(v); len(declared) > 0 {
		v = marks.Apply(v, marks.Sensitive, declared)
	}
	return v
}

// EncodeStoredData is EncodeStored for the result of a data source: as in OpenTofu, the state keeps only the
// paths that the configuration made sensitive, because the schema adds the others whenever the value is used.
func EncodeStoredData(v cty.Value, b *schema.Block, marked []cty.Path) ([]byte, []cty.Path, error) {
	bare, _ := v.UnmarkDeep()
	return EncodeStored(marks.Apply(bare, marks.Sensitive, marked), b)
}

// EncodeStored returns the stored form of a value: its JSON, and the paths of its sensitive parts, including
// those that are sensitive by the schema.
func EncodeStored(v cty.Value, b *schema.Block) (attrs []byte, sensitive []cty.Path, err error) {
	bare, sensitive := marks.Separate(v, marks.Sensitive)
	attrs, err = coding.EncodeJSON(bare, b.ImpliedType())
	return attrs, sensitive, err
}

// PathKey returns a text that is equal for equal paths and different for different ones.
func PathKey(p cty.Path) string {
	s := ""
	for _, step := range p {
		switch step := step.(type) {
		case cty.GetAttrStep:
			s += "." + step.Name
		case cty.IndexStep:
			s += "[" + step.Key.GoString() + "]"
		}
	}
	return s
}

// StoredForWire returns the form of a stored object for workers.
func StoredForWire(o *state.Object) *wire.StoredObject {
	if o == nil {
		return nil
	}
	return &wire.StoredObject{
		SchemaVersion: o.SchemaVersion, Attrs: o.Attrs, Flatmap: o.Flatmap, Private: o.Private,
		Identity: o.Identity, IdentityVersion: o.IdentityVersion, Tainted: o.Status == state.Tainted,
	}
}

// WireProvider returns the evaluated provider instance for the objects of a resource, in the form for workers.
// The vertex of a provider block reports its problems, so WireProvider returns a failure without text if there
// is no other problem.
func WireProvider(s *Store, pi addr.ProviderInstance, pkg wire.Package, of addr.ConfigResource) (wire.Provider,
	*Provider, diag.List) {
	p, diags := s.Provider(pi)
	if diags.HasErrors() && p.Block == nil {
		return wire.Provider{}, p, diags
	}
	out := wire.Provider{Package: pkg, Address: pi.String(), Config: p.Encoded, Digest: p.Digest, Dir: s.WorkDir}
	if given, mocked := s.mocked(p, of); mocked {
		out.Config, out.Digest, out.Mock = nil, "", &wire.Mock{}
		if len(given) > 0 {
			// literals can always be marshalled
			out.Mock.Values, _ = ctyjson.Marshal(cty.ObjectVal(given), cty.ObjectVal(given).Type())
		}
		return out, p, diags
	}
	if s.Defers {
		out.MayDefer, out.Digest = true, out.Digest+deferring
	}
	return out, p, diags
}

// deferring ends the digests of providers that may put off what they are asked: they are other processes, because a
// provider is told that when it is configured.
const deferring = "+defers"

// mocked reports whether a test mocks the provider for a resource, and returns the given values of computed
// attributes.
func (s *Store) mocked(p *Provider, of addr.ConfigResource) (given map[string]cty.Value, mocked bool) {
	if o := s.Code.Tree.Override(of); o != nil {
		return o.Values, true
	}
	if p.Block != nil && p.Block.Mock != nil {
		return p.Block.Mock.Values(of), true
	}
	return nil, false
}

// Observed is the Extra of a problem with the data source of a check block. The problem becomes a warning,
// because a check only observes.
type Observed struct {
	// Check is the address of the check block.
	Check string
	// Problem is the original problem.
	Problem *diag.Diagnostic
}

// Observe converts the problems of reading the data source of a check block to warnings.
func Observe(r *config.Resource, at addr.ModuleInstance, problems diag.List) diag.List {
	check := "check." + r.Check
	if !at.IsRoot() {
		check = at.String() + "." + check
	}
	out := problems.AsWarnings()
	for i, d := range out {
		d.Extra = &Observed{check, problems[i]}
	}
	return out
}

// OfCheck reports whether a diagnostic concerns a check block: one of its assertions, or its data source.
func OfCheck(d *diag.Diagnostic) bool {
	switch of := d.Extra.(type) {
	case *Observed:
		return true
	case *eval.Rule:
		return of.Kind == eval.CheckAssertion
	}
	return false
}

// WireDiags converts diagnostics of a worker. ranges, if not nil, returns the place of a path in the
// configuration.
func WireDiags(list []wire.Diagnostic, ranges func(cty.Path) *hcl.Range) diag.List {
	diags := wire.DiagsFromWire(list)
	if ranges == nil {
		return diags
	}
	for i, d := range diags {
		if d.Subject == nil {
			diags[i] = d.WithSubject(ranges(d.Path))
		}
	}
	return diags
}

// EncodePaths encodes paths for the wire.
func EncodePaths(paths []cty.Path) ([][]byte, error) {
	var out [][]byte
	for _, p := range paths {
		b, err := coding.EncodePath(p)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// DecodePaths is the inverse of EncodePaths.
func DecodePaths(coded [][]byte) ([]cty.Path, error) {
	var out []cty.Path
	for _, c := range coded {
		p, err := coding.DecodePath(c)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
