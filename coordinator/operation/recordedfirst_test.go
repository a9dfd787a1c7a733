package operation_test

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
)

// The order of a replacement is decided for a whole resource when planning, and this decision was also recorded for
// objects that an apply created or updated. OpenTofu decides what it records for each instance, and only among what the
// apply changes. Their states differed in create_before_destroy.
func TestCreateBeforeDestroyIsRecordedForEachInstance(t *testing.T) {
	const (
		first   = `lifecycle { create_before_destroy = true }`
		counted = `
variable "size" { default = 1 }
resource "fake_thing" "c" {
  count = 3
  name  = "c${count.index}"
  size  = var.size
}
`
	)
	user := func(arguments string) string {
		return `
resource "fake_thing" "u" {
  name = "u"
  ` + arguments + `
  ` + first + `
}
`
	}
	all := []string{"fake_thing.c[0]", "fake_thing.c[1]", "fake_thing.c[2]", "fake_thing.u"}
	for sentence, c := range map[string]struct {
		text           string
		created, again []string
	}{
		"a block refers to one instance": {
			counted + user(`note = fake_thing.c[1].id
  size = var.size`), []string{"fake_thing.c[1]", "fake_thing.u"}, []string{"fake_thing.c[1]", "fake_thing.u"}},
		"a block refers to all instances": {
			counted + user(`note = join("", fake_thing.c[*].id)
  size = var.size`), all, all},
		"it refers to one instance and to all": {
			counted + user(`note = fake_thing.c[1].id
  size = var.size + length(fake_thing.c)`), all, all},
		"it depends on all": {
			counted + user(`note = fake_thing.c[1].id
  size = var.size
  depends_on = [fake_thing.c]`), all, all},
		"it refers to an instance by a value that differs": {
			counted + `
resource "fake_thing" "u" {
  for_each = { x = 1 }
  name     = "u"
  size     = var.size
  note     = fake_thing.c[each.value].id
  ` + first + `
}
`, append(slices.Clone(all[:3]), `fake_thing.u["x"]`), append(slices.Clone(all[:3]), `fake_thing.u["x"]`)},
		"it refers to a local value of one instance": {
			counted + `locals { one = fake_thing.c[2].id }` + user(`note = local.one
  size = var.size`), []string{"fake_thing.c[2]", "fake_thing.u"}, []string{"fake_thing.c[2]", "fake_thing.u"}},
		"an object between them does not change": {
			counted + `
resource "fake_thing" "between" {
  name       = "between"
  depends_on = [fake_thing.c]
}
` + user(`depends_on = [fake_thing.between]
  size = var.size`), append([]string{"fake_thing.between"}, all...), append([]string{"fake_thing.between"}, all...)},
		"the object that asks for it does not change": {
			counted + user(`depends_on = [fake_thing.c]`), all, []string{"fake_thing.u"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(c.text)
			e.equal("created", e.recordedFirst(), c.created)
			e.session.Inputs = map[string]values.Input{"size": {Value: cty.NumberIntVal(2)}}
			e.apply(c.text)
			e.equal("updated", e.recordedFirst(), c.again)
		})
	}
}

// recordedFirst lists the current objects with create_before_destroy in the state, sorted.
func (e *estate) recordedFirst() (out []string) {
	for a, r := range e.state().Resources {
		for k, i := range r.Instances {
			if a.Resource.Mode == addr.Managed && i.Current != nil && i.Current.CreateBeforeDestroy {
				out = append(out, a.Instance(k).String())
			}
		}
	}
	slices.Sort(out)
	return out
}
