package migration

import (
	"cmp"
	"encoding/json"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/lang/diag"
)

// Record is the backend that init has prepared. Its JSON is that of OpenTofu. The zero value is the local backend
// without a block.
type Record struct {
	Type string `json:"type"`
	// Config has the arguments in JSON, including those of -backend-config. Hash is a hash of the block, without the
	// arguments of -backend-config.
	Config json.RawMessage `json:"config"`
	Hash   uint64          `json:"hash"`
}

// Kind returns the type of the backend; without a block that is the local one.
func (r Record) Kind() string { return cmp.Or(r.Type, "local") }

// Same reports whether two records describe the same backend with the same arguments. A missing argument equals null,
// because the program that wrote the record may not have had it.
func (r Record) Same(o Record) bool {
	if r.Type != o.Type || r.Type == "" {
		return r.Type == o.Type
	}
	a, aErr := r.Arguments()
	b, bErr := o.Arguments()
	return aErr == nil && bErr == nil && a.RawEquals(b)
}

// Arguments returns the arguments of the recorded backend, without null arguments and empty collections: a missing
// block may have been recorded in either form. A record that cannot be read is an error.
func (r Record) Arguments() (cty.Value, error) {
	ty, err := ctyjson.ImpliedType(r.Config)
	if err != nil {
		return cty.NilVal, err
	}
	v, err := ctyjson.Unmarshal(r.Config, ty)
	if err != nil || v.IsNull() {
		return cty.EmptyObjectVal, err
	}
	set := map[string]cty.Value{}
	for name, arg := range v.AsValueMap() {
		empty := !arg.IsNull() && arg.CanIterateElements() && !arg.Type().IsObjectType() && arg.LengthInt() == 0
		if !arg.IsNull() && !empty {
			set[name] = arg
		}
	}
	return cty.ObjectVal(set), nil
}

// Values returns the arguments of the recorded backend, which has none without a block.
func (r Record) Values() (cty.Value, diag.List) {
	if r.Type == "" {
		return cty.EmptyObjectVal, nil
	}
	args, err := r.Arguments()
	if err != nil {
		return cty.NilVal, diag.Errors("Invalid backend configuration", err.Error()+".", nil)
	}
	return args, nil
}
