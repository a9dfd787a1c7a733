package addr

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// ValidIdentifier reports whether s is a valid name in the language: a letter or underscore, then letters, digits,
// underscores and dashes.
func ValidIdentifier(s string) bool {
	if _, rest := scanName(s); s != "" && rest == "" {
		return true
	}
	return hclsyntax.ValidIdentifier(s)
}

// ParseInstance parses the absolute address of a resource instance. Canonical text, as in states and plans, is
// parsed without the HCL parser.
func ParseInstance(text string) (Instance, diag.List) {
	if i, ok := scanInstance(text); ok {
		return i, nil
	}
	t, diags := ParseTarget(text)
	if diags.HasErrors() {
		return Instance{}, diags
	}
	switch t.Kind {
	case TargetResource, TargetInstance:
		return t.AsInstance(), diags
	default:
		return Instance{}, diags.Append(invalidAddress(
			"The address of a resource instance is needed here: after the module path, name a resource.", nil))
	}
}

// ParseAbsResource parses the absolute address of a resource, which must not have an instance key.
func ParseAbsResource(text string) (AbsResource, diag.List) {
	t, diags := ParseTarget(text)
	if diags.HasErrors() {
		return AbsResource{}, diags
	}
	switch t.Kind {
	case TargetResource:
		return t.Resource.Absolute(t.Instance), diags
	case TargetInstance:
		return AbsResource{}, diags.Append(invalidAddress(
			"The address of a whole resource is needed here: leave out the instance key.", nil))
	default:
		return AbsResource{}, diags.Append(invalidAddress(
			"The address of a resource is needed here: after the module path, name a resource.", nil))
	}
}

// ParseModuleInstance parses the absolute address of a module instance. The empty text is an error: the root has no
// written address.
func ParseModuleInstance(text string) (ModuleInstance, diag.List) {
	trav, diags := parseText(text)
	if diags.HasErrors() {
		return ModuleInstance{}, diags
	}
	steps, rest, more := modulePrefix(trav)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return ModuleInstance{}, diags
	}
	if len(rest) > 0 {
		detail := `The address of a module instance starts with "module.".`
		if len(steps) > 0 {
			detail = "Nothing can follow the address of a module instance here."
		}
		return ModuleInstance{}, diags.Append(diag.New(diag.Error, "Invalid module instance address", detail,
			rest.SourceRange().Ptr()))
	}
	return ModuleInstanceOf(steps...), diags
}

// ParseTarget parses the addresses that -target, -exclude, -replace and the state commands accept.
func ParseTarget(text string) (Target, diag.List) {
	if i, ok := scanInstance(text); ok {
		return targetOf(i), nil
	}
	trav, diags := parseText(text)
	if diags.HasErrors() {
		return Target{}, diags
	}
	t, more := ParseTargetTraversal(trav)
	return t, diags.Append(more)
}

// ParseTargetTraversal is ParseTarget for an address that is already a traversal; problems point into it.
func ParseTargetTraversal(trav hcl.Traversal) (Target, diag.List) {
	steps, rest, diags := modulePrefix(trav)
	if diags.HasErrors() {
		return Target{}, diags
	}
	m := ModuleInstanceOf(steps...)
	if len(rest) == 0 {
		return Target{Kind: TargetModuleInstance, Instance: m}, diags
	}
	r, key, more := resourceInstance(rest)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return Target{}, diags
	}
	return targetOf(Instance{m, r, key}), diags
}

func targetOf(i Instance) Target {
	t := Target{Kind: TargetResource, Instance: i.Module, Resource: i.Resource, Key: i.Key}
	if i.Key != NoKey {
		t.Kind = TargetInstance
	}
	return t
}

func parseText(text string) (hcl.Traversal, diag.List) {
	trav, hclDiags := syntax.ParseTraversalAbs([]byte(text), "", hcl.InitialPos)
	return trav, diag.List(nil).Append(hclDiags)
}

// modulePrefix removes the module steps from the front of an address. The rest starts with a root step.
func modulePrefix(trav hcl.Traversal) ([]Step, hcl.Traversal, diag.List) {
	var steps []Step
	rest := trav
	for len(rest) > 0 {
		name, is, diags := moduleStep(rest)
		if diags.HasErrors() {
			return nil, nil, diags
		}
		if !is {
			break
		}
		rest = rest[2:]
		s := Step{Name: name}
		if len(rest) > 0 {
			if idx, ok := rest[0].(hcl.TraverseIndex); ok {
				key, err := ParseKey(idx.Key)
				if err != nil {
					return nil, nil, diag.Errors("Invalid address operator", fmt.Sprintf("Not a module key: %s.", err),
						&idx.SrcRange)
				}
				s.Key = key
				rest = rest[1:]
			}
		}
		steps = append(steps, s)
	}
	return steps, rooted(rest), nil
}

// moduleStep reports whether rest starts with module.NAME.
func moduleStep(rest hcl.Traversal) (name string, is bool, diags diag.List) {
	word, ok := stepName(rest[0])
	if !ok {
		return "", false, diag.Errors("Invalid address operator",
			"A module path continues with a dot, then a name.", rest[0].SourceRange().Ptr())
	}
	if word != "module" {
		return "", false, nil
	}
	subject := rest[0].SourceRange()
	if len(rest) > 1 {
		if attr, ok := rest[1].(hcl.TraverseAttr); ok {
			return attr.Name, true, nil
		}
		subject = rest[1].SourceRange()
	}
	return "", false, diag.Errors("Invalid address operator", `The name of a module call has to follow "module.".`,
		&subject)
}

// rooted converts the first step of rest to a root step, so that it is an absolute traversal again.
func rooted(rest hcl.Traversal) hcl.Traversal {
	if len(rest) == 0 {
		return nil
	}
	attr, ok := rest[0].(hcl.TraverseAttr)
	if !ok {
		return rest
	}
	out := append(hcl.Traversal(nil), rest...)
	out[0] = hcl.TraverseRoot{Name: attr.Name, SrcRange: attr.SrcRange}
	return out
}

func stepName(s hcl.Traverser) (string, bool) {
	switch s := s.(type) {
	case hcl.TraverseRoot:
		return s.Name, true
	case hcl.TraverseAttr:
		return s.Name, true
	default:
		return "", false
	}
}

// resourceInstance parses [data.|ephemeral.]TYPE.NAME[KEY], with nothing after it.
func resourceInstance(trav hcl.Traversal) (Resource, Key, diag.List) {
	r, rest, diags := resourceName(trav)
	if diags.HasErrors() {
		return r, NoKey, diags
	}
	switch len(rest) {
	case 0:
		return r, NoKey, nil
	case 1:
		subject := rest[0].SourceRange()
		idx, ok := rest[0].(hcl.TraverseIndex)
		if !ok {
			return r, NoKey, invalidAddress("The key of a resource instance stands in square brackets.", &subject)
		}
		key, err := ParseKey(idx.Key)
		if err != nil {
			return r, NoKey, invalidAddress(fmt.Sprintf("Not a resource instance key: %s.", err), &subject)
		}
		return r, key, nil
	default:
		return r, NoKey, extraAddress(rest)
	}
}

// resourceName removes [data.|ephemeral.|action.]TYPE.NAME from the front. action.NAME is a managed resource.
func resourceName(trav hcl.Traversal) (Resource, hcl.Traversal, diag.List) {
	r := Resource{Mode: Managed}
	what := "resource type"
	rest := trav
	switch trav.RootName() {
	case "data":
		r.Mode, what, rest = Data, "data source", trav[1:]
	case "ephemeral":
		r.Mode, what, rest = Ephemeral, "ephemeral resource type", trav[1:]
	case "action":
		if _, named := stepNameAt(trav, 2); named {
			r.Mode, what, rest = Action, "action type", trav[1:]
		}
	}
	if len(rest) < 2 {
		return r, nil, invalidAddress("A resource is named by its type, a dot, then its name.",
			trav.SourceRange().Ptr())
	}
	var ok bool
	if r.Type, ok = stepName(rest[0]); !ok {
		return r, nil, invalidAddress("The name of a "+what+" is missing.", rest[0].SourceRange().Ptr())
	}
	if r.Name, ok = stepName(rest[1]); !ok {
		return r, nil, invalidAddress("The name of the resource is missing after its type.",
			rest[1].SourceRange().Ptr())
	}
	return r, rest[2:], nil
}

// stepNameAt is stepName for the step at a position, which may not be there.
func stepNameAt(trav hcl.Traversal, i int) (string, bool) {
	if i >= len(trav) {
		return "", false
	}
	return stepName(trav[i])
}

func extraAddress(rest hcl.Traversal) diag.List {
	return invalidAddress("There is more behind the end of the address.", rest[1].SourceRange().Ptr())
}

func invalidAddress(detail string, subject *hcl.Range) diag.List {
	return diag.Errors("Invalid address", detail, subject)
}

// ParseKey converts the value of an index to an instance key. The value must be known, not null and unmarked, as it
// is in every traversal.
func ParseKey(v cty.Value) (Key, error) {
	switch v.Type() {
	case cty.String:
		return StringKey(v.AsString()), nil
	case cty.Number:
		var n int
		if err := gocty.FromCtyValue(v, &n); err != nil {
			return NoKey, err
		}
		return IntKey(n), nil
	default:
		return NoKey, fmt.Errorf("a string or a whole number is needed")
	}
}

// Value returns the key as a value of the language. NoKey and WildcardKey give an unknown value.
func (k Key) Value() cty.Value {
	switch k.kind {
	case 'i':
		return cty.NumberIntVal(int64(k.n))
	case 's':
		return cty.StringVal(k.s)
	default:
		return cty.DynamicVal
	}
}
