package operation_test

import (
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// A data source that uses an output with depends_on was read when planning, before the change on which the output
// depends: depends_on of outputs was ignored.
func TestTheDependsOnOfAnOutputDefersDataThatUseIt(t *testing.T) {
	child := `
variable "size" {}
resource "fake_thing" "a" {
  name = "a"
  size = var.size
}
resource "fake_thing" "b" { name = "b" }
output "after" {
  value      = "key"
  depends_on = [fake_thing.a]
}
output "plain" { value = "key" }
`
	text := func(size string) string {
		return `
module "m" {
  source = "./child"
  size   = ` + size + `
}
locals { key = "${module.m.after}!" }
data "fake_lookup" "direct" { key = module.m.after }
data "fake_lookup" "through" { key = local.key }
data "fake_lookup" "plain" { key = module.m.plain }
`
	}
	e := newEstate(t)
	e.configure(text("1"), child)
	e.equal("the first plan", changes(e.plan(plan.Options{})), []string{
		"create module.m.fake_thing.a", "create module.m.fake_thing.b",
		"read data.fake_lookup.direct", "read data.fake_lookup.through",
	})
	e.apply(text("1"), child)
	e.equal("a plan without changes", changes(e.plan(plan.Options{})), nil)
	e.configure(text("2"), child)
	e.equal("a plan with a change", changes(e.plan(plan.Options{})), []string{
		"read data.fake_lookup.direct", "read data.fake_lookup.through", "update module.m.fake_thing.a",
	})
}
