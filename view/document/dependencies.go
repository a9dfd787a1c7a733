package document

import (
	"fmt"

	"github.com/millipede-iac/millipede/graph/plan"
)

// dependenciesForm lists what a plan depends on, under a key that is specific to Millipede.
type dependenciesForm struct {
	// Lineage and Serial are those of the stored state for which the plan was made.
	Lineage string   `json:"lineage"`
	Serial  uint64   `json:"serial"`
	Writes  []string `json:"writes"`
	Outputs []string `json:"outputs"`
	Reads   []string `json:"reads"`
	Keeps   []string `json:"keeps"`
}

// dependenciesOf returns the form of a plan's dependencies; nil for a plan without this information.
func dependenciesOf(p *plan.Plan) *dependenciesForm {
	r := p.Dependencies
	if r == nil {
		return nil
	}
	return &dependenciesForm{Lineage: p.BaseLineage, Serial: p.BaseSerial, Writes: texts(r.Writes),
		Outputs: append([]string{}, r.Outputs...), Reads: texts(r.Reads), Keeps: texts(r.Keeps)}
}

func texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = x.String()
	}
	return out
}
