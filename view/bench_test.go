package view_test

import (
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// manyChanges is a plan that creates n objects.
func manyChanges(n int) (*plan.Plan, *values.Schemas) {
	block := &schema.Block{Attributes: map[string]*schema.Attribute{
		"id": {Type: cty.String, Computed: true}, "name": {Type: cty.String, Required: true},
		"tags": {Type: cty.Map(cty.String), Optional: true},
	}}
	fleet := addr.Provider{Host: "example.org", Namespace: "a", Type: "fleet"}
	schemas := values.NewSchemas(map[addr.Provider]*provider.Schemas{
		fleet: {Managed: map[string]schema.Schema{"fleet_machine": {Block: block}}}})
	p := &plan.Plan{Prior: state.Empty()}
	for i := range n {
		a := addr.Instance{Resource: addr.Resource{Mode: addr.Managed, Type: "fleet_machine", Name: "a"},
			Key: addr.IntKey(i)}
		p.Changes = append(p.Changes, &plan.Change{
			Addr: a, Previous: a, Action: plan.Create, Provider: addr.ProviderInstance{Provider: fleet},
			Before: cty.NullVal(block.ImpliedType()),
			After: cty.ObjectVal(map[string]cty.Value{
				"id": cty.UnknownVal(cty.String), "name": cty.StringVal("a" + strconv.Itoa(i)),
				"tags": cty.MapVal(map[string]cty.Value{"a": cty.StringVal("b")}),
			}),
		})
	}
	return p, schemas
}

func BenchmarkPlanText(b *testing.B) {
	p, schemas := manyChanges(1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := view.PlanText(io.Discard, p, schemas, view.TextOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*1000), "µs/change")
}

func BenchmarkProgress(b *testing.B) {
	p := view.NewProgress(view.ProgressOptions{Out: io.Discard, Width: func() int { return 80 }})
	d := program.Description{Address: "fleet_machine.a[17]", Action: "create"}
	b.ReportAllocs()
	for b.Loop() {
		p.Started(1, d, "default", time.Time{})
		p.Finished(1, d, program.Notes{IDKey: "id", ID: "a-17"}, time.Second)
	}
	if err := p.Settle(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkStream(b *testing.B) {
	s := document.NewStream(document.StreamOptions{Out: io.Discard, Now: time.Now})
	d := program.Description{Address: "fleet_machine.a[17]", Action: "create"}
	b.ReportAllocs()
	for b.Loop() {
		s.Started(1, d, "default", time.Time{})
		s.Finished(1, d, program.Notes{IDKey: "id", ID: "a-17"}, time.Second)
	}
	if err := s.Settle(); err != nil {
		b.Fatal(err)
	}
}
