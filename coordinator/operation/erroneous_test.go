package operation_test

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
)

// A plan that only refreshes evaluated the arguments of all blocks, and failed with their errors. It does not need
// them.
func TestARefreshOnlyPlanDoesNotNeedTheArguments(t *testing.T) {
	e := newEstate(t)
	e.apply(block("a", `name = "a"`))
	e.configure("variable \"v\" { default = \"x\" }\n" + block("a", `name = "a"`, `size = tonumber(var.v)`) +
		block("b", `name = "b"`, `size = tonumber(var.v)`))
	p, diags := e.tryPlan(plan.Options{Mode: plan.RefreshOnly})
	e.clean(diags)
	e.equal("plan", changes(p), nil)
}

// A destroy of nothing configured all providers, and failed if one could not be configured.
func TestADestroyOfNothingConfiguresNoProvider(t *testing.T) {
	e := newEstate(t)
	e.configure("variable \"v\" { default = \"x\" }\nprovider \"fake\" { token = tonumber(var.v) }\n" +
		block("a", `name = "a"`))
	_, diags := e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
	e.clean(diags)
}

// The ordinary plan before a destroy carried out the imports of the configuration, so objects that were never managed
// here were destroyed, and a destroy failed if there was nothing to import.
func TestADestroyImportsNothing(t *testing.T) {
	for _, id := range []string{"id1", "nosuch"} {
		e := newEstate(t)
		e.apply(block("b", `name = "b"`))
		e.cloud.objects["id1"] = cty.ObjectVal(map[string]cty.Value{
			"id": cty.StringVal("id1"), "name": cty.StringVal("a"), "size": cty.NullVal(cty.Number),
			"note": cty.NullVal(cty.String), "secret": cty.NullVal(cty.String),
		})
		e.configure("import {\n to = fake_thing.a\n id = \"" + id + "\"\n}\n" + block("a", `name = "a"`) +
			block("b", `name = "b"`))
		e.equal("plan", changes(e.plan(plan.Options{Mode: plan.Destroy})), []string{"delete fake_thing.b"})
	}
}

// The references of an import block were recorded as dependencies of the objects that the apply changes. As in
// OpenTofu, they are recorded only for objects that stay as they are, because the plan records these.
func TestAnImportIsNoDependencyOfWhatChanges(t *testing.T) {
	e := newEstate(t)
	e.apply(block("ok", `name = "ok"`))
	e.cloud.objects["other"] = cty.ObjectVal(map[string]cty.Value{
		"id": cty.StringVal("other"), "name": cty.StringVal("a"), "size": cty.NullVal(cty.Number),
		"note": cty.NullVal(cty.String), "secret": cty.NullVal(cty.String),
	})
	e.apply("import {\n to = fake_thing.a\n id = fake_thing.ok.name == \"ok\" ? \"other\" : \"\"\n}\n" +
		block("ok", `name = "ok"`) + block("a", `name = "a"`) + block("dep", `name = fake_thing.a.id`))
	e.equal("imported", slices.Sorted(e.object("fake_thing.a").Dependencies.Texts()), []string{"fake_thing.ok"})
	e.equal("created", slices.Sorted(e.object("fake_thing.dep").Dependencies.Texts()), []string{"fake_thing.a"})
}
