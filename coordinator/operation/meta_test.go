package operation_test

import (
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// The coordinator loaded provider_meta blocks and put them into no task, so that providers did not get them, and blocks
// that a provider does not accept were not reported.

// meta is the provider_meta block of a module.
func meta(argument string) string {
	return "terraform {\n  provider_meta \"fake\" {\n    " + argument + "\n  }\n}\n"
}

// metas returns the calls of the provider with their modules since its last call, sorted, without duplicates.
func (e *estate) metas() []string {
	e.cloud.mu.Lock()
	defer e.cloud.mu.Unlock()
	out := e.cloud.metas
	e.cloud.metas = nil
	slices.Sort(out)
	return slices.Compact(out) // a worker may plan more than once
}

func TestAProviderIsToldTheProviderMetaOfTheModuleWithEachOperation(t *testing.T) {
	e := newEstate(t)
	e.cloud.takesMeta = true
	const look = "data \"fake_lookup\" \"d\" {\n  key = fake_thing.b.id\n}\n"
	calls := "module \"child\" {\n  source = \"./child\"\n}\n"
	root := meta(`module = "root"`) + calls
	e.apply(root+block("a", `name = "a"`), meta(`module = "child"`)+block("b", `name = "b"`)+look)
	e.equal("creation", e.metas(), []string{"create a for root", "create b for child", "look up for child",
		"plan to create a for root", "plan to create b for child"})

	e.apply(root+block("a", `name = "a"`, `size = 1`), block("b", `name = "b"`)+look)
	e.equal("update, in a child without the block", e.metas(), []string{"look up for nobody",
		"plan to update a for root", "plan to update b for nobody", "read a for root", "read b for nobody",
		"update a for root"})

	// A removed block has no effect, as in OpenTofu.
	e.apply(root, block("b", `name = "b"`))
	e.equal("orphan", e.metas(), []string{"delete a for nobody",
		"plan to update b for nobody", "read a for nobody", "read b for nobody"})

	e.configure(root, meta(`module = "child"`)+block("b", `name = "b"`))
	_, diags := e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
	e.clean(diags)
	e.equal("destroy", e.metas(), []string{"delete b for child", "read b for child"})
}

func TestAProviderMetaBlockIsRefusedThatTheProviderDoesNotTake(t *testing.T) {
	for text, c := range map[string]struct {
		takes    bool
		argument string
	}{
		"doesn't support provider_meta": {false, `module = "root"`},
		`"other" is not expected here`:  {true, `other = "root"`},
	} {
		e := newEstate(t)
		e.cloud.takesMeta = c.takes
		e.configure(meta(c.argument) + block("a", `name = "a"`))
		_, diags := e.tryPlan(plan.Options{})
		if !diags.HasErrors() || !says(diags, text) || diags[0].Subject == nil {
			t.Errorf("%s: the diagnostics are %v", text, diags)
		}
	}
}
