package view

import (
	"fmt"

	"github.com/millipede-iac/millipede/graph/plan"
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
