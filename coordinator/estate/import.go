package estate

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Importable checks that the configuration has a block for the instance: otherwise the next plan would destroy
// the object.
func Importable(tree *config.Tree, at addr.Instance) diag.List {
	n := tree.Modules[at.Module.Module()]
	if n == nil {
		return diag.Errors("Import to non-existent module", fmt.Sprintf("The configuration has no %s. Add it before "+
			"importing into it.", at.Module), nil)
	}
	if n.Module.Resources[at.Resource] == nil {
		return diag.Errors(fmt.Sprintf("resource address %q does not exist in the configuration.", at),
			fmt.Sprintf("Add its block to %s first, for example:\n\nresource %q %q {\n  # (arguments)\n}",
				at.Module.Display(), at.Resource.Type, at.Resource.Name), nil)
	}
	return nil
}

// Imported completes the plan of an import, of which only the results of refreshing are kept: without a plan, unknown
// outputs cannot become known. It returns an error if the plan has not found the object.
func Imported(p *plan.Plan, at addr.Instance) diag.List {
	for _, o := range p.Outputs {
		if o.Action == plan.Delete {
			o.Action = plan.NoOp
		} else {
			o.After = cty.UnknownAsNull(o.After)
		}
	}
	if p.Prior.Object(at, state.CurrentObject) == nil {
		return diag.Errors("Configuration for import target does not exist",
			fmt.Sprintf("The resource has no instance %s.", at), nil)
	}
	return nil
}
