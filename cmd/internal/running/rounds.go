package running

import (
	"context"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view/document"
)

// Rounds are the rounds of an apply with deferral that follow the first one: each plans what the one before has
// deferred, asks for approval, and applies that. The lock of the state is kept from one to the next.
type Rounds struct {
	// Options are those of the first plan; what the rounds have left is added.
	Options plan.Options
	Command string
	// Approved asks for no approval.
	Approved bool
	// Again plans again although the first plan has changed nothing: something may have changed elsewhere since.
	Again bool
}

// GoOn makes rounds after a plan was applied, until nothing is deferred any more. It returns the exit code, which is 1
// if a round fails or is not approved, or if it plans nothing of what was deferred: then nothing more can become known.
func (r *Run) GoOn(ctx context.Context, applied *plan.Plan, o Rounds) int {
	if diags := r.Mismatch; diags.HasErrors() {
		r.UI.Diagnostics(diags)
		return 1
	}
	if diags := stuck(applied, nil); diags.HasErrors() && !o.Again {
		r.UI.Diagnostics(diags)
		return 1
	}
	after := applied.Left(nil)
	for n := 2; len(after.Waiting) > 0; n++ {
		if diags := r.Next(ctx); diags.HasErrors() {
			r.UI.Diagnostics(diags)
			return 1
		}
		r.UI.Note(fmt.Sprintf("\nRound %d: planning what was deferred, with what is known now.\n", n))
		o.Options.After = after
		planned, ok := r.ShowPlan(ctx, o.Options, o.Approved)
		if !ok {
			return 1
		}
		p := planned.Plan
		diags := stuck(p, after)
		if diags.HasErrors() && !p.Pending() {
			r.UI.Diagnostics(diags)
			return 1
		}
		if p.Applyable() && !o.Approved && !r.Approve(p) {
			return 1
		}
		if code := r.CarryOut(ctx, p, o.Command); code != 0 {
			return code
		}
		if diags.HasErrors() {
			r.UI.Diagnostics(diags)
			return 1
		}
		after = p.Left(after)
	}
	return 0
}

// stuck returns an error if a plan has deferred something and changes nothing that an earlier round had deferred; after
// is nil for a first round.
func stuck(p *plan.Plan, after *plan.Round) diag.List {
	if len(p.Deferred) == 0 || after.Progress(p) {
		return nil
	}
	return diag.Errors("Deferred changes cannot be planned", "Nothing was left to change that could make more values "+
		"known, and this is still deferred:\n"+waiting(p)+"\n\nWhat these wait for has to come from elsewhere: from "+
		"objects outside of this plan (see -target and -exclude), or from a provider that says what it needs.", nil)
}

// Remaining returns a warning about what a saved plan has deferred, after the plan was applied: nobody has approved
// more than the plan.
func Remaining(p *plan.Plan) diag.List {
	if len(p.Deferred) == 0 {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "Deferred changes remain", "The plan was applied. It has deferred what could "+
		"not be planned at that time:\n"+waiting(p)+"\n\nTo plan and apply this now: "+diag.Program()+" runs resume", nil)}
}

// waiting lists what a plan has deferred, with the reasons.
func waiting(p *plan.Plan) string {
	const most = 20
	var b strings.Builder
	n := 0
	for _, d := range p.Deferred {
		if d.Stays() {
			continue
		}
		if n++; n > most {
			continue
		}
		fmt.Fprintf(&b, "\n  - %s: %s", d.Addr, document.DeferReasonText(d))
	}
	if n > most {
		fmt.Fprintf(&b, "\n  - and %d more", n-most)
	}
	return strings.TrimPrefix(b.String(), "\n")
}
