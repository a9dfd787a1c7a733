package loop

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
)

// common is what the parts of a loop share: the time of the step, what follows from it so far, and how the run ends.
type common struct {
	now      time.Time
	acts     []Action
	problems []problem // all that was told, in its order
	ending
}

// problem is a diagnostic about a vertex.
type problem struct {
	vertex int
	list   diag.List
}

func (c *common) do(a Action) { c.acts = append(c.acts, a) }

// tell shows diagnostics to the observer and keeps them.
func (c *common) tell(v int, list diag.List) {
	if len(list) == 0 {
		return
	}
	c.problems = append(c.problems, problem{v, list})
	c.do(Shown{Kind: ShownDiagnostics, Vertex: v, Diagnostics: list})
}

// repeatedly reports whether something has failed for long enough to end the run with the error.
func (c *common) repeatedly(p *FailureTimer, doing string, err error) bool {
	spent := p.Failing(c.now, err)
	if spent > 0 {
		c.fail(fmt.Errorf("%w for %s: %s: %w", ErrStore, spent.Round(time.Second), doing, err))
	}
	return spent > 0
}
