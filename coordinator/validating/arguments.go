package validating

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/schema"
)

// ignored checks the elements of ignore_changes.
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
				"ignore_changes keeps the values that arguments had when the object was created. %s is not an argument: "+
					"only the provider sets it, so listing it has no effect. Remove it from the list.",
				values.FormatPath(paths[i])[1:]), &config.TypeRange))
		}
	}
	return diags
}

// protection reports a constant prevent_destroy that is not a bool. Expressions with references are checked in
// planning.
func protection(r *config.Resource) diag.List {
	if r.PreventDestroy == nil {
		return nil
	}
	v, problems := r.PreventDestroy.Value(nil)
	if problems.HasErrors() {
		return nil
	}
	if _, err := convert.Convert(v, cty.Bool); err != nil {
		return diag.Errors("Invalid value for prevent_destroy",
			fmt.Sprintf("The lifecycle argument prevent_destroy of %s cannot have this value: %s.", r.Addr, err),
			r.PreventDestroy.Range().Ptr())
	}
	return nil
}

// winRM warns about a connection of the type winrm, which OpenTofu has deprecated and workers do not support,
// in a provisioner or in the whole resource. body may be nil.
func winRM(m *values.Module, body hcl.Body, rep eval.Repetition, self cty.Value) diag.List {
	if body == nil {
		return nil
	}
	attrs, _ := body.JustAttributes() // the evaluation has reported errors in the body
	a := attrs["type"]
	if a == nil {
		return nil
	}
	v, diags := eval.PrepareExpr(a.Expr).Eval(m.Scope, cty.String, rep, self)
	if v, _ = v.Unmark(); diags.HasErrors() || !v.IsKnown() || v.IsNull() || v.AsString() != "winrm" {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "WinRM connection type is deprecated",
		"OpenTofu will remove connections of the type winrm, and Millipede does not have them: applying this fails. "+
			"Windows comes with an SSH server; use that.", a.Expr.Range().Ptr())}
}
