package planning_test

import (
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

func TestPreventDestroyRefusesThePlan(t *testing.T) {
	e := newStage(t)
	e.apply(`resource "fake_thing" "a" {
  name = "a"
  lifecycle { prevent_destroy = true }
}`)
	if _, diags := e.tryPlan(plan.Options{Mode: plan.Destroy}); !says(diags, "prevent_destroy") {
		t.Errorf("the diagnostics are %v", diags)
	}
}

func TestPreventDestroyIsAskedOfBlocksWhoseModuleInstanceIsGoneAndNeverOfAnInstance(t *testing.T) {
	e := newStage(t)
	const protected = `resource "fake_thing" "a" {
  name = "a"
  lifecycle { prevent_destroy = true }
}`
	e.configure(`module "m" { source = "./child" }`, protected)
	e.record(e.plan(plan.Options{}))
	e.configure(`module "m" {
  source = "./child"
  count  = 0
}`, protected)
	if _, diags := e.tryPlan(plan.Options{}); !says(diags, "Resource instance cannot be destroyed") {
		t.Errorf("without the module's instance: %v", diags)
	}
	e.configure(`resource "fake_thing" "b" {
  count = 1
  name  = "b"
  lifecycle { prevent_destroy = count.index == 0 }
}`)
	if _, diags := e.tryPlan(plan.Options{}); !says(diags, "Invalid reference in prevent_destroy") {
		t.Errorf("a warning about an instance, although none is destroyed: %v", diags)
	}
}
