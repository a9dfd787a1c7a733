package values

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Module implements eval.Data. It does not repeat the problems of referenced values: their own vertices report
// them.

// Variable implements eval.Data. Validation is about all values that a variable can have, so there every variable is
// unknown, also where the argument of a module call is a constant.
func (m *Module) Variable(v addr.Variable, _ hcl.Range) (cty.Value, diag.List) {
	if declared := m.Node.Module.Variables[v.Name]; declared != nil && m.store.Phase == Validating {
		return markVariable(declared, cty.UnknownVal(declared.Type), m.Addr), nil
	}
	value, _ := m.VariableValue(v.Name)
	return value, nil
}

// VariableValue returns the final value of an input variable, with its marks, and the problems of computing it,
// except those of its validations. An undeclared variable is unknown. In validation a variable of a called module has
// the value of its argument, which is checked against the type; references to the variable do not get this value.
func (m *Module) VariableValue(name string) (cty.Value, diag.List) {
	c := m.variables[name]
	if c == nil {
		return cty.DynamicVal, nil
	}
	v := m.Node.Module.Variables[name]
	value := c.get(func() (cty.Value, diag.List) {
		if m.parent == nil {
			return m.rootVariable(v)
		}
		return m.calledVariable(v)
	})
	return value, c.diags
}

// rootVariable returns the given value of a root variable. During validation it is unknown.
func (m *Module) rootVariable(v *config.Variable) (cty.Value, diag.List) {
	in := m.store.Inputs[v.Name]
	if m.store.Phase == Validating {
		return markVariable(v, cty.UnknownVal(v.Type), m.Addr), nil
	}
	if in.Value == cty.NilVal {
		if v.Required() && m.store.Phase == Evaluating {
			return markVariable(v, cty.UnknownVal(v.Type), m.Addr), nil
		}
		if v.Required() {
			return cty.DynamicVal, diag.Errors("No value for required variable",
				fmt.Sprintf("The root module input variable %q is not set, and has no default value. Set it with the -var or "+
					"-var-file option, or in the environment as TF_VAR_%s.", v.Name, v.Name),
				v.Range.Ptr())
		}
		return markVariable(v, v.Default, m.Addr), nil
	}
	rng := in.Range
	if rng == nil {
		rng = v.Range.Ptr()
	}
	return m.convertVariable(v, in.Value, rng, in.Source)
}

// calledVariable returns the value of a variable from the argument of the module call.
func (m *Module) calledVariable(v *config.Variable) (cty.Value, diag.List) {
	attr := m.store.Code.Arguments(m.Node.Call)[v.Name]
	if attr == nil {
		if v.Required() {
			return markVariable(v, cty.UnknownVal(v.Type), m.Addr), nil // reported when the configuration was loaded
		}
		return markVariable(v, v.Default, m.Addr), nil
	}
	value, diags := m.store.Code.Expr(attr.Expr).Eval(m.parent.Scope, cty.DynamicPseudoType, m.Repetition, cty.NilVal)
	if diags.HasErrors() {
		return cty.UnknownVal(v.Type), diags
	}
	rng := attr.Expr.Range().Ptr()
	value, more := m.convertVariable(v, value, rng, "")
	diags = diags.Append(more)
	if m.store.Phase == Validating && !diags.HasErrors() {
		diags = diags.Append(config.IgnoredAttributes(attr.Expr, v)) // once: planning and applying do not repeat it
	}
	if v.Deprecated != "" && !diags.HasErrors() {
		diags = diags.Append(&diag.Diagnostic{
			Severity: diag.Warning, Summary: "Variable marked as deprecated by the module author", Subject: rng,
			Detail: fmt.Sprintf("The variable %q is deprecated. Its author says:\n%s", v.Name, v.Deprecated),
			Extra: marks.Deprecated{Message: v.Deprecated, Origin: m.qualified("var." + v.Name),
				Remote: m.Node.Remote()},
		})
	}
	return value, diags
}

// convertVariable converts a given value to the declared type: null becomes the default if the variable is not
// nullable, and optional attributes get their defaults.
func (m *Module) convertVariable(v *config.Variable, given cty.Value, rng *hcl.Range,
	source string) (cty.Value, diag.List) {
	what := fmt.Sprintf("The given value is not suitable for %s declared at %s: ", m.qualified("var."+v.Name), v.Range)
	if source != "" {
		what = fmt.Sprintf("Unsuitable value for %s set using %s: ", m.qualified("var."+v.Name), source)
	}
	if !v.Ephemeral && marks.Contains(given, marks.Ephemeral) {
		return cty.UnknownVal(v.Type), diag.Errors("Variable does not allow ephemeral value",
			fmt.Sprintf("The value for the variable %q comes from an ephemeral context, and the variable is not "+
				"declared with ephemeral = true.", v.Name), rng)
	}
	bare, valueMarks := given.Unmark()
	if bare.IsNull() && !v.Nullable && !v.Required() {
		return markVariable(v, v.Default, m.Addr), nil
	}
	if v.TypeDefaults != nil && !bare.IsNull() {
		given = v.TypeDefaults.Apply(bare).WithMarks(valueMarks)
	}
	value, err := syntax.Convert(given, v.ConstraintType)
	if err != nil {
		if source == "" && rng != nil {
			what = fmt.Sprintf("The value given at %s is not suitable for %s: ", rng, m.qualified("var."+v.Name))
		}
		return cty.UnknownVal(v.Type), diag.Errors("Invalid value for input variable", what+conversionText(err)+
			".", v.Range.Ptr())
	}
	if unmarked, _ := value.Unmark(); unmarked.IsNull() && !v.Nullable {
		return cty.UnknownVal(v.Type), diag.Errors("Required variable not set",
			what+"it is required, and cannot be null.", rng)
	}
	return markVariable(v, value, m.Addr), nil
}

func markVariable(v *config.Variable, value cty.Value, in addr.ModuleInstance) cty.Value {
	if v.Sensitive {
		value = value.Mark(marks.Sensitive)
	}
	if v.Ephemeral {
		value = value.Mark(marks.Ephemeral)
	}
	return value
}

func (m *Module) qualified(name string) string {
	if m.Addr.IsRoot() {
		return name
	}
	return m.Addr.String() + "." + name
}

// conversionText describes a conversion error with its path.
func conversionText(err error) string {
	var at cty.PathError
	if errors.As(err, &at) && len(at.Path) > 0 {
		return "attribute " + strings.TrimPrefix(FormatPath(at.Path), ".") + ": " + err.Error()
	}
	return err.Error()
}

// Local implements eval.Data.
func (m *Module) Local(l addr.Local, _ hcl.Range) (cty.Value, diag.List) {
	value, _ := m.LocalValue(l.Name)
	return value, nil
}

// LocalValue returns a local value and the problems of computing it.
func (m *Module) LocalValue(name string) (cty.Value, diag.List) {
	c := m.locals[name]
	if c == nil {
		return cty.DynamicVal, nil
	}
	value := c.get(func() (cty.Value, diag.List) {
		expr := m.store.Code.Expr(m.Node.Module.Locals[name].Expr)
		var itself diag.List
		for _, r := range expr.References() {
			if r.Subject == (addr.Local{Name: name}) {
				itself = itself.Append(diag.New(diag.Error, "Self-referencing local value",
					fmt.Sprintf("The value of local.%s refers to itself, so it can never be known.", name),
					r.Range.Ptr()))
			}
		}
		if itself.HasErrors() {
			return cty.DynamicVal, itself
		}
		return expr.Eval(m.Scope, cty.DynamicPseudoType, eval.Once, cty.NilVal)
	})
	return value, c.diags
}

// Resource implements eval.Data.
func (m *Module) Resource(r addr.Resource, _ hcl.Range) (cty.Value, diag.List) {
	rs := m.resources[r]
	if rs == nil {
		return cty.DynamicVal, nil
	}
	return rs.Whole(), nil
}

// ResourceInstance implements eval.Data.
func (m *Module) ResourceInstance(r addr.Resource, k addr.Key, _ hcl.Range) (cty.Value, bool, diag.List) {
	rs := m.resources[r]
	if rs == nil || m.store.Phase == Validating {
		return cty.NilVal, false, nil
	}
	v, ok := rs.Instance(k)
	return v, ok, nil
}

// Module implements eval.Data.
func (m *Module) Module(c addr.ModuleCall, _ hcl.Range) (cty.Value, diag.List) {
	if m.calls[c.Name] == nil || m.Node.Children[c.Name] == nil {
		return cty.DynamicVal, nil
	}
	call := m.Call(c.Name)
	if call.Expansion.Unknown {
		return cty.DynamicVal, nil
	}
	if m.store.Phase == Validating && (call.Expansion.Mode == Count || call.Expansion.Mode == ForEach) {
		return m.anyInstances(c.Name, call.Expansion.Mode), nil
	}
	switch call.Expansion.Mode {
	case Count:
		elements := make([]cty.Value, len(call.Expansion.Keys))
		for i, k := range call.Expansion.Keys {
			elements[i] = call.children[k].outputObject()
		}
		return cty.TupleVal(elements), nil
	case ForEach:
		elements := make(map[string]cty.Value, len(call.Expansion.Keys))
		for _, k := range call.Expansion.Keys {
			s, _ := k.Str()
			elements[s] = call.children[k].outputObject()
		}
		return cty.ObjectVal(elements), nil
	default:
		child := call.children[addr.NoKey]
		if child == nil {
			return cty.NullVal(cty.DynamicPseudoType), nil
		}
		return child.outputObject(), nil
	}
}

// anyInstances is the value of a repeated module call in validation: an unknown number of instances, with
// unknown outputs whose names are known.
func (m *Module) anyInstances(call string, mode Mode) cty.Value {
	outputs := m.Node.Children[call].Module.Outputs
	attrs := make(map[string]cty.Type, len(outputs))
	for name := range outputs {
		attrs[name] = cty.DynamicPseudoType
	}
	if mode == Count {
		return cty.UnknownVal(cty.List(cty.Object(attrs)))
	}
	return cty.UnknownVal(cty.Map(cty.Object(attrs)))
}

// ModuleInstance implements eval.Data.
func (m *Module) ModuleInstance(c addr.ModuleCall, k addr.Key, _ hcl.Range) (cty.Value, bool, diag.List) {
	if m.calls[c.Name] == nil || m.Node.Children[c.Name] == nil || m.store.Phase == Validating {
		return cty.NilVal, false, nil
	}
	child := m.Call(c.Name).children[k]
	if child == nil {
		return cty.NilVal, false, nil
	}
	return child.outputObject(), true, nil
}

// Function implements eval.Data.
func (m *Module) Function(f eval.ProviderFunction, rng hcl.Range) (function.Function, diag.List) {
	if unknown := UnknownProvider(m.Node.Module, f, rng); unknown != nil {
		return function.Function{}, diag.List{unknown}
	}
	source := m.Node.Module.Required[f.Provider.Name]
	schemas := m.store.Code.Schemas.Provider(source.Source)
	if schemas == nil {
		return function.Function{}, diag.Errors("Unknown function provider",
			fmt.Sprintf("Provider %q is not available.", source.Source), &rng)
	}
	signature, ok := schemas.Functions[f.Name]
	if !ok && m.store.Phase == Validating {
		return unknownFunction, nil // a provider may have more functions once it is configured
	}
	if !ok || m.store.ProviderFunction == nil {
		return function.Function{}, diag.Errors("Function not found in provider",
			fmt.Sprintf("Function %q was not registered by provider named %q.", f, source.Source), &rng)
	}
	return m.store.ProviderFunction(source.Source, f.Name, signature), nil
}

// unknownFunction takes any arguments and has an unknown result.
var unknownFunction = function.New(&function.Spec{
	VarParam: &function.Parameter{Name: "arguments", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true,
		AllowDynamicType: true, AllowMarked: true},
	Type: function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.DynamicVal, nil },
})
