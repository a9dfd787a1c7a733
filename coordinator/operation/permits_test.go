package operation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/wire"
)

// Requests about objects outside of a run held no permit: they exceeded a limit that other runs had used up.
func TestAReadingOutsideOfARunHoldsAPermitOfEachLimit(t *testing.T) {
	rules, diags := placement.Parse([]byte(`
limit "reads" {
  providers = ["**/fake"]
  max       = 1
}
limit "others" {
  providers = ["**/other"]
  max       = 1
}
`), "millipede.hcl")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	for own, want := range map[bool][]string{false: {"default", "reads"}, true: {"reads"}} {
		e := newEstate(t)
		e.apply(block("a", `name = "a"`))
		e.configure("import {\n  to = fake_thing.found\n  id = \"id1\"\n}\n")
		e.session.Rules, e.session.OwnSlots = rules, own
		earlier, begun := map[string]bool{}, false // permits that the apply has not released yet
		held := func() (out []string) {
			limits, err := e.session.Hub.Limits(t.Context())
			e.check(err)
			for _, l := range limits {
				for _, r := range l.Held {
					if earlier[r.ID] = earlier[r.ID] || !begun; !earlier[r.ID] {
						out = append(out, l.Name)
					}
				}
			}
			slices.Sort(out)
			return out
		}
		held()
		begun = true
		var during []string
		e.cloud.onRead = func(string) error {
			during = held()
			return nil
		}
		_, diags := e.session.Generate(t.Context())
		e.clean(diags)
		if !slices.Equal(during, want) {
			t.Errorf("while the object is read, permits of %v are held, want %v", during, want)
		}
		if left := held(); len(left) > 0 {
			t.Errorf("afterwards permits of %v are held", left)
		}
	}
}

// An operation in doubt holds the permits of its object until the doubt is resolved. If reading the object needed these
// permits, it would wait for ever.
func TestADoubtIsResolvedAlthoughItsOperationHoldsTheLastPermit(t *testing.T) {
	e := newEstate(t)
	e.apply(two)
	at := e.suspect("fake_thing.a", "delete")
	e.session.Parallelism = 1
	before := e.system.Connect("before")
	e.check(before.ResizeLimit(t.Context(), wire.Limit{Name: wire.DefaultLimit, Slots: 1}))
	_, err := before.Acquire(t.Context(), wire.DefaultLimit, wire.PermitRequest{
		ID: "gone-0", Coordinator: "c", Run: "gone",
		At: time.Now()})
	e.check(err)
	e.resolve(at, "")
}

func TestAStopPreventsAReadingOutsideOfARun(t *testing.T) {
	e := newEstate(t)
	e.apply(block("a", `name = "a"`))
	e.configure("import {\n  to = fake_thing.found\n  id = \"id1\"\n}\n")
	stop, request, _ := operation.NewStop(t.Context())
	request(operation.ErrInterrupted)
	e.session.Stop = stop
	e.cloud.onRead = func(string) error {
		t.Error("the object was read")
		return nil
	}
	_, diags := e.session.Generate(t.Context())
	if !says(diags, "Operation interrupted") {
		t.Errorf("the diagnostics are %v", diags)
	}
}
