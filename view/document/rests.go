package document

import (
	"fmt"

	"github.com/millipede-iac/millipede/graph/plan"
)

// restsForm is what a plan rests on, under a key of Millipede's own.
type restsForm struct {
	// Lineage and Serial are those of the stored state that the plan was made for.
	Lineage string   `json:"lineage"`
	Serial  uint64   `json:"serial"`
	Writes  []string `json:"writes"`
	Outputs []string `json:"outputs"`
	Reads   []string `json:"reads"`
	Keeps   []string `json:"keeps"`
}

// restsOf is the form of what a plan rests on; nil for a plan that does not say so.
func restsOf(p *plan.Plan) *restsForm {
	r := p.RestsOn
	if r == nil {
		return nil
	}
	return &restsForm{Lineage: p.BaseLineage, Serial: p.BaseSerial, Writes: texts(r.Writes),
		Outputs: append([]string{}, r.Outputs...), Reads: texts(r.Reads), Keeps: texts(r.Keeps)}
}

func texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = x.String()
	}
	return out
}
