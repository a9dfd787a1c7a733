package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// A destroy with -target of an instance that does not exist destroyed what depends on its resource, because the
// configuration alone decided that. The expected changes are those of OpenTofu 1.12.
func TestATargetThatNothingStoredMatchesDestroysNothing(t *testing.T) {
	const text = `
resource "fake_thing" "a" {
  count = 1
  name  = "a"
}
resource "fake_thing" "b" {
  name = "b"
  note = join(",", fake_thing.a[*].id)
}
resource "fake_thing" "c" { name = "c" }
`
	both := []string{"delete fake_thing.a[0]", "delete fake_thing.b"}
	for sentence, c := range map[string]struct {
		remove, target string
		want           []string
	}{
		"an instance beyond the count":                 {"", "fake_thing.a[5]", nil},
		"a resource without objects":                   {"fake_thing.a[0]", "fake_thing.a", nil},
		"a module that does not exist":                 {"", "module.nosuch", nil},
		"an instance that exists":                      {"", "fake_thing.a[0]", both},
		"a resource that exists":                       {"", "fake_thing.a", both},
		"a resource that nothing depends on":           {"", "fake_thing.c", []string{"delete fake_thing.c"}},
		"an object whose dependency is not stored now": {"fake_thing.a[0]", "fake_thing.b", []string{"delete fake_thing.b"}},
	} {
		for _, skip := range []bool{false, true} {
			t.Run(sentence, func(t *testing.T) {
				e := newEstate(t)
				e.apply(text)
				e.forget(c.remove)
				o := plan.Options{Mode: plan.Destroy, Targets: targets(c.target), SkipRefresh: skip}
				e.equal("plan", changes(e.plan(o)), c.want)
			})
		}
	}
}

// forget removes an instance from the state, as state rm does; the empty address stands for none.
func (e *estate) forget(address string) {
	e.t.Helper()
	if address == "" {
		return
	}
	at, diags := addr.ParseInstance(address)
	e.clean(diags)
	e.check(e.store.Commit(e.t.Context(), journal.Commit{Workspace: "default", EndVersion: true, Changes: []state.Change{
		state.SetObject{Addr: at},
	}}))
}

// A destroy with -target destroyed what the block refers to now, and not what the objects were made from.
func TestWhatATargetTakesWithItIsWhatWasRecorded(t *testing.T) {
	e := newEstate(t)
	e.apply(`
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  name = "b"
  note = fake_thing.a.id
}
resource "fake_thing" "c" { name = "c" }
`)
	// b does not refer to a any more, but c does; neither is applied.
	e.configure(`
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "b" }
resource "fake_thing" "c" {
  name = "c"
  note = fake_thing.a.id
}
`)
	e.equal("plan", changes(e.plan(plan.Options{Mode: plan.Destroy, Targets: targets("fake_thing.a")})),
		[]string{"delete fake_thing.a", "delete fake_thing.b"})
}

// A plan with -exclude of an object in one instance of a module kept what it depends on in all other instances, too.
func TestAnExclusionKeepsDependenciesOfItsOwnModuleInstance(t *testing.T) {
	const (
		text = `
resource "fake_thing" "base" { name = "base" }
module "m" {
  source   = "./child"
  for_each = toset(["a", "b"])
  id       = fake_thing.base.id
}
`
		child = `
variable "id" {}
resource "fake_thing" "first" {
  name = "first"
  note = var.id
}
resource "fake_thing" "second" {
  name = "second"
  note = fake_thing.first.id
}
`
	)
	for sentence, c := range map[string]struct {
		o    plan.Options
		want []string
	}{
		"-exclude": {plan.Options{Excludes: targets(`module.m["b"].fake_thing.second`)}, []string{
			`delete module.m["a"].fake_thing.first`, `delete module.m["a"].fake_thing.second`}},
		"-target": {plan.Options{Targets: targets(`module.m["b"].fake_thing.first`)}, []string{
			`delete module.m["b"].fake_thing.first`, `delete module.m["b"].fake_thing.second`}},
		"-target of what all depend on": {plan.Options{Targets: targets(`fake_thing.base`)}, []string{
			`delete fake_thing.base`, `delete module.m["a"].fake_thing.first`, `delete module.m["a"].fake_thing.second`,
			`delete module.m["b"].fake_thing.first`, `delete module.m["b"].fake_thing.second`}},
	} {
		for _, skip := range []bool{false, true} {
			t.Run(sentence, func(t *testing.T) {
				e := newEstate(t)
				e.apply(text, child)
				c.o.Mode, c.o.SkipRefresh = plan.Destroy, skip
				e.equal("plan", changes(e.plan(c.o)), c.want)
			})
		}
	}
}

// A plan with -target or -exclude destroyed the vanished instances of a dependency, although others still used them.
func TestAPartialPlanKeepsVanishedInstancesThatOthersUse(t *testing.T) {
	const (
		head = "variable \"n\" {}\n"
		base = `
resource "fake_thing" "base" {
  count = var.n
  name  = "base${count.index}"
}
`
		top = `
resource "fake_thing" "top" {
  name = "top"
  note = fake_thing.base[0].id
}
`
		user = `
resource "fake_thing" "user" {
  count = 3
  name  = "user${count.index}"
  note  = try(fake_thing.base[count.index].id, "none")
}
`
	)
	vanished := []string{"delete fake_thing.base[1]", "delete fake_thing.base[2]"}
	users := []string{"update fake_thing.user[1]", "update fake_thing.user[2]"}
	for sentence, c := range map[string]struct {
		before, after string
		o             plan.Options
		want          []string
	}{
		"a target beside the users": {head + base + top + user, "",
			plan.Options{Targets: targets("fake_thing.top")}, nil},
		"the users excluded": {head + base + top + user, "",
			plan.Options{Excludes: targets("fake_thing.user")}, nil},
		"one of the users excluded": {head + base + top + user, "",
			plan.Options{Excludes: targets("fake_thing.user[1]")}, nil},
		"the users excluded, and no block of the dependency": {head + base + top + user, head + user,
			plan.Options{Excludes: targets("fake_thing.user")}, []string{"delete fake_thing.top"}},
		"all that uses them targeted": {head + base + top + user, "",
			plan.Options{Targets: targets("fake_thing.top", "fake_thing.user")}, slices.Concat(vanished, users)},
		"no other users": {head + base + top, "",
			plan.Options{Targets: targets("fake_thing.top")}, vanished},
		"a target that names them": {head + base + top + user, "",
			plan.Options{Targets: targets("fake_thing.base")}, vanished},
		"a target that names one of them": {head + base + top + user, "",
			plan.Options{Targets: targets("fake_thing.base[1]", "fake_thing.top")}, vanished[:1]},
		"everything": {head + base + top + user, "", plan.Options{}, slices.Concat(vanished, users)},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.session.Inputs = map[string]values.Input{"n": {Value: cty.NumberIntVal(3)}}
			e.apply(c.before)
			e.session.Inputs = map[string]values.Input{"n": {Value: cty.NumberIntVal(1)}}
			e.configure(c.before)
			if c.after != "" {
				e.configure(strings.ReplaceAll(c.after, `fake_thing.base[count.index].id`, `"none"`))
			}
			p := e.plan(c.o)
			e.equal("plan", changes(p), c.want)
			_, diags := e.tryApply(p)
			e.clean(diags)
		})
	}
}
