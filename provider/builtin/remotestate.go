package builtin

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// remoteStateType is the data source that reads the root outputs of another state.
const remoteStateType = "terraform_remote_state"

var remoteStateBlock = &schema.Block{Attributes: map[string]*schema.Attribute{
	"backend": {
		Type: cty.String, Required: true,
		Description:     "The backend that keeps the state, for example `http` or `local`.",
		DescriptionKind: schema.Markdown,
	},
	"config": {
		Type: cty.DynamicPseudoType, Optional: true,
		Description: "The arguments of the backend, as an object, with the names that a `backend` block of the " +
			"same type has.",
		DescriptionKind: schema.Markdown,
	},
	"defaults": {
		Type: cty.DynamicPseudoType, Optional: true,
		Description:     "Values, as an object, for outputs that the state does not have.",
		DescriptionKind: schema.Markdown,
	},
	"outputs": {
		Type: cty.DynamicPseudoType, Computed: true,
		Description: "All root outputs of the state, as an object.", DescriptionKind: schema.Markdown,
	},
	"workspace": {
		Type: cty.String, Optional: true,
		Description:     "The workspace to read, where the backend has workspaces; otherwise `default`.",
		DescriptionKind: schema.Markdown,
	},
}}

// ValidateDataConfig implements provider.DataSource. A backend's configuration is checked once it is known.
func (b *builtin) ValidateDataConfig(_ context.Context, typeName string, config cty.Value) diag.List {
	if typeName != remoteStateType {
		return unknownType("data source", typeName)
	}
	var diags diag.List
	backend, settings := config.GetAttr("backend"), config.GetAttr("config")
	switch {
	case !objectLike(settings):
		diags = diags.Append(at("config", "Invalid backend configuration", "The arguments of a backend are given as "+
			"an object."))
	case settings.IsWhollyKnown() && backend.IsKnown() && !backend.IsNull():
		diags = diags.Append(b.checkConfig(backendName(backend), settingsObject(settings)))
	}
	if !objectLike(config.GetAttr("defaults")) {
		diags = diags.Append(at("defaults", "Invalid default values",
			"Default values of outputs are given as an object."))
	}
	return diags
}

// ReadDataSource implements provider.DataSource.
func (b *builtin) ReadDataSource(ctx context.Context, typeName string, config, _ cty.Value) (cty.Value, diag.List) {
	if typeName != remoteStateType {
		return cty.NilVal, unknownType("data source", typeName)
	}
	backend, settings := backendName(config.GetAttr("backend")), settingsObject(config.GetAttr("config"))
	diags := b.checkConfig(backend, settings)
	if diags.HasErrors() {
		return cty.NilVal, unreadable(ctx, diags)
	}
	workspace := "default"
	if w := config.GetAttr("workspace"); !w.IsNull() {
		workspace = w.AsString()
	}
	found, more := b.options.ReadState(ctx, backend, settings, workspace)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return cty.NilVal, unreadable(ctx, diags)
	}
	result := config.AsValueMap()
	outputs := map[string]cty.Value{}
	if defaults := config.GetAttr("defaults"); !defaults.IsNull() {
		for it := defaults.ElementIterator(); it.Next(); {
			name, v := it.Element()
			outputs[name.AsString()] = v
		}
	}
	if found == nil {
		diags = diags.Append(at("workspace", "Unable to find remote state",
			"The backend keeps no state in the workspace "+workspace+"."))
		result["outputs"] = cty.EmptyObjectVal
		return cty.ObjectVal(result), unreadable(ctx, diags)
	}
	for name, v := range found {
		outputs[name] = v
	}
	result["outputs"] = cty.ObjectVal(outputs)
	return cty.ObjectVal(result), diags
}

// checkConfig checks a backend's configuration; its problems are in the argument "config".
func (b *builtin) checkConfig(backend string, settings cty.Value) diag.List {
	var diags diag.List
	for _, d := range b.options.CheckConfig(backend, settings) {
		inside := *d
		inside.Path = append(cty.GetAttrPath("config"), d.Path...)
		diags = diags.Append(&inside)
	}
	return diags
}

// unreadable adds the problem with the name of the data source.
func unreadable(ctx context.Context, diags diag.List) diag.List {
	summary := "Unable to read remote state"
	if address := provider.AddressOf(ctx); address != "" {
		summary = address + ": " + summary
	}
	return diags.Append(diag.New(diag.Error, summary, "", nil))
}

func at(attribute, summary, detail string) *diag.Diagnostic {
	d := diag.New(diag.Error, summary, detail, nil)
	d.Path = cty.GetAttrPath(attribute)
	return d
}

// objectLike reports whether the value is, or may become, an object or a map.
func objectLike(v cty.Value) bool {
	ty := v.Type()
	return ty == cty.DynamicPseudoType || ty.IsObjectType() || ty.IsMapType()
}

// backendName returns the name of a known backend. The oldest versions called the local one "_local".
func backendName(v cty.Value) string {
	if name := v.AsString(); name != "_local" {
		return name
	}
	return "local"
}

// settingsObject returns a backend's configuration as an object; an absent one as an object without attributes.
func settingsObject(v cty.Value) cty.Value {
	switch {
	case v.IsNull():
		return cty.EmptyObjectVal
	case v.Type().IsMapType():
		return cty.ObjectVal(v.AsValueMap())
	default:
		return v
	}
}
