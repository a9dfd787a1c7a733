package engine

import (
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/coordinator"
)

// A plan that waited for schemas had no timeline yet, and so no reason to wait.
func TestAQuestionWithoutAWorkerNamesThePool(t *testing.T) {
	var got []string
	a := &asking{Observer: coordinator.Silent{}, waits: func(kind, on, text string) {
		got = append(got, kind+"|"+on+"|"+text)
	}}
	a.Waiting([]coordinator.Wait{{Pool: "us", Vertices: 2}}) // operations, which the timeline has
	a.Waiting(nil)
	a.Waiting([]coordinator.Wait{{Pool: "eu", Address: "fleet/fleet", Vertices: 1, Call: true}})
	a.Waiting(nil)
	a.Waiting([]coordinator.Wait{{Pool: "eu, us", Address: "fleet/fleet", Unsuited: []string{"w is old"}, Call: true}})
	want := []string{
		"worker|eu|a question about fleet/fleet waits for a worker of the pool eu, which has none", "||",
		"worker|eu, us|a question about fleet/fleet waits for a worker of one of the pools eu, us, which have none of a " +
			"suitable version"}
	if !slices.Equal(got, want) {
		t.Errorf("told is\n%q, not\n%q", got, want)
	}
}
