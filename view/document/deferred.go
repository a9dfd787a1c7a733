package document

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/graph/plan"
)

// deferredForm is something that a plan has left to a later round.
type deferredForm struct {
	Reason         string             `json:"reason"`
	ResourceChange jsonResourceChange `json:"resource_change"`
}

// takeDeferred adds what the plan has deferred, and whether it is complete, if it was made with deferral. Plans without
// have the form of OpenTofu.
func (out *jsonPlan) takeDeferred(p *plan.Plan) {
	if !p.Defers {
		return
	}
	for _, d := range p.Deferred {
		if d.Change != nil {
			out.DeferredChanges = append(out.DeferredChanges, deferredForm{string(d.Reason), resourceChange(d.Change)})
		}
	}
	applyable, complete := p.Applyable(), !p.Errored && len(p.Deferred)+len(p.Targets)+len(p.Excludes) == 0
	out.Applyable, out.Complete = &applyable, &complete
}

// DeferReasonText says why something is deferred, and what it waits for.
func DeferReasonText(d *plan.Deferred) string {
	text := deferReasons[d.Reason]
	if text == "" {
		text = deferReasons[plan.DeferUnknown]
	}
	if d.Detail != "" {
		text += fmt.Sprintf(" (%s)", d.Detail)
	}
	if len(d.On) > 0 {
		text += "; it waits for " + strings.Join(d.On, ", ")
	}
	return text
}

var deferReasons = map[plan.DeferReason]string{
	plan.DeferCountUnknown:   "it is not known yet which instances there are",
	plan.DeferPrerequisite:   "it depends on something that is deferred",
	plan.DeferResourceConfig: "its provider needs arguments that are not known yet",
	plan.DeferProviderConfig: "the configuration of its provider is not known yet",
	plan.DeferAbsent:         "its provider needs something that does not exist yet",
	plan.DeferUnknown:        "its provider has put it off",
}

// deferred writes what a plan has left to a later round, one message for each.
func (s *Stream) deferred(p *plan.Plan) {
	for _, d := range p.Deferred {
		if d.Stays() {
			continue
		}
		s.message("info", "millipede_deferred", fmt.Sprintf("%s: Deferred: %s", d.Addr, DeferReasonText(d)),
			map[string]any{"deferred": map[string]any{"resource": resourceMessageFor(d.Addr), "reason": d.Reason,
				"waits_for": d.On}})
	}
}
