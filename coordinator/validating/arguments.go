package validating

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/provider/schema"
)

// ignored checks what ignore_changes names.
func ignored(config *config.Resource, block *schema.Block) diag.List {
	var diags diag.List
	paths := values.IgnorePaths(config)
	for i, t := range config.IgnoreChanges {
		steps := make(hcl.Traversal, len(t))
		copy(steps, t)
		if root, ok := t[0].(hcl.TraverseRoot); ok {
			steps[0] = hcl.TraverseAttr{Name: root.Name, SrcRange: root.SrcRange}
		}
		if diags = diags.Append(eval.CheckTraversal(steps, block)); diags.HasErrors() {
			continue
		}
		if a := block.AttributeAt(paths[i]); a != nil && a.Computed && !a.Optional {
			diags = diags.Append(diag.New(diag.Warning, "Redundant ignore_changes element", fmt.Sprintf(
				"ignore_changes keeps the values that arguments had when the object was created. %s is no argument: the provider alone decides about it, so naming it has no effect. Take it out of the list.",
				values.FormatPath(paths[i])[1:]), &config.TypeRange))
		}
	}
	return diags
}
