package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// model is the object of a resource type. M is the struct; all methods have pointer receivers.
type model[M any] interface {
	*M
	base() *common
	// home is the type under which the cloud keeps the object; mostly that of the resource.
	home(typeName string) string
	// plan fills in the values that are known before the object exists. An object that will be created has no prior
	// object.
	plan(s *site, prior *M)
	// attributes returns the attributes that the cloud stores. The config has those that states must not have.
	attributes(config *M) map[string]any
	// take copies the cloud's values, and computes those that are still unknown.
	take(o cloud.Object)
}

// kind is a resource type: one life for all of them.
type kind[M any, P model[M]] struct {
	suffix string
	schema schema.Schema
	name   string // with the provider's
	*site         // nil until the provider is configured
}

// Metadata names the resource type.
func (k *kind[M, P]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + k.suffix
}

// Schema describes the resource type.
func (k *kind[M, P]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = k.schema
}

// Configure takes the provider's site over; there is none while configurations are validated.
func (k *kind[M, P]) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if s, ok := req.ProviderData.(*site); ok {
		k.site, k.name = s, s.provider+"_"+k.suffix
	}
}

// entry begins a call's line in the record.
func (k *kind[M, P]) entry(op record.Op, c *common, private, meta string) record.Entry {
	return record.Entry{
		Op: op, Type: k.name, Name: shown(c.Name), ID: c.ID.ValueString(), Region: shown(c.Region),
		Private: private, Meta: meta,
	}
}

// ModifyPlan records each plan, including those of a destroy, and fills in values that are known early.
func (k *kind[M, P]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest,
	resp *resource.ModifyPlanResponse) {
	var m M
	destroy := req.Plan.Raw.IsNull()
	if destroy {
		resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	} else {
		resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	}
	if resp.Diagnostics.HasError() || k.site == nil {
		return
	}
	c, script := P(&m).base(), P(&m).base().script()
	if !destroy {
		var region types.String
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("region"), &region)...)
		if c.Region.IsUnknown() && !k.region.IsUnknown() && region.IsNull() {
			c.Region = types.StringValue(NoRegion)
			if !k.region.IsNull() {
				c.Region = k.region
			}
		}
		var prior *M
		if !req.State.Raw.IsNull() {
			prior = new(M)
			resp.Diagnostics.Append(req.State.Get(ctx, prior)...)
		}
		P(&m).plan(k.site, prior)
	}
	entry := k.entry(record.Plan, c, readPrivate(ctx, req.Private), readMeta(ctx, req.ProviderMeta))
	err := k.stage.Do(ctx, entry, script, func(*record.Entry) error { return nil })
	report(&resp.Diagnostics, record.Plan, script, err)
	if !destroy && !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.Plan.Set(ctx, &m)...)
	}
	d, defers := any(&m).(deferring)
	if destroy || !defers || !req.ClientCapabilities.DeferralAllowed {
		return
	}
	if resp.Deferred, err = d.deferral(k.site); err != nil {
		resp.Diagnostics.AddError("Looking for the machine failed", err.Error())
	}
}

// Create makes the object. If it fails after that, the object is in the response all the same.
func (k *kind[M, P]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m, config M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	c := P(&m).base()
	script := c.script()
	err := k.stage.Do(ctx, k.entry(record.Create, c, "", readMeta(ctx, req.ProviderMeta)), script,
		func(e *record.Entry) error {
			region := c.Region.ValueString() // never unknown: the framework plans again before it applies
			if c.Region.IsUnknown() {
				region = NoRegion
			}
			o, err := k.stage.Cloud.Create(k.name, c.Name.ValueString(), region, P(&m).attributes(&config))
			if err != nil {
				return err
			}
			e.ID, e.Region = o.ID, o.Region
			P(&m).take(o)
			resp.Diagnostics.Append(k.store(ctx, &m, &resp.State, resp.Identity)...)
			resp.Diagnostics.Append(resp.Private.SetKey(ctx, privateKey, quoted("created "+o.ID))...)
			return nil
		})
	report(&resp.Diagnostics, record.Create, script, err)
}

// Read reads the object, and reports whether it still exists.
func (k *kind[M, P]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	c := P(&m).base()
	script := c.script()
	entry := k.entry(record.Read, c, readPrivate(ctx, req.Private), readMeta(ctx, req.ProviderMeta))
	err := k.stage.Do(ctx, entry, script, func(*record.Entry) error {
		last := c.object(P(&m).home(k.name))
		last.Attributes = P(&m).attributes(nil)
		o, err := k.stage.Cloud.Refresh(last)
		if errors.Is(err, cloud.ErrGone) {
			resp.State.RemoveResource(ctx)
			return nil
		}
		if err != nil {
			return err
		}
		P(&m).take(o)
		resp.Diagnostics.Append(k.store(ctx, &m, &resp.State, resp.Identity)...)
		return nil
	})
	report(&resp.Diagnostics, record.Read, script, err)
}

// Update changes the object in place. If it fails after the change, the response has the new object, otherwise the old
// one.
func (k *kind[M, P]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, prior, config M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	c := P(&m).base()
	script := c.script()
	entry := k.entry(record.Update, c, readPrivate(ctx, req.Private), readMeta(ctx, req.ProviderMeta))
	err := k.stage.Do(ctx, entry, script, func(e *record.Entry) error {
		o, err := k.stage.Cloud.Update(P(&prior).base().object(P(&prior).home(k.name)), P(&m).attributes(&config))
		if err != nil {
			return err
		}
		e.ID = o.ID
		P(&m).take(o)
		resp.Diagnostics.Append(k.store(ctx, &m, &resp.State, resp.Identity)...)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, privateKey,
			quoted(fmt.Sprintf("revision %d of %s", o.Revision, o.ID)))...)
		return nil
	})
	report(&resp.Diagnostics, record.Update, script, err)
}

// Delete removes the object. If it is already gone, Delete succeeds.
func (k *kind[M, P]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	c := P(&m).base()
	script := c.script()
	entry := k.entry(record.Delete, c, readPrivate(ctx, req.Private), readMeta(ctx, req.ProviderMeta))
	err := k.stage.Do(ctx, entry, script, func(*record.Entry) error {
		err := k.stage.Cloud.Delete(P(&m).home(k.name), c.ID.ValueString())
		if errors.Is(err, cloud.ErrGone) {
			return nil
		}
		return err
	})
	report(&resp.Diagnostics, record.Delete, script, err)
}

// ImportState finds an object by its id.
func (k *kind[M, P]) ImportState(ctx context.Context, req resource.ImportStateRequest,
	resp *resource.ImportStateResponse) {
	k.importObject(ctx, resp, record.Entry{Op: record.Import, Type: k.name, ID: req.ID}, func() (cloud.Object, error) {
		return k.stage.Cloud.Get(k.name, req.ID)
	})
}

// importObject records the import of the object that find finds, and puts its identifying attributes into the response.
func (k *kind[M, P]) importObject(ctx context.Context, resp *resource.ImportStateResponse, e record.Entry,
	find func() (cloud.Object, error)) {
	err := k.stage.Do(ctx, e, act.Script{}, func(e *record.Entry) error {
		o, err := find()
		if errors.Is(err, cloud.ErrGone) {
			return errors.New("there is no such object to import")
		}
		if err != nil {
			return err
		}
		e.Name, e.ID, e.Region = o.Name, o.ID, o.Region
		for name, value := range map[string]string{"name": o.Name, "id": o.ID, "region": o.Region} {
			resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), value)...)
		}
		resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, o.Name, o.Region)...)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, privateKey, quoted("imported "+o.ID))...)
		return nil
	})
	report(&resp.Diagnostics, record.Import, act.Script{}, err)
}

// store writes a model into a response, with all that is computed in nested parts.
func (k *kind[M, P]) store(ctx context.Context, m *M, state *tfsdk.State,
	identity *tfsdk.ResourceIdentity) diag.Diagnostics {
	diags := state.Set(ctx, m)
	if diags.HasError() {
		return diags
	}
	c := P(m).base()
	var err error
	if state.Raw, err = settle(state.Raw, c.ID.ValueString()); err != nil {
		diags.AddError("Computing failed", err.Error())
	}
	diags.Append(setIdentity(ctx, identity, c.Name.ValueString(), c.Region.ValueString())...)
	return diags
}

// report adds an error, and the warning that the script requires.
func report(diags *diag.Diagnostics, op record.Op, script act.Script, err error) {
	if script.Warns(op) {
		diags.AddWarning("Warned as told", fmt.Sprintf("The %s was told to warn.", op))
	}
	if err != nil {
		diags.AddError(fmt.Sprintf("The %s failed", op), err.Error())
	}
}

// privateKey is the member of private data in which the provider stores the last event.
const privateKey = "last"

func quoted(text string) []byte { return fmt.Appendf(nil, "%q", text) }

// readPrivate returns the stored event of private data; it is empty if there is none.
func readPrivate(ctx context.Context, private interface {
	GetKey(context.Context, string) ([]byte, diag.Diagnostics)
}) string {
	text, diags := private.GetKey(ctx, privateKey)
	var note string
	if diags.HasError() || len(text) == 0 || json.Unmarshal(text, &note) != nil {
		return string(text)
	}
	return note
}

// readMeta returns the module of a provider_meta block; it is empty when there is none.
func readMeta(ctx context.Context, meta tfsdk.Config) string {
	if meta.Raw.IsNull() || !meta.Raw.IsKnown() {
		return ""
	}
	var module types.String
	if diags := meta.GetAttribute(ctx, path.Root("module"), &module); diags.HasError() {
		return diags.Errors()[0].Detail()
	}
	return shown(module)
}
