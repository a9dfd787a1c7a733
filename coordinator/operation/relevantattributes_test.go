package operation_test

import (
	"testing"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
)

// The values that a plan depends on are found in the text of expressions: through locals, variables, outputs and the
// argument of a resource that an attribute names, but not through unchanged objects.
func TestAPlanNamesTheAttributesThatWhatChangesRefersTo(t *testing.T) {
	const estate = `
resource "fake_thing" "base" { name = "base" }
resource "fake_thing" "unrelated" { name = fake_thing.base.name }
resource "fake_thing" "through" {
  name = fake_thing.base.name
  size = fake_thing.unrelated.size
}
resource "fake_thing" "many" {
  count = 2
  name  = "m${fake_thing.base.size == null ? count.index : 9}"
}
locals { name = fake_thing.through.name }
`
	for sentence, c := range map[string]struct {
		more  string
		child []string
		want  []string
	}{
		"nothing changes, nothing is relevant": {},
		"a local leads to an attribute, and that to what it is set to": {
			more: `resource "fake_thing" "new" { name = local.name }`,
			want: []string{"fake_thing.base.name", "fake_thing.through.name"},
		},
		"an instance whose key is an expression is its whole resource, with all that it refers to": {
			more: `resource "fake_thing" "new" {
  count = 1
  name  = fake_thing.many[count.index].name
}`,
			want: []string{"fake_thing.base.size", "fake_thing.many"},
		},
		"an instance whose key is written": {
			more: `output "o" { value = fake_thing.many[1].id }`,
			want: []string{"fake_thing.many[1].id"},
		},
		"each.value is what for_each is made from": {
			more: `resource "fake_thing" "new" {
  for_each = { (fake_thing.unrelated.name) = 1 }
  name     = each.key
}`,
			want: []string{"fake_thing.base.name", "fake_thing.unrelated.name"},
		},
		"a module's output leads through its variable to the caller": {
			more: `module "m" {
  source = "./child"
  in     = fake_thing.through.name
}
output "o" { value = module.m.out }`,
			child: []string{`
variable "in" {}
output "out" { value = var.in }`},
			want: []string{"fake_thing.base.name", "fake_thing.through.name"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(estate)
			e.configure(estate+c.more, c.child...)
			var got []string
			for _, r := range e.plan(plan.Options{}).Relevant {
				got = append(got, r.Resource.String()+values.FormatPath(r.Attribute))
			}
			e.equal("relevant", got, c.want)
		})
	}
}

// A destroy plan had the attributes to which outputs of called modules refer: they are evaluated like those of any
// plan, and a destroy changes none of them.
func TestOutputsOfCalledModulesMakeNothingRelevantToADestroy(t *testing.T) {
	e := newEstate(t)
	e.apply(`module "m" { source = "./child" }`, `
resource "fake_thing" "in" { name = "in" }
output "out" { value = fake_thing.in.id }`)
	if got := e.plan(plan.Options{Mode: plan.Destroy}).Relevant; len(got) > 0 {
		t.Errorf("relevant are %v", got)
	}
}
