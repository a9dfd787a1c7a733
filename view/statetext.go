package view

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
)

// StateText writes a whole state for people, as `show` does.
func StateText(w io.Writer, s *state.State, schemas *values.Schemas, o TextOptions) error {
	var b bytes.Buffer
	switch {
	case s.IsEmpty():
		b.WriteString("The state file is empty. No resources are represented.\n")
	default:
		stateObjects(&b, s, schemas, o)
		stateOutputs(&b, s, o)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// stateObjects writes the objects, module by module.
func stateObjects(b *bytes.Buffer, s *state.State, schemas *values.Schemas, o TextOptions) {
	var module addr.ModuleInstance
	for i, a := range nested(s.Addrs()) {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i > 0 && a.Module != module {
			b.WriteByte('\n') // between modules
		}
		module = a.Module
		instance := s.Instance(a)
		provider := s.Resources[a.Abs()].Provider.Provider
		sc := schemas.Resource(provider, a.Resource.Mode, a.Resource.Type)
		if instance.Current != nil {
			note := ""
			switch instance.Current.Status {
			case state.Tainted:
				note = " (tainted)"
			case state.InDoubt:
				note = " (in doubt)"
			}
			objectText(b, a, note, instance.Current, sc, o)
		}
		for j, key := range instance.DeposedKeys() {
			if j > 0 || instance.Current != nil {
				b.WriteByte('\n')
			}
			objectText(b, a, fmt.Sprintf(" (deposed object %s)", key), instance.Deposed[key], sc, o)
		}
	}
}

// InstanceText writes the current object of one instance, as `state show` does. There must be one.
func InstanceText(w io.Writer, s *state.State, a addr.Instance, schemas *values.Schemas, o TextOptions) error {
	var b bytes.Buffer
	object := s.Instance(a).Current
	note := ""
	if object.Status == state.Tainted {
		note = " (tainted)"
	}
	objectText(&b, a, note, object, schemas.Resource(s.Resources[a.Abs()].Provider.Provider, a.Resource.Mode,
		a.Resource.Type), o)
	_, err := w.Write(b.Bytes())
	return err
}

func objectText(b *bytes.Buffer, a addr.Instance, note string, object *state.Object, s *schema.Schema, o TextOptions) {
	kind := "resource"
	if a.Resource.Mode == addr.Data {
		kind = "data"
	}
	m := deltaFormat{ink: o.Ink, bare: true, whole: true, reveal: o.Reveal}
	fmt.Fprintf(b, "# %s:%s\n%s %q %q %s\n", a, note, kind, a.Resource.Type, a.Resource.Name,
		objectDifference(object, s).text(0, m))
}

// objectDifference returns a stored object as an unchanged delta. An object that was stored with another version of
// the schema, or whose schema is unknown, is shown as stored.
func objectDifference(object *state.Object, s *schema.Schema) *delta {
	unchanged := func(v cty.Value) pair {
		d := datumOf(v)
		return pair{before: d, after: d, shown: everywhere}
	}
	if s != nil && object.Attrs != nil {
		if v, err := values.DecodeStored(object, s); err == nil {
			return diffBody(unchanged(v), s.Block)
		}
	}
	v := storedAsItIs(object)
	block := &schema.Block{Attributes: map[string]*schema.Attribute{}}
	for name := range v.Type().AttributeTypes() {
		block.Attributes[name] = &schema.Attribute{Type: cty.DynamicPseudoType, Optional: true}
	}
	return diffBody(unchanged(v), block)
}

// storedAsItIs decodes the attributes of a stored object without a schema. Values that are sensitive because of the
// configuration stay so.
func storedAsItIs(object *state.Object) cty.Value {
	if object.Attrs == nil {
		attrs := make(map[string]cty.Value, len(object.Flatmap))
		for k, v := range object.Flatmap {
			attrs[k] = cty.StringVal(v)
		}
		return cty.ObjectVal(attrs)
	}
	ty, err := ctyjson.ImpliedType(object.Attrs)
	if err != nil || !ty.IsObjectType() {
		return cty.EmptyObjectVal
	}
	v, err := ctyjson.Unmarshal(object.Attrs, ty)
	if err != nil {
		return cty.EmptyObjectVal
	}
	return values.MarkSensitive(v, &schema.Block{}, object.Sensitive)
}

func stateOutputs(b *bytes.Buffer, s *state.State, o TextOptions) {
	if len(s.Outputs) == 0 {
		return
	}
	b.WriteString("\n\nOutputs:\n\n")
	for _, name := range slices.Sorted(maps.Keys(s.Outputs)) {
		out := s.Outputs[name]
		d := datumOf(out.Value)
		if out.Sensitive {
			d = d.hidden()
		}
		p := pair{before: d, after: d, shown: everywhere}
		fmt.Fprintf(b, "%s = %s\n", name, diffType(p, out.Value.Type()).text(0, deltaFormat{ink: o.Ink, bare: true,
			whole: true, reveal: o.Reveal}))
	}
}

// OutputsText writes the root outputs as `output` does.
func OutputsText(s *state.State, o TextOptions) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Outputs)) {
		out := s.Outputs[name]
		if out.Sensitive && !o.Reveal {
			fmt.Fprintf(&b, "%s = <sensitive>\n", name)
			continue
		}
		fmt.Fprintf(&b, "%s = %s\n", name, FormatValue(out.Value))
	}
	return strings.TrimSpace(b.String()) + "\n"
}

// AppliedOutputsText writes the root outputs below the summary of an apply; nothing when there are none.
func AppliedOutputsText(s *state.State, o TextOptions) string {
	if len(s.Outputs) == 0 {
		return ""
	}
	return o.Ink.off() + o.Ink.on(boldCode+greenCode) + "\nOutputs:\n\n" + o.Ink.off() + OutputsText(s, o)
}

// nested orders instances so that each module is followed by the modules within it, as a state lists them. The
// input is sorted by depth.
func nested(all []addr.Instance) []addr.Instance {
	slices.SortStableFunc(all, func(a, b addr.Instance) int {
		x, y := a.Module.Steps(), b.Module.Steps()
		for i := range min(len(x), len(y)) {
			switch {
			case x[i].Name != y[i].Name:
				return strings.Compare(x[i].Name, y[i].Name)
			case x[i].Key.Less(y[i].Key):
				return -1
			case y[i].Key.Less(x[i].Key):
				return 1
			}
		}
		return len(x) - len(y)
	})
	return all
}
