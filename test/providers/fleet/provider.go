// Package fleet is a test provider on terraform-plugin-framework: machines in a cloud of files, slow and faulty on
// command.
//
// The same code is served as fleet over plugin protocol 6 and as fleet5 over protocol 5. The README of the module lists
// its resources and functions.
package fleet

import (
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/metaschema"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// NoRegion is the region of objects where neither they nor the provider name one.
const NoRegion = "global"

// Fleet is the provider. Its record and cloud are those of the environment until it is configured.
type Fleet struct {
	name   string // fleet or fleet5
	nested bool   // whether the protocol knows nested attributes
	env    act.Env
	chance io.Reader
	// before is the stage of calls that do not need a configuration: functions, Stop. Resources get theirs by Configure.
	before *act.Stage
}

// New returns the provider of a name. Nested says whether it may have nested attributes, which protocol 5 does not
// support.
func New(name string, nested bool, env act.Env) (*Fleet, error) {
	stage, err := env.Open(name, rand.Reader)
	if err != nil {
		return nil, err
	}
	return &Fleet{name: name, nested: nested, env: env, chance: rand.Reader, before: stage}, nil
}

// site has the data that a configured provider passes to its resources.
type site struct {
	provider string
	stage    *act.Stage
	region   types.String // unknown while the provider's configuration is
	labels   types.Map    // the default labels
}

type providerModel struct {
	Region      types.String `tfsdk:"region"`
	Endpoint    types.String `tfsdk:"endpoint"`
	Record      types.String `tfsdk:"record"`
	Cloud       types.String `tfsdk:"cloud"`
	ConfigureMS types.Int64  `tfsdk:"configure_ms"`
	Token       types.String `tfsdk:"token"`
	Defaults    types.Object `tfsdk:"defaults"`
}

// Metadata names the provider.
func (f *Fleet) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = f.name, "1.0.0"
}

// Schema describes the provider block.
func (f *Fleet) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Machines in a cloud of files.",
		Attributes: map[string]schema.Attribute{
			"region": schema.StringAttribute{Optional: true, Description: "Region of objects that name none. " +
				"The region `nowhere` is refused."},
			"endpoint": schema.StringAttribute{Optional: true, Description: "Any text. The endpoint `down` makes " +
				"configuring fail. While it is unknown, everything is deferred, if the engine allows that."},
			"record": schema.StringAttribute{Optional: true, Description: "Path of the record, by default " +
				"`FLEET_RECORD` of the environment."},
			"cloud": schema.StringAttribute{Optional: true, Description: "Directory of the cloud, by default " +
				"`FLEET_CLOUD` of the environment."},
			"configure_ms": schema.Int64Attribute{Optional: true, Description: "How long configuring lasts, in " +
				"milliseconds."},
			"token": schema.StringAttribute{Optional: true, Sensitive: true, Description: "Any text."},
		},
		Blocks: map[string]schema.Block{
			"defaults": schema.SingleNestedBlock{Attributes: map[string]schema.Attribute{
				"labels": schema.MapAttribute{Optional: true, ElementType: types.StringType,
					Description: "Labels of machines that do not override them."},
			}},
		},
	}
}

// MetaSchema describes provider_meta blocks.
func (f *Fleet) MetaSchema(_ context.Context, _ provider.MetaSchemaRequest, resp *provider.MetaSchemaResponse) {
	resp.Schema = metaschema.Schema{Attributes: map[string]metaschema.Attribute{
		"module": metaschema.StringAttribute{Optional: true, Description: "Written into the record."},
	}}
}

// ValidateConfig refuses the region nowhere, and warns of the region atlantis.
func (f *Fleet) ValidateConfig(ctx context.Context, req provider.ValidateConfigRequest,
	resp *provider.ValidateConfigResponse) {
	var region types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("region"), &region)...)
	switch region.ValueString() {
	case "nowhere":
		resp.Diagnostics.AddAttributeError(path.Root("region"), "No such region", `There is no region "nowhere".`)
	case "atlantis":
		resp.Diagnostics.AddAttributeWarning(path.Root("region"), "Region in decline",
			`The region "atlantis" is sinking.`)
	}
}

// Configure sets up the stage of the configuration. Its record stays open as long as the process lives.
func (f *Fleet) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var m providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	env := f.env
	if m.Record.ValueString() != "" {
		env.Record = m.Record.ValueString()
	}
	if m.Cloud.ValueString() != "" {
		env.Cloud = m.Cloud.ValueString()
	}
	stage := f.before
	if env != f.env {
		var err error
		if stage, err = env.Open(f.name, f.chance); err != nil {
			resp.Diagnostics.AddError("No stage", err.Error())
			return
		}
	}
	s := &site{provider: f.name, stage: stage, region: m.Region, labels: types.MapNull(types.StringType)}
	if labels, ok := m.Defaults.Attributes()["labels"].(types.Map); ok {
		s.labels = labels
	} else if m.Defaults.IsUnknown() {
		s.labels = types.MapUnknown(types.StringType)
	}
	call := record.Entry{Op: record.Configure, Region: shown(m.Region)}
	script := act.Script{Last: map[record.Op]time.Duration{record.Configure: milliseconds(m.ConfigureMS)}}
	err := stage.Do(ctx, call, script, func(*record.Entry) error {
		if m.Endpoint.ValueString() == "down" {
			resp.Diagnostics.AddAttributeError(path.Root("endpoint"), "Endpoint is down",
				"The endpoint does not answer.")
		}
		return nil
	})
	if err != nil {
		resp.Diagnostics.AddError("Configuring failed", err.Error())
	}
	if m.Endpoint.IsUnknown() && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &provider.Deferred{Reason: provider.DeferredReasonProviderConfigUnknown}
	}
	resp.ResourceData, resp.DataSourceData, resp.EphemeralResourceData, resp.ListResourceData = s, s, s, s
	resp.ActionData = s
}

// Resources lists the resource types.
func (f *Fleet) Resources(context.Context) []func() resource.Resource {
	all := []func() resource.Resource{newMachine, newBlocks, newIdentity, newMoved, newFollower}
	if f.nested {
		all = append(all, newNested)
	}
	return all
}

// ListResources lists the resource types that can be listed.
func (f *Fleet) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{newIdentityList}
}

// Actions lists the actions.
func (f *Fleet) Actions(context.Context) []func() action.Action {
	return []func() action.Action{func() action.Action { return &notify{} }}
}

// DataSources lists the data sources.
func (f *Fleet) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return &lookup{} }}
}

// EphemeralResources lists the ephemeral resource types.
func (f *Fleet) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{func() ephemeral.EphemeralResource { return &token{} }}
}

// Functions lists the functions.
func (f *Fleet) Functions(context.Context) []func() function.Function {
	var all []func() function.Function
	for _, d := range functions {
		all = append(all, func() function.Function { return &call{definition: d, stage: f.before} })
	}
	return all
}

// shown is how a text that may be unknown stands in the record.
func shown(s types.String) string {
	if s.IsUnknown() {
		return "(unknown)"
	}
	return s.ValueString()
}

func milliseconds(v types.Int64) time.Duration {
	return time.Duration(v.ValueInt64()) * time.Millisecond
}
