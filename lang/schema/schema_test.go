package schema_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/millipede-iac/millipede/lang/schema"
)

func TestToImportByIdentityOnlyWhatIsRequiredMustBeGiven(t *testing.T) {
	identity := schema.Identity{Body: &schema.Object{Nesting: schema.NestingSingle,
		Attributes: map[string]*schema.Attribute{
			"id": {Type: cty.String, Required: true}, "zone": {Type: cty.String, Optional: true},
		}}}
	given := cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("a")})
	got, err := convert.Convert(given, identity.ImportType())
	want := cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("a"), "zone": cty.NullVal(cty.String)})
	if err != nil || !got.RawEquals(want) {
		t.Errorf("%#v becomes %#v, %v", given, got, err)
	}
	if _, err := convert.Convert(cty.EmptyObjectVal, identity.ImportType()); err == nil {
		t.Error("an identity without its id is one")
	}
}
