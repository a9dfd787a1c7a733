package operation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// compare reads instances, and returns the descriptions of those that differ from the state.
func (e *estate) compare(addresses ...string) (out []string) {
	e.t.Helper()
	var list []addr.Instance
	for _, a := range addresses {
		at, diags := addr.ParseInstance(a)
		e.clean(diags)
		list = append(list, at)
	}
	found, diags := e.session.Compare(e.t.Context(), e.state(), list)
	e.clean(diags)
	for _, d := range found {
		out = append(out, fmt.Sprintf("%s %t %s", d.Addr, d.Gone, strings.Join(d.Attributes, ",")))
	}
	return out
}

func TestOnlyWhatIsToBeComparedIsRead(t *testing.T) {
	e := newEstate(t)
	e.apply(three("1"))
	e.questions()
	version := e.state().Serial
	e.equal("found", e.compare("fake_thing.c"), nil)
	e.equal("questions", e.questions(), []string{"read c"}) // and not b, which it depends on
	e.drift("a", 7)
	e.drift("b", 8)
	e.equal("found", e.compare("fake_thing.a"), []string{"fake_thing.a false size"})
	e.equal("questions", e.questions(), []string{"read a"})
	if e.state().Serial != version || e.attribute("fake_thing.a", "size") == float64(7) {
		t.Error("comparing has changed the state")
	}
	reads, err := e.store.Reads(t.Context(), "default")
	e.check(err)
	if !reads.At("fake_thing.b").IsZero() && reads.At("fake_thing.b").After(reads.At("fake_thing.a")) {
		t.Error("the comparison reports that it has read b")
	}
	// A plan after the comparison has the same results as one before.
	e.equal("drift", drift(e.plan(plan.Options{Mode: plan.RefreshOnly})),
		[]string{"fake_thing.a", "fake_thing.b"})
}

func drift(p *plan.Plan) (out []string) {
	for _, c := range p.Drift {
		out = append(out, c.Addr.String())
	}
	return out
}

func TestAnObjectThatIsGoneIsFound(t *testing.T) {
	e := newEstate(t)
	e.apply(three("1"))
	e.cloud.mu.Lock()
	for id, o := range e.cloud.objects {
		if o.GetAttr("name").AsString() == "a" {
			delete(e.cloud.objects, id)
		}
	}
	e.cloud.mu.Unlock()
	e.equal("found", e.compare("fake_thing.a", "fake_thing.b"), []string{"fake_thing.a true "})
}
