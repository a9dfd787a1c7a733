package document

import (
	"encoding/json"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/schema"
)

// jsonExpression is the JSON form of an expression: its value if it has no references, and its references.
type jsonExpression struct {
	ConstantValue json.RawMessage `json:"constant_value,omitempty"`
	References    []string        `json:"references,omitempty"`
}

// expressionForm returns the form of an expression, never nil: without references and value it is empty.
func expressionForm(e hcl.Expression) *jsonExpression {
	out := &jsonExpression{}
	if e == nil {
		return out
	}
	// An expression with references fails here; they are listed instead.
	if v, diags := e.Value(nil); v != cty.NilVal && !diags.HasErrors() {
		if b, err := ctyjson.Marshal(v, v.Type()); err == nil {
			out.ConstantValue = b
		}
	}
	refs, _ := eval.ExprReferences(e) // errors were reported when the configuration was loaded
	for _, r := range refs {
		out.References = append(out.References, referenceForms(r.Reference)...)
	}
	return out
}

func (e *jsonExpression) isEmpty() bool { return e.ConstantValue == nil && e.References == nil }

// referenceForms returns the forms of a reference from the most specific to the most general: a.b.c[0].d, a.b.c[0],
// a.b.c, a.b.
func referenceForms(r *addr.Reference) []string {
	var out []string
	subject := r.Subject.String()
	for rest := r.Remaining; len(rest) > 0; rest = rest[:len(rest)-1] {
		out = append(out, subject+traversalText(rest))
	}
	out = append(out, subject)
	switch s := r.Subject.(type) {
	case addr.ResourceRef:
		if s.Key != addr.NoKey {
			out = append(out, s.Resource.String())
		}
	case addr.ModuleCallInstance:
		if s.Key != addr.NoKey {
			out = append(out, addr.ModuleCall{Name: s.Name}.String())
		}
	case addr.ModuleOutput:
		out = append(out, s.Call.String())
	}
	return out
}

// repetitionForms returns the forms of count and for_each; at least one of them is nil.
func repetitionForms(count, forEach hcl.Expression) (*jsonExpression, *jsonExpression) {
	if f := expressionForm(count); !f.isEmpty() {
		return f, nil
	}
	if f := expressionForm(forEach); !f.isEmpty() {
		return nil, f
	}
	return nil, nil
}

// expressionForms returns the forms of the arguments in a body, nested blocks included. Dynamic blocks are left
// out.
func expressionForms(body hcl.Body, block *schema.Block) map[string]any {
	if body == nil || block == nil {
		return nil
	}
	// Mistakes were reported when the configuration was checked.
	content, _, _ := body.PartialContent(hcldec.ImpliedSchema(eval.Spec(block)))
	if content == nil {
		return nil
	}
	out := map[string]any{}
	for name, attr := range content.Attributes {
		out[name] = expressionForm(attr.Expr)
	}
	for _, b := range content.Blocks {
		nb := block.Blocks[b.Type]
		if nb == nil {
			continue
		}
		inner := expressionForms(b.Body, &nb.Block)
		switch nb.Nesting {
		case schema.NestingList, schema.NestingSet:
			list, _ := out[b.Type].([]map[string]any)
			out[b.Type] = append(list, inner)
		case schema.NestingMap:
			byLabel, ok := out[b.Type].(map[string]map[string]any)
			if !ok {
				byLabel = map[string]map[string]any{}
				out[b.Type] = byLabel
			}
			byLabel[b.Labels[0]] = inner
		default:
			out[b.Type] = inner
		}
	}
	return out
}
