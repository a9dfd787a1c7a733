package values

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
)

// CheckTest evaluates the assertions of a test about the root module, in their order. given are the variables
// of the test; a variable that the module declares has its value in the module.
func (s *Store) CheckTest(asserts []*config.CheckRule, given map[string]cty.Value) ([]eval.Status, diag.List) {
	o := s.scopeOptions(s.root, "")
	o.Data = testData{s.root, given}
	o.Static = testStatic{static{s.root.Node, s.Code}, given}
	scope := eval.New(o)
	var statuses []eval.Status
	var diags diag.List
	for _, a := range asserts {
		rule := eval.Rule{
			Kind: eval.TestAssertion, Condition: eval.PrepareTestExpr(a.Condition),
			Message: eval.PrepareTestExpr(a.ErrorMessage), Range: a.Range,
		}
		verdict, more := rule.Check(scope, eval.Once, cty.NilVal, diag.Error)
		statuses = append(statuses, verdict.Status)
		diags = append(diags, more...)
	}
	return statuses, diags
}

// Complete sets the values of resource instances that the run of this store has not touched to those in a
// state.
func (s *Store) Complete(from *state.State) {
	for abs, r := range from.Resources {
		m := s.Module(abs.Module)
		if m == nil || m.ResourceBlock(abs.Resource) == nil {
			continue
		}
		block := m.ResourceBlock(abs.Resource)
		for k, i := range r.Instances {
			if i.Current == nil || block.Code.Schema == nil || block.has(k) {
				continue
			}
			if v, err := DecodeStored(i.Current, block.Code.Schema); err == nil {
				block.Set(k, v)
			}
		}
	}
}

// module is an alias of Module for embedding, which keeps its method Module accessible.
type module = Module

// testData is the data for assertions of a test: the root module with its outputs, and the variables of the
// test.
type testData struct {
	*module
	given map[string]cty.Value
}

// Variable implements eval.Data.
func (t testData) Variable(v addr.Variable, rng hcl.Range) (cty.Value, diag.List) {
	if _, declared := t.Node.Module.Variables[v.Name]; !declared {
		return t.given[v.Name], nil
	}
	return t.module.Variable(v, rng)
}

// Output implements eval.TestData. As in OpenTofu, null replaces unknown values after a plan; the attributes of
// resources stay unknown.
func (t testData) Output(o addr.Output, _ hcl.Range) (cty.Value, diag.List) {
	return cty.UnknownAsNull(t.OutputValue(o.Name)), nil
}
