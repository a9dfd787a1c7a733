package view

import (
	"fmt"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view/document"
)

// deferredOf returns what a plan has left to a later round, without objects that would stay as they are.
func deferredOf(p *plan.Plan) (out []*plan.Deferred) {
	for _, d := range p.Deferred {
		if !d.Stays() {
			out = append(out, d)
		}
	}
	return out
}

// roundText says which run has made the round before, and how much a run has left to the next one.
func roundText(r journal.Run, p *plan.Plan) (out string) {
	if r.After != "" {
		out = fmt.Sprintf("Follows: %s\n", r.After)
	}
	if n := len(deferredOf(p)); n > 0 {
		out += fmt.Sprintf("Deferred: %d\n", n)
	}
	return out
}

// deferred writes what the plan has left to a later round.
func (t *planText) deferred() {
	list := deferredOf(t.plan)
	if len(list) == 0 {
		return
	}
	t.line(t.wrap("\nThe following cannot be planned yet, and is deferred:"))
	for _, d := range list {
		t.line("")
		t.line(t.Ink.on(boldCode) + "  # " + d.Addr.String() + t.Ink.off() + " is deferred\n  # (" +
			document.DeferReasonText(d) + ")")
	}
	head := t.Ink.on(boldCode) + "Deferred:" + t.Ink.off()
	t.line(fmt.Sprintf("\n%s %d to be planned after this plan is applied.", head, len(list)))
}
