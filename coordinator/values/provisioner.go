package values

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/wire"
)

// EvalProvisioner evaluates a provisioner block. Its own connection overrides the given one; self is the object
// that it provisions.
func (m *Module) EvalProvisioner(p *config.Provisioner, connection hcl.Body, rep eval.Repetition, self cty.Value) (
	wire.Provisioner, diag.List) {
	out := wire.Provisioner{Type: p.Type, Continue: p.Continue}
	block := provisioner.Block(p.Type)
	if block == nil {
		return out, diag.Errors("Missing required provisioner plugin",
			fmt.Sprintf("There is no provisioner %q; there are %q.", p.Type, provisioner.Types()), p.Range.Ptr())
	}
	diags := m.evalProvision(&out, p, block, rep, self)
	switch {
	case connection == nil && p.Connection == nil:
		return out, diags
	case connection == nil:
		connection = p.Connection
	case p.Connection != nil:
		connection = config.MergeBodies(connection, p.Connection)
	}
	value, more := m.store.Code.Body(connection, provisioner.Connection).Eval(m.Scope, rep, self)
	if diags = diags.Append(more); diags.HasErrors() {
		return out, diags
	}
	bare, _ := value.UnmarkDeep()
	var err error
	if out.Connection, err = coding.EncodeValue(bare, provisioner.Connection.ImpliedType()); err != nil {
		return out, diags.Append(diag.New(diag.Error, "Invalid connection configuration", err.Error(), p.Range.Ptr()))
	}
	return out, diags
}

// evalProvision evaluates the arguments of a provisioner.
func (m *Module) evalProvision(out *wire.Provisioner, p *config.Provisioner, block *schema.Block, rep eval.Repetition,
	self cty.Value) diag.List {
	value, diags := m.store.Code.Body(p.Config, block).Eval(m.Scope, rep, self)
	if diags.HasErrors() {
		return diags.Append(leftOut(p, block))
	}
	if summary, detail := provisioner.Problem(p.Type, value); summary != "" {
		return diags.Append(diag.New(diag.Error, summary, detail, p.Range.Ptr()))
	}
	out.Sensitive, out.Ephemeral = marks.Contains(value, marks.Sensitive), marks.Contains(value, marks.Ephemeral)
	bare, _ := value.UnmarkDeep()
	var err error
	if out.Config, err = coding.EncodeValue(bare, block.ImpliedType()); err != nil {
		return diags.Append(diag.New(diag.Error, "Invalid provisioner configuration", err.Error(), p.Range.Ptr()))
	}
	return diags
}

// leftOut reports required arguments that are missing in a provisioner block whose evaluation has failed.
func leftOut(p *config.Provisioner, block *schema.Block) diag.List {
	given, _ := p.Config.JustAttributes() // the evaluation has reported errors in the body
	attrs := make(map[string]cty.Value, len(block.Attributes))
	for name, a := range block.Attributes {
		attrs[name] = cty.NullVal(a.ImpliedType())
		if given[name] != nil {
			attrs[name] = cty.UnknownVal(a.ImpliedType())
		}
	}
	if summary, detail := provisioner.Problem(p.Type, cty.ObjectVal(attrs)); summary != "" {
		return diag.Errors(summary, detail, p.Range.Ptr())
	}
	return nil
}
