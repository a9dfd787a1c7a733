package values

import (
	"fmt"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
)

// outputCell is the value of an output. The output's own vertex sets it. It is not computed on demand, because
// a reference to one output of a module must not compute the others too early.
type outputCell struct {
	mu    sync.RWMutex
	value cty.Value
}

func (c *outputCell) set(v cty.Value) {
	c.mu.Lock()
	c.value = v
	c.mu.Unlock()
}

func (c *outputCell) get() cty.Value {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.value == cty.NilVal {
		return cty.DynamicVal
	}
	return c.value
}

// EvalOutput evaluates an output of this module instance and stores its value. It does not check preconditions.
func (m *Module) EvalOutput(name string) (cty.Value, diag.List) {
	o := m.Node.Module.Outputs[name]
	v, diags := m.store.Code.Expr(o.Expr).Eval(m.Scope, cty.DynamicPseudoType, eval.Once, cty.NilVal)
	if diags.HasErrors() {
		v = cty.DynamicVal
	}
	root := m.Addr.IsRoot()
	if root && o.Ephemeral {
		return cty.DynamicVal, diags.Append(diag.New(diag.Error, "Invalid output configuration",
			fmt.Sprintf("The output %q is of the root module, whose outputs are stored, so it cannot be ephemeral.",
				name), o.Range.Ptr()))
	}
	if marks.Contains(v, marks.Ephemeral) && !o.Ephemeral {
		return cty.DynamicVal, diags.Append(diag.New(diag.Error, "Output does not allow ephemeral value",
			fmt.Sprintf("The value of output %q comes from an ephemeral context. Values from ephemeral contexts can "+
				"leave a module only through an output that is marked with ephemeral = true; a root module output "+
				"cannot be.", name),
			o.Expr.Range().Ptr()))
	}
	if root && !o.Sensitive && marks.Contains(v, marks.Sensitive) {
		return cty.DynamicVal, diags.Append(&diag.Diagnostic{
			Severity: diag.Error,
			Summary:  "Output refers to sensitive values",
			Detail: fmt.Sprintf("The value of output %q is sensitive, or has something sensitive inside. A root "+
				"module output that holds sensitive data must say so, to confirm that exporting it is intended. To "+
				"do that, add the argument:\n    sensitive = true", name),
			Subject: o.Range.Ptr(),
		})
	}
	if o.Sensitive {
		v = v.Mark(marks.Sensitive)
	}
	if o.Ephemeral {
		v = v.Mark(marks.Ephemeral)
	}
	if o.Deprecated != "" && !root {
		v = v.Mark(marks.Deprecated{Message: o.Deprecated, Origin: m.qualified("output." + name),
			Remote: m.Node.Remote()})
	}
	if !root && m.store.Phase == Validating {
		// As in OpenTofu, validation does not know the outputs of called modules, not even whether they are
		// sensitive; planning does.
		m.outputs[name].set(cty.DynamicVal)
		return v, diags
	}
	m.outputs[name].set(v)
	return v, diags
}

// OutputValue returns the value that EvalOutput or SetOutput has stored, or an unknown value.
func (m *Module) OutputValue(name string) cty.Value { return m.outputs[name].get() }

// SetOutput stores a value from another phase (from a saved plan or a state).
func (m *Module) SetOutput(name string, v cty.Value) {
	if c := m.outputs[name]; c != nil {
		c.set(v)
	}
}

// PlainZeros returns a value without marks in which zeros replace negative zeros. OpenTofu's plans have no
// negative zeros, so planned outputs must not have them either.
func PlainZeros(v cty.Value) cty.Value {
	negative := func(v cty.Value) bool {
		if v.Type() != cty.Number || v.IsNull() || !v.IsKnown() {
			return false
		}
		n := v.AsBigFloat()
		return n.Sign() == 0 && n.Signbit()
	}
	found := false
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) { // the callback never fails
		found = found || negative(v)
		return !found, nil
	})
	if !found {
		return v
	}
	plain, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if negative(v) {
			return cty.Zero, nil
		}
		return v, nil
	})
	if err != nil {
		return v // the callback never fails
	}
	return plain
}

// outputObject returns the value of the module instance in expressions.
func (m *Module) outputObject() cty.Value {
	attrs := make(map[string]cty.Value, len(m.outputs))
	for name, c := range m.outputs {
		attrs[name] = c.get()
	}
	return cty.ObjectVal(attrs)
}
