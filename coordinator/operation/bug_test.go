package operation_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// bugOf returns the bug that a list of diagnostics reports; nil if there is none.
func bugOf(diags diag.List) *bug.Error {
	for _, d := range diags {
		var b *bug.Error
		if err, ok := d.Extra.(error); ok && errors.As(err, &b) {
			return b
		}
	}
	return nil
}

func planted() { panic("planted") }

// startled is a view that panics at the first operation.
type startled struct{ coordinator.Silent }

func (startled) Counts(coordinator.Counts) { planted() }

// A panic in the code of an operation ended the process: only the loop's own goroutine and those of its executor were
// recovered, not the code before the run, or beside it.
func TestABugEndsItsOperationWithItsTraceAndNoOtherOperation(t *testing.T) {
	places := map[string]func(s *operation.Session){
		"asking for schemas": func(s *operation.Session) {
			s.Package = func(addr.Provider) wire.Package { planted(); return wire.Package{} }
		},
		"computing": func(s *operation.Session) { s.Compute = func(int, func()) { planted() } },
		"in a view": func(s *operation.Session) { s.Observer = startled{} },
		"naming a run": func(s *operation.Session) {
			s.NewID = func() string { planted(); return "" }
		},
	}
	for name, plant := range places {
		t.Run(name, func(t *testing.T) {
			good, bad := newEstate(t), newEstate(t)
			for _, e := range []*estate{good, bad} {
				e.configure(`resource "fake_thing" "all" {
	count = 2
	name  = "n${count.index}"
}`)
			}
			plant(&bad.session)
			var group sync.WaitGroup
			var goodDiags, badDiags diag.List
			var planned *operation.Planned
			group.Go(func() {
				planned, goodDiags = good.session.Plan(t.Context(), good.state(),
					plan.Options{})
			})
			group.Go(func() { _, badDiags = bad.session.Plan(t.Context(), bad.state(), plan.Options{}) })
			group.Wait()
			b := bugOf(badDiags)
			if b == nil || !strings.Contains(string(b.Stack), "planted") {
				t.Errorf("the operation with the bug ends with: %v", badDiags)
			}
			if goodDiags.HasErrors() || planned == nil || len(planned.Plan.Changes) != 2 {
				t.Errorf("the other operation: %v", goodDiags)
			}
		})
	}
}
