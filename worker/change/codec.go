package change

import (
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
)

// decode decodes a value of a task. A value that does not conform was made with another schema than the provider
// has now.
func (h Host) decode(data []byte, ty cty.Type, what string) (cty.Value, diag.List) {
	v, err := coding.DecodeValue(data, ty)
	if err != nil {
		return cty.NilVal, diag.List{h.schemaMismatch(what, err)}
	}
	return v, nil
}

func (h Host) schemaMismatch(what string, err error) *diag.Diagnostic {
	return h.problem("Value does not fit the provider's schema",
		"The %s of %s cannot be read by the schema of provider %q: %s. The plan may have been made with another "+
			"build of the provider.",
		what, h.Address, h.Name, err)
}

// decodeObject decodes an object of the current schema from a task.
func (i instance) decodeObject(value, private, identity []byte, what string) (object, diag.List) {
	v, diags := i.decode(value, i.ty, what)
	o := object{value: v, private: private, identity: cty.NilVal}
	if i.identity != nil && len(identity) > 0 {
		id, more := i.decode(identity, i.identityTy, "identity of the "+what)
		o.identity, diags = id, append(diags, more...)
	}
	return o, diags
}

func (h Host) decodeIgnored(paths [][]byte, all bool) (ignored, diag.List) {
	decoded, diags := h.decodePaths(paths, "ignore_changes argument")
	return ignored{all: all, paths: decoded}, diags
}

func (h Host) decodePaths(paths [][]byte, what string) ([]cty.Path, diag.List) {
	var out []cty.Path
	for _, data := range paths {
		path, err := coding.DecodePath(data)
		if err != nil {
			return nil, diag.List{h.schemaMismatch(what, err)}
		}
		out = append(out, path)
	}
	return out, nil
}

// encodeObject encodes an object for a result, without its write-only attributes.
func (i instance) encodeObject(o object) (value, private, identity []byte) {
	if o.value.IsNull() {
		return nil, o.private, nil
	}
	value = encodeValue(withoutWriteOnly(i.block, o.value), i.ty)
	if o.identity != cty.NilVal {
		identity = encodeValue(o.identity, i.identityTy)
	}
	return value, o.private, identity
}

// encodeValue encodes a value that has been checked against the type, so that it cannot fail.
func encodeValue(v cty.Value, ty cty.Type) []byte {
	data, err := coding.EncodeValue(v, ty)
	if err != nil {
		panic("change: a checked value does not encode: " + err.Error())
	}
	return data
}

func encodePaths(paths []cty.Path) [][]byte {
	var out [][]byte
	for _, path := range paths {
		data, err := coding.EncodePath(path)
		if err != nil {
			panic("change: a path does not encode: " + err.Error())
		}
		out = append(out, data)
	}
	return out
}

func quoted(s string) string { return strconv.Quote(s) }
