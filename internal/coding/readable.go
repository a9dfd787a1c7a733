package coding

import (
	"encoding/json"

	"github.com/zclconf/go-cty/cty"
)

// Readable returns the valid attributes of an object of the given type that DecodeValue, or DecodeJSON, rejects as
// a whole.
func Readable(data []byte, isJSON bool, ty cty.Type) map[string]cty.Value {
	if !ty.IsObjectType() {
		return nil
	}
	types, read := ty.AttributeTypes(), map[string]cty.Value{}
	if isJSON {
		var parts map[string]json.RawMessage
		if checkJSON(data, jsonValueDepth, false) != nil || json.Unmarshal(data, &parts) != nil {
			return nil
		}
		for name, part := range parts {
			if of, ok := types[name]; ok {
				if v, err := DecodeJSON(part, of); err == nil {
					read[name] = v
				}
			}
		}
		return read
	}
	if len(data) == 0 {
		return nil
	}
	n, data, ok := lengthOf(data, mapping)
	for ; ok && n > 0; n-- { // up to the first malformed byte
		name, rest, isText := textOf(data)
		after, err := skipValue(rest, valueDepth)
		if !isText || err != nil {
			break
		}
		if of, ok := types[string(name)]; ok {
			if v, err := DecodeValue(rest[:len(rest)-len(after)], of); err == nil {
				read[string(name)] = v
			}
		}
		data = after
	}
	return read
}
