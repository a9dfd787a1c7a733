package program_test

import (
	"testing"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

func TestEdgesOfAGrowthNameNewVerticesAsTheLoopWillNumberThem(t *testing.T) {
	g := &program.Growth{Vertices: 3}
	for i := range g.Vertices {
		if got := g.Resolve(program.Grown(i), 7); got != 7+i {
			t.Errorf("the new vertex %d becomes %d, not %d", i, got, 7+i)
		}
	}
	for _, old := range []int{0, 6} {
		if got := g.Resolve(old, 7); got != old {
			t.Errorf("the old vertex %d becomes %d", old, got)
		}
	}
}

func TestAStepEndsItsVertexWithoutATaskAndFailsItWithAnErrorOrADoubt(t *testing.T) {
	task := &wire.Task{}
	for sentence, c := range map[string]struct {
		step          program.Step
		finished, bad bool
	}{
		"nothing left to do":           {program.Step{}, true, false},
		"a task":                       {program.Step{Task: task}, false, false},
		"an error":                     {program.Step{Diags: diag.Errors("s", "d", nil)}, true, true},
		"a warning":                    {program.Step{Diags: diag.List{diag.New(diag.Warning, "s", "d", nil)}}, true, false},
		"a cause reported elsewhere":   {program.Step{Failed: true}, true, true},
		"a result that cannot be kept": {program.Step{Task: task, Doubt: &program.Unstorable{}}, true, true},
	} {
		if c.step.Finished() != c.finished || c.step.Bad() != c.bad {
			t.Errorf("%s: finished %t, bad %t", sentence, c.step.Finished(), c.step.Bad())
		}
	}
}
