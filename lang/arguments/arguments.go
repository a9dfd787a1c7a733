// Package arguments decodes the arguments of a block by a schema, with environment variables and defaults as
// fallbacks.
//
// It evaluates no expressions, only processes their values. Backends and key providers have such blocks.
package arguments

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Arguments are the arguments of a block, or of a nested part of it, converted to the types of the schema. After
// Complete, environment and defaults are included. The zero value has none.
type Arguments struct {
	value cty.Value // an object; NilVal if there are no arguments
	path  cty.Path
}

// Spec describes the arguments of a block. A Spec is immutable.
type Spec struct {
	// Subject names the block's owner in messages: `the backend "s3"`.
	Subject string
	// Schema has the arguments and nested blocks. A nested attribute is an attribute of an object type with
	// optional attributes; the schema's Nested objects are not used here.
	Schema *schema.Block
	// Env maps arguments to the environment variables that are used as fallbacks; the first non-empty one is used.
	// An attribute of a nested attribute is written "endpoints.s3".
	Env map[string][]string
	// Defaults are the values of arguments that neither the configuration nor the environment sets.
	Defaults map[string]cty.Value
	// Conflicts are pairs of arguments. A configuration may set at most one argument of each pair.
	Conflicts [][2]string
}

// Type returns the type of a complete configuration: an object with all arguments and nested blocks.
func (s Spec) Type() cty.Type { return blockType(s.Schema) }

// blockType returns the type to which a block's configuration is converted: all of its arguments are optional.
func blockType(b *schema.Block) cty.Type {
	atys := make(map[string]cty.Type, len(b.Attributes)+len(b.Blocks))
	var names []string
	for name, a := range b.Attributes {
		atys[name] = a.ImpliedType()
		names = append(names, name)
	}
	for name, nb := range b.Blocks {
		atys[name] = blockType(&nb.Block)
		if nb.Nesting != schema.NestingSingle {
			atys[name] = cty.List(atys[name])
		}
		names = append(names, name)
	}
	return cty.ObjectWithOptionalAttrs(atys, names)
}

// Decode converts the value of a block, or of a map of arguments, to the schema's types. Arguments that are not set
// are null. Missing required arguments are not reported, because the environment may set them.
func (s Spec) Decode(config cty.Value) (Arguments, diag.List) {
	none := Arguments{value: cty.NullVal(cty.EmptyObject)}
	if config == cty.NilVal {
		return none, nil
	}
	config, _ = config.UnmarkDeep()
	if config.IsNull() || !config.IsKnown() {
		return none, nil
	}
	if t := config.Type(); !t.IsObjectType() && !t.IsMapType() {
		return none, diag.Errors("Invalid backend configuration",
			fmt.Sprintf("The configuration of %s has to be an object.", s.Subject), nil)
	}
	want := s.Type().AttributeTypes()
	given := config.AsValueMap()
	values := make(map[string]cty.Value, len(want))
	var diags diag.List
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at := cty.GetAttrPath(name)
		ty, ok := want[name]
		if !ok {
			diags = diags.Append(Problem(at, "Unsupported argument", fmt.Sprintf("An argument named %q is not "+
				"expected here.", name)))
			continue
		}
		v, err := syntax.Convert(asBlocks(given[name], s.Schema.Blocks[name]), ty)
		if err != nil {
			var inner cty.PathError
			if errors.As(err, &inner) {
				at = append(at, inner.Path...)
			}
			diags = diags.Append(Problem(at, "Incorrect attribute value type", fmt.Sprintf("Inappropriate value for "+
				"attribute %q: %s.", name, err)))
			continue
		}
		values[name] = v
	}
	for name, ty := range want {
		if _, ok := values[name]; !ok {
			values[name] = cty.NullVal(ty)
		}
	}
	args := Arguments{value: cty.ObjectVal(values)}
	for _, pair := range s.Conflicts {
		if args.Given(pair[0]) && args.Given(pair[1]) {
			diags = diags.Append(Problem(cty.GetAttrPath(pair[0]), "Invalid combination of arguments",
				fmt.Sprintf("%q: conflicts with %s.", pair[0], pair[1])))
		}
	}
	return args, diags
}

// asBlocks accepts one object for a list of one block, as in a configuration that is written as a map, and a list
// of one for a block that exists only once.
func asBlocks(v cty.Value, block *schema.NestedBlock) cty.Value {
	if block == nil || v.IsNull() || !v.IsKnown() {
		return v
	}
	isOne := v.Type().IsObjectType() || v.Type().IsMapType()
	switch single := block.Nesting == schema.NestingSingle; {
	case isOne && !single:
		return cty.TupleVal([]cty.Value{v})
	case !isOne && single && v.CanIterateElements() && v.LengthInt() == 1:
		return v.AsValueSlice()[0]
	}
	return v
}

// Complete fills in the environment and the defaults. An argument that is set to "" is not replaced by the
// environment, and then counts as not set.
func (s Spec) Complete(a Arguments, env func(string) string) (Arguments, diag.List) {
	var diags diag.List
	values := map[string]cty.Value{}
	if a.value != cty.NilVal && !a.value.IsNull() {
		values = a.value.AsValueMap()
	}
	for name, ty := range s.Type().AttributeTypes() {
		v, ok := values[name]
		if !ok {
			v = cty.NullVal(ty)
		}
		if v.IsNull() {
			var more diag.List
			v, more = fromEnvironment(name, ty, s.Env[name], env)
			diags = diags.Append(more)
		} else if ty == cty.String && v.AsString() == "" && len(s.Env[name]) > 0 {
			v = cty.NullVal(ty)
		}
		v, more := completeNested(name, v, ty, s.Env, env)
		diags = diags.Append(more)
		if d, ok := s.Defaults[name]; ok && v.IsNull() {
			v = d
		}
		values[name] = v
	}
	return Arguments{value: cty.ObjectVal(values)}, diags
}

// fromEnvironment returns the value of the first non-empty variable; null if all are empty.
func fromEnvironment(argument string, ty cty.Type, names []string, env func(string) string) (cty.Value, diag.List) {
	for _, n := range names {
		text := env(n)
		if text == "" {
			continue
		}
		given := cty.StringVal(text)
		if ty.IsListType() || ty.IsSetType() { // one element; kinds with a separator read the variable themselves
			given = cty.TupleVal([]cty.Value{given})
		}
		v, err := syntax.Convert(given, ty)
		if err != nil {
			return cty.NullVal(ty), diag.List{Problem(cty.GetAttrPath(argument), "Invalid environment variable",
				fmt.Sprintf("The environment variable %s, which replaces %q, has a value that does not fit: %s.",
					n, argument, err))}
		}
		return v, nil
	}
	return cty.NullVal(ty), nil
}

// completeNested fills in the environment for the attributes of one nested attribute. It creates the object if only
// the environment sets attributes.
func completeNested(name string, v cty.Value, ty cty.Type, envs map[string][]string, env func(string) string) (
	cty.Value, diag.List) {
	if !ty.IsObjectType() {
		return v, nil
	}
	var diags diag.List
	values := map[string]cty.Value{}
	if !v.IsNull() {
		values = v.AsValueMap()
	}
	found := !v.IsNull()
	for inner, ity := range ty.AttributeTypes() {
		iv, ok := values[inner]
		if !ok {
			iv = cty.NullVal(ity)
		}
		if iv.IsNull() {
			var more diag.List
			iv, more = fromEnvironment(name, ity, envs[name+"."+inner], env)
			diags, found = diags.Append(more), found || !iv.IsNull()
		}
		values[inner] = iv
	}
	if !found {
		return v, diags
	}
	return cty.ObjectVal(values), diags
}

// at returns the value of an argument; null when it is not set.
func (a Arguments) at(name string) cty.Value {
	if a.value == cty.NilVal || a.value.IsNull() || !a.value.Type().HasAttribute(name) {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return a.value.GetAttr(name)
}

// Known reports whether the value of an argument is known.
func (a Arguments) Known(name string) bool { return a.at(name).IsKnown() }

// Given reports whether an argument is set to something other than an empty string, list, set or map.
func (a Arguments) Given(name string) bool {
	v := a.at(name)
	switch {
	case v.IsNull():
		return false
	case !v.IsKnown():
		return true
	case v.Type() == cty.String:
		return v.AsString() != ""
	case v.Type().IsCollectionType():
		return v.LengthInt() > 0
	}
	return true
}

// String returns a string argument; empty when it is not set.
func (a Arguments) String(name string) string {
	v := a.at(name)
	if v.IsNull() {
		return ""
	}
	return v.AsString()
}

// Bool returns a bool argument; false when it is not set.
func (a Arguments) Bool(name string) bool {
	v := a.at(name)
	return !v.IsNull() && v.True()
}

// Int returns a whole-number argument, rounded towards zero; 0 when it is not set.
func (a Arguments) Int(name string) int {
	v := a.at(name)
	if v.IsNull() {
		return 0
	}
	n, _ := v.AsBigFloat().Int64()
	return int(n)
}

// Strings returns a list or set of strings, null elements left out.
func (a Arguments) Strings(name string) []string {
	var out []string
	v := a.at(name)
	if v.IsNull() {
		return nil
	}
	for it := v.ElementIterator(); it.Next(); {
		if _, e := it.Element(); !e.IsNull() {
			out = append(out, e.AsString())
		}
	}
	return out
}

// Map returns a map of strings, null elements left out.
func (a Arguments) Map(name string) map[string]string {
	v := a.at(name)
	if v.IsNull() {
		return nil
	}
	out := map[string]string{}
	for it := v.ElementIterator(); it.Next(); {
		if k, e := it.Element(); !e.IsNull() {
			out[k.AsString()] = e.AsString()
		}
	}
	return out
}

// Nested returns a nested attribute, or the first nested block of a type; ok is false when there is none.
func (a Arguments) Nested(name string) (nested Arguments, ok bool) {
	v := a.at(name)
	path := append(slices.Clone(a.path), cty.GetAttrStep{Name: name})
	if !v.IsNull() && v.Type().IsListType() {
		if v.LengthInt() == 0 {
			return Arguments{path: path}, false
		}
		path = append(path, cty.IndexStep{Key: cty.NumberIntVal(0)})
		v = v.Index(cty.NumberIntVal(0))
	}
	if v.IsNull() {
		return Arguments{path: path}, false
	}
	return Arguments{value: v, path: path}, true
}

// Count returns how many nested blocks of a type there are.
func (a Arguments) Count(name string) int {
	v := a.at(name)
	if v.IsNull() {
		return 0
	}
	return v.LengthInt()
}

// Problem returns a problem with an argument.
func (a Arguments) Problem(name, summary, detail string) *diag.Diagnostic {
	d := Problem(append(slices.Clone(a.path), cty.GetAttrStep{Name: name}), summary, detail)
	if secret[name] {
		d.Extra = diag.Confidential{}
	}
	return d
}

// secret has the arguments of backends and key providers whose values may contain a secret: keys, tokens, and addresses
// with a password.
var secret = map[string]bool{
	"access_key": true, "access_token": true, "address": true, "client_certificate": true,
	"client_certificate_password": true, "client_key": true, "client_private_key_pem": true, "client_secret": true,
	"conn_str": true, "credentials": true, "customer_provided_key": true, "encryption_key": true, "headers": true,
	"http_auth": true, "http_proxy": true, "https_proxy": true, "lock_address": true, "oidc_request_token": true,
	"oidc_token": true, "passphrase": true, "password": true, "sas_token": true, "secret_key": true,
	"security_token": true, "sse_customer_key": true, "token": true, "unlock_address": true, "web_identity_token": true,
}

// Problem returns an error about the argument at a path.
func Problem(at cty.Path, summary, detail string) *diag.Diagnostic {
	if !strings.HasSuffix(detail, ".") && !strings.HasSuffix(detail, "\n") {
		detail += "."
	}
	d := diag.New(diag.Error, summary, detail, nil)
	d.Path = at
	return d
}

// Recorded returns all arguments of a block, null if they are not set, for init to record. The environment and
// defaults are not included.
func (a Arguments) Recorded(k interface{ Type() cty.Type }) cty.Value {
	if a.value != cty.NilVal && !a.value.IsNull() {
		return a.value
	}
	values := map[string]cty.Value{}
	for name, ty := range k.Type().AttributeTypes() {
		values[name] = cty.NullVal(ty)
	}
	return cty.ObjectVal(values)
}

// Set reports whether an argument is set, possibly to an empty value.
func (a Arguments) Set(name string) bool { return !a.at(name).IsNull() }

// WhollyKnown reports whether nothing in the arguments is unknown.
func (a Arguments) WhollyKnown() bool { return a.value == cty.NilVal || a.value.IsWhollyKnown() }

// Has reports whether the block has such an argument, set or not.
func (a Arguments) Has(name string) bool {
	return a.value != cty.NilVal && !a.value.IsNull() && a.value.Type().HasAttribute(name)
}
