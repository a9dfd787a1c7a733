package tfstate

import (
	"encoding/json"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
)

// pathStep is one step of the path of a sensitive attribute.
type pathStep struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

const (
	indexStep   = "index"
	getAttrStep = "get_attr"
)

func readPaths(raw []byte) ([]cty.Path, diag.List) {
	if isNull(raw) || string(raw) == "[]" {
		return nil, nil
	}
	var in [][]pathStep
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, diag.Errors("Error unmarshaling path steps",
			"The sensitive attributes of an instance cannot be read: "+err.Error()+".", nil)
	}
	var diags diag.List
	var paths []cty.Path
	for _, steps := range in {
		path, err := readPath(steps)
		if err != nil {
			diags = diags.Append(err)
			continue
		}
		paths = append(paths, path)
	}
	return paths, diags
}

func readPath(steps []pathStep) (cty.Path, *diag.Diagnostic) {
	path := make(cty.Path, 0, len(steps))
	for _, s := range steps {
		switch s.Type {
		case indexStep:
			key, err := coding.DecodeJSON(s.Value, cty.DynamicPseudoType)
			if err == nil {
				err = checkNumbers(key)
			}
			if err != nil {
				return nil, failure("Error unmarshaling path step", fmt.Sprintf("The index in the path of a "+
					"sensitive attribute cannot be read: %s.", err))
			}
			path = append(path, cty.IndexStep{Key: key})
		case getAttrStep:
			var name string
			if err := json.Unmarshal(s.Value, &name); err != nil {
				return nil, failure("Error unmarshaling path step", fmt.Sprintf("The name in the path of a sensitive "+
					"attribute cannot be read: %s.", err))
			}
			path = append(path, cty.GetAttrStep{Name: name})
		default:
			return nil, failure("Unsupported path step", fmt.Sprintf("The path of a sensitive attribute has a step "+
				"of type %q, which is not known.", s.Type))
		}
	}
	return path, nil
}

// maxExponent is the largest power of two for a number: about 15,000 digits. Formatting larger numbers would take
// unbounded time.
const maxExponent = 50000

// checkNumbers rejects values with absurdly large numbers.
func checkNumbers(v cty.Value) error {
	return cty.Walk(v, func(p cty.Path, v cty.Value) (bool, error) {
		if v.Type() != cty.Number || v.IsNull() || !v.IsKnown() {
			return true, nil
		}
		if exp := v.AsBigFloat().MantExp(nil); exp > maxExponent || exp < -maxExponent {
			return false, p.NewErrorf("a number has more than 15,000 digits")
		}
		return true, nil
	})
}

// appendPaths appends the paths as JSON; no paths are an empty list.
func appendPaths(dst []byte, paths []cty.Path) ([]byte, error) {
	if len(paths) == 0 {
		return append(dst, "[]"...), nil
	}
	out := make([][]pathStep, len(paths))
	for i, p := range paths {
		out[i] = make([]pathStep, len(p))
		for j, s := range p {
			var err error
			switch s := s.(type) {
			case cty.IndexStep:
				out[i][j].Type = indexStep
				out[i][j].Value, err = ctyjson.Marshal(s.Key, cty.DynamicPseudoType)
			case cty.GetAttrStep:
				out[i][j].Type = getAttrStep
				out[i][j].Value, err = json.Marshal(s.Name)
			}
			if err != nil {
				return nil, fmt.Errorf("the path of a sensitive attribute: %w", err)
			}
		}
	}
	raw, err := json.Marshal(out)
	return append(dst, raw...), err
}
