package operation_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/wire"
)

// questions returns the calls of the provider since the last call of questions, sorted.
func (e *estate) questions() []string {
	e.cloud.mu.Lock()
	defer e.cloud.mu.Unlock()
	out := e.cloud.asked
	e.cloud.asked = nil
	slices.Sort(out)
	return out
}

// drift changes an object outside of the engine.
func (e *estate) drift(name string, size int64) {
	e.cloud.mu.Lock()
	defer e.cloud.mu.Unlock()
	for id, o := range e.cloud.objects {
		if vals := o.AsValueMap(); vals["name"].AsString() == name {
			vals["size"] = cty.NumberIntVal(size)
			e.cloud.objects[id] = cty.ObjectVal(vals)
		}
	}
}

// three returns a configuration with three objects, with a size for b; c depends on b.
func three(size string) string {
	return block("a", `name = "a"`) + block("b", `name = "b"`, `size = `+size) +
		block("c", `name = "c"`, `depends_on = [fake_thing.b]`)
}

var onlyChanged = plan.Options{Refresh: placement.RefreshChanged}

func TestOnlyWhatAChangeCanTouchIsRead(t *testing.T) {
	e := newEstate(t)
	clock := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	e.session.Now = func() time.Time { return clock }
	e.apply(three("1") + "data \"fake_lookup\" \"d\" {\nkey = \"k\"\n}\n")
	e.questions()
	e.cloud.done()
	clock = clock.Add(time.Hour)

	asking := plan.Options{Refresh: placement.RefreshChanged, NoVerdicts: true}
	p := e.plan(asking)
	e.equal("questions", e.questions(), []string{"plan a", "plan b", "plan c"})
	e.equal("data", e.cloud.done(), []string{"look up k"})
	if u := p.Unread; u == nil || u.Objects != 3 || !u.Since.Equal(clock.Add(-time.Hour)) || u.Verdicts != 0 {
		t.Errorf("the plan reports %+v as unread", u)
	}

	// Changed objects are read, and so are their dependents; the time of the last read of these objects is later then.
	e.configure(three("2"))
	p = e.plan(asking)
	e.equal("questions", e.questions(), []string{"plan a", "plan b", "plan b", "plan c", "read b", "read c"})
	e.equal("plan", changes(p), []string{"update fake_thing.b"})
	if u := p.Unread; u == nil || u.Objects != 1 {
		t.Errorf("the plan reports %+v as unread", u)
	}
	reads, err := e.store.Reads(t.Context(), "default")
	e.check(err)
	for name, want := range map[string]time.Time{"a": clock.Add(-time.Hour), "b": clock, "c": clock} {
		if at := reads.At("fake_thing." + name); !at.Equal(want) {
			t.Errorf("%s was last read at %s, not at %s", name, at, want)
		}
	}

	// A change outside of the engine is found only in objects that are read.
	e.configure(three("1"))
	e.drift("a", 7)
	e.equal("plan", changes(e.plan(asking)), nil)
	clock = clock.Add(time.Hour)
	e.equal("plan", changes(e.plan(plan.Options{})), []string{"update fake_thing.a"})
	reads, err = e.store.Reads(t.Context(), "default")
	e.check(err)
	if at := reads.At("fake_thing.a"); !at.Equal(clock.Add(-2 * time.Hour)) {
		t.Errorf("the changed object a was last read unchanged at %s", at)
	}
	if at := reads.At("fake_thing.b"); !at.Equal(clock) {
		t.Errorf("b was read at %s", at)
	}
}

func TestTheRulesSayHowMuchIsReadUnlessTheCommandDoes(t *testing.T) {
	e := newEstate(t)
	e.apply(three("1"))
	e.session.Rules = &placement.Rules{Refresh: placement.RefreshChanged}
	for sentence, c := range map[string]struct {
		options plan.Options
		unread  bool
	}{
		"an ordinary plan goes by them":          {plan.Options{}, true},
		"the command asks for everything":        {plan.Options{Refresh: placement.RefreshAll}, false},
		"a plan that only refreshes reads":       {plan.Options{Mode: plan.RefreshOnly}, false},
		"a plan that reads nothing says nothing": {plan.Options{SkipRefresh: true}, false},
		"what is destroyed is read":              {plan.Options{Mode: plan.Destroy}, false},
	} {
		if p := e.plan(c.options); (p.Unread != nil) != c.unread {
			t.Errorf("%s: %+v was not read", sentence, p.Unread)
		}
	}
}

func TestWhatWasPlannedWithTheSameInputsIsNotAskedAboutAgain(t *testing.T) {
	provided := "provider \"fake\" {\ntoken = \"t\"\n}\n"
	for sentence, c := range map[string]struct {
		change func(e *estate)
		asked  []string
		want   []string
	}{
		"nothing is other than it was": {func(e *estate) {}, nil, nil},
		"the configuration is": {
			func(e *estate) { e.configure(provided + three("2")) },
			[]string{"plan b", "plan b", "plan c", "read b", "read c"}, []string{"update fake_thing.b"},
		},
		"what is stored is": {
			func(e *estate) {
				e.drift("a", 3)
				e.configure(provided + strings.Replace(three("1"), `name = "a"`, "name = \"a\"\nsize = 3", 1))
				_, diags := e.tryApply(e.plan(plan.Options{}))
				e.clean(diags)
				e.questions()
			},
			[]string{"plan a"}, nil,
		},
		"the configuration of the provider is": {
			func(e *estate) { e.configure(strings.Replace(provided, `"t"`, `"u"`, 1) + three("1")) },
			[]string{"plan a", "plan b", "plan c"}, nil,
		},
		"what is ignored is": {
			func(e *estate) {
				e.configure(provided + strings.Replace(three("1"), `name = "a"`,
					"name = \"a\"\nlifecycle {\nignore_changes = [size]\n}", 1))
			},
			[]string{"plan a"}, nil,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(provided + three("1"))
			e.plan(onlyChanged) // gives the verdicts
			e.questions()
			c.change(e)
			p := e.plan(onlyChanged)
			e.equal("questions", e.questions(), c.asked)
			e.equal("plan", changes(p), c.want)
			if hits := 3 - strings.Count(strings.Join(slices.Compact(slices.DeleteFunc(c.asked,
				func(s string) bool { return strings.HasPrefix(s, "read") })), " "), "plan"); p.Unread == nil &&
				hits > 0 || p.Unread != nil && p.Unread.Verdicts != hits {
				t.Errorf("the plan reports %+v as unread, not %d verdicts", p.Unread, hits)
			}
			// Verdicts are used only when just changed objects are read.
			e.plan(plan.Options{})
			if got := e.questions(); len(got) < 6 {
				t.Errorf("a plan that reads everything has only called %s", got)
			}
		})
	}
}

func TestAnotherPackageOfTheProviderIsAskedAgain(t *testing.T) {
	e := newEstate(t)
	e.apply(three("1"))
	of := e.session.Package
	for n := range 3 {
		e.session.Package = func(p addr.Provider) wire.Package {
			pkg := of(p)
			pkg.Version = strconv.Itoa(n)
			return pkg
		}
		e.questions()
		e.plan(onlyChanged)
		e.equal("questions", e.questions(), []string{"plan a", "plan b", "plan c"})
	}
}

// An object with a valid verdict had a vertex of its own, which cost as much as the rest of its plan. It has none now,
// but diagnostics about the object are still reported, with its address, and references to it have its value.
func TestWhatAVerdictSettlesIsEvaluatedAllTheSame(t *testing.T) {
	conditions := `variable "limit" {
default = 5
}
resource "fake_thing" "a" {
count = 2
name  = "a${count.index}"
size  = count.index
lifecycle {
precondition {
condition     = count.index < var.limit
error_message = "too many"
}
postcondition {
condition     = self.size < var.limit
error_message = "too large"
}
}
}
output "names" {
value = fake_thing.a[*].name
}
`
	e := newEstate(t)
	e.apply(conditions)
	e.plan(onlyChanged)
	e.questions()
	p := e.plan(onlyChanged)
	e.equal("questions", e.questions(), nil)
	e.equal("plan", changes(p), nil)
	if p.Unread == nil || p.Unread.Verdicts != 2 {
		t.Errorf("the plan reports %+v as unread", p.Unread)
	}
	if len(p.Changes) != 2 || len(p.Checks) != 1 || len(p.Checks[0].Objects) != 2 || p.Checks[0].Status != "pass" {
		t.Errorf("the plan has %d changes and the checks %+v", len(p.Changes), p.Checks)
	}
	if o := p.Outputs; len(o) != 1 || o[0].Action != plan.NoOp {
		t.Errorf("the output is planned as %+v", o)
	}

	plain := strings.Replace(conditions, "postcondition", "precondition", 1)
	plain = strings.Replace(plain, "self.size", "count.index", 1)
	e.configure(plain)
	p = e.plan(onlyChanged)
	e.equal("questions", e.questions(), nil)
	if o := p.Outputs; len(p.Changes) != 2 || !p.Changes[0].Kept || len(o) != 1 || o[0].Action != plan.NoOp {
		t.Errorf("without the values of unchanged objects, the plan has %d changes, and the outputs %+v", len(p.Changes), o)
	}

	e.configure(strings.Replace(conditions, "default = 5", "default = 1", 1))
	_, diags := e.tryPlan(onlyChanged)
	if text := diags.Err(); text == nil || !strings.Contains(text.Error(), "too many") {
		t.Errorf("the diagnostics of a condition that has become false are %v", text)
	}
	for _, d := range diags {
		if d.Address != "fake_thing.a[1]" {
			t.Errorf("the diagnostic %s has the address %q", d.Summary, d.Address)
		}
	}
}
