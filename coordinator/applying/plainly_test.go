package applying

import (
	"bytes"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/wire"
)

func TestOnlyAnObjectWhoseValueNothingNeedsIsStoredWithoutIt(t *testing.T) {
	of := func(attrs map[string]*schema.Attribute) *schema.Schema {
		return &schema.Schema{Block: &schema.Block{Attributes: attrs}}
	}
	plain := of(map[string]*schema.Attribute{"id": {Type: cty.String}, "any": {Type: cty.DynamicPseudoType}})
	value := cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("i-1"), "any": cty.True})
	for sentence, c := range map[string]struct {
		schema *schema.Schema
		value  cty.Value
		change plan.Change
		block  config.Resource
		paths  []cty.Path
		diags  diag.List
		want   bool
	}{
		"a plain object": {schema: plain, value: value, want: true},
		"with a text that JSON quotes": {schema: plain,
			value: cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("é"), "any": cty.True})},
		"a sensitive attribute": {schema: of(map[string]*schema.Attribute{"id": {Type: cty.String, Sensitive: true},
			"any": {Type: cty.Bool}}), value: value},
		"an id of any type": {schema: of(map[string]*schema.Attribute{"id": {Type: cty.DynamicPseudoType},
			"any": {Type: cty.Bool}}), value: value},
		"a sensitive configuration": {schema: plain, value: value, paths: []cty.Path{cty.GetAttrPath("any")}},
		"a failed operation":        {schema: plain, value: value, diags: diag.Errors("failed", "", nil)},
		"the old object is kept":    {schema: plain, value: value, change: plan.Change{Action: plan.CreateThenDelete}},
		"a condition": {schema: plain, value: value,
			block: config.Resource{Postconditions: []*config.CheckRule{{}}}},
		"a provisioner": {schema: plain, value: value,
			block: config.Resource{Provisioners: []*config.Provisioner{{}}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			object, err := coding.EncodeValue(c.value, c.schema.Block.ImpliedType())
			if err != nil {
				t.Fatal(err)
			}
			ev := &instance.Instance{Schema: c.schema, Sensitive: c.paths,
				Resource: &values.Resource{Code: &values.ResourceCode{Config: &c.block}}}
			attrs, ok := plainly(&c.change, ev, &wire.ApplyResult{Object: object}, c.diags)
			if ok != c.want {
				t.Fatalf("it is stored without its value: %t", ok)
			}
			want, _, err := values.EncodeStored(c.value, c.schema.Block)
			if ok && (err != nil || !bytes.Equal(attrs, want)) {
				t.Errorf("stored are\n%s, but from the value (%v)\n%s", attrs, err, want)
			}
		})
	}
}
