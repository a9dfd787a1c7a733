package suite

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Validate checks the test files of a configuration, and the local modules that their runs use. Modules from
// elsewhere are not checked.
func Validate(ctx context.Context, s *operation.Session, tree *config.Tree) diag.List {
	var diags diag.List
	checked := map[string]bool{}
	for _, f := range tree.Tests {
		diags = diags.Append(f.Check())
		for _, r := range f.Runs {
			if r.Tree != nil && r.Local() && !checked[r.Module.Source] {
				checked[r.Module.Source] = true
				module := *s
				module.Tree = r.Tree
				diags = diags.Append(module.Validate(ctx))
			}
			diags = diags.Append(r.Check())
		}
	}
	return diags
}
