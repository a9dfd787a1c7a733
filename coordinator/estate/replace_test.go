package estate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
)

// inMemory is a state that moves change. fails is the error of its commits.
type inMemory struct {
	st    *state.State
	fails error
}

func (m inMemory) Load(context.Context) (*state.State, diag.List) { return m.st, nil }
func (m inMemory) Close(context.Context) diag.List                { return nil }
func (m inMemory) Commit(_ context.Context, changes []state.Change) diag.List {
	if m.fails != nil {
		return diag.List{}.Append(m.fails)
	}
	m.st.Apply(changes...)
	return nil
}

func TestAMoveToAnotherStateLosesNothingIfOneOfThemCannotBeWritten(t *testing.T) {
	from, diags := addr.ParseTarget("terraform_data.a")
	must(t, diags)
	to, diags := addr.ParseTarget("terraform_data.b")
	must(t, diags)
	broken := errors.New("the disk is full")
	for sentence, c := range map[string]struct {
		source, target     error
		inSource, inTarget bool
	}{
		"both can be written":            {nil, nil, false, true},
		"the target cannot be written":   {nil, broken, true, false},
		"the source cannot be written":   {broken, nil, true, true},
		"neither of them can be written": {broken, broken, true, false},
	} {
		source, target := state.Empty(), state.Empty()
		source.Apply(object(t, "a", 1))
		read, there := source.Clone(), target.Clone()
		moves, diags := edit.PlannedMoves(read, there, from, to)
		must(t, diags)
		diags = Move(t.Context(), moves, read, inMemory{source, c.source}, there, inMemory{target, c.target})
		if fails := c.source != nil || c.target != nil; diags.HasErrors() != fails ||
			fails && !strings.Contains(diags.Err().Error(), broken.Error()) {
			t.Errorf("%s: %v", sentence, diags)
		}
		inSource, inTarget := source.Instance(from.AsInstance()) != nil, target.Instance(to.AsInstance()) != nil
		if inSource != c.inSource || inTarget != c.inTarget {
			t.Errorf("%s: it is in the source: %t, in the target: %t", sentence, inSource, inTarget)
		}
	}
}
