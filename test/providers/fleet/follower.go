package fleet

import (
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/cloud"
)

// followerModel is an object of fleet_follower.
type followerModel struct {
	common
	After types.String `tfsdk:"after"`
}

func newFollower() resource.Resource {
	return &kind[followerModel, *followerModel]{suffix: "follower", schema: schema.Schema{
		Description: "An object that is planned only when another one exists, if the engine allows to defer it.",
		Attributes: withCommon(map[string]schema.Attribute{
			"after": schema.StringAttribute{Required: true, Description: "The name of a machine that must exist."},
		}),
	}}
}

func (m *followerModel) plan(*site, *followerModel) {}

func (m *followerModel) attributes(*followerModel) map[string]any {
	return map[string]any{"after": m.After.ValueString()}
}

func (m *followerModel) take(o cloud.Object) {
	m.common.take(o)
	m.After = textOf(o.Attributes["after"])
}

// deferral puts a plan off while the name of the machine is unknown, or no machine has it.
func (m *followerModel) deferral(s *site) (*resource.Deferred, error) {
	if m.After.IsUnknown() {
		return &resource.Deferred{Reason: resource.DeferredReasonResourceConfigUnknown}, nil
	}
	machines, err := s.stage.Cloud.ByName(s.provider+"_machine", m.After.ValueString())
	if err != nil || len(machines) > 0 {
		return nil, err
	}
	return &resource.Deferred{Reason: resource.DeferredReasonAbsentPrereq}, nil
}

// deferring is a model whose plans may be put off.
type deferring interface {
	deferral(s *site) (*resource.Deferred, error)
}
