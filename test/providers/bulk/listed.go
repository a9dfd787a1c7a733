package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// listedName is a resource type with the same objects as bulk_item, that have identities and can be listed.
const listedName = "bulk_listed"

// identityType is the type of the identities: the ID.
var identityType = tftypes.Object{AttributeTypes: map[string]tftypes.Type{"id": tftypes.String}}

var listConfig = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{
	Attributes: []*tfprotov6.SchemaAttribute{
		{Name: "prefix", Type: tftypes.String, Optional: true, Description: "Only objects whose names begin so."},
		{Name: "region", Type: tftypes.String, Optional: true, Description: "Any text: engines may choose a pool by it."},
	},
}}

// GetResourceIdentitySchemas returns that of bulk_listed.
func (s *server) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (
	*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{IdentitySchemas: map[string]*tfprotov6.ResourceIdentitySchema{
		listedName: {IdentityAttributes: []*tfprotov6.ResourceIdentitySchemaAttribute{
			{Name: "id", Type: tftypes.String, RequiredForImport: true},
		}},
	}}, nil
}

// UpgradeResourceIdentity reads a stored identity. There is only one version.
func (s *server) UpgradeResourceIdentity(_ context.Context, req *tfprotov6.UpgradeResourceIdentityRequest) (
	*tfprotov6.UpgradeResourceIdentityResponse, error) {
	var stored struct{ ID string }
	if req.RawIdentity == nil {
		return nil, errors.New("there is no stored identity")
	}
	if err := json.Unmarshal(req.RawIdentity.JSON, &stored); err != nil {
		return nil, fmt.Errorf("the stored identity: %w", err)
	}
	identity, err := identityOf(listedName, stored.ID)
	return &tfprotov6.UpgradeResourceIdentityResponse{UpgradedIdentity: identity}, err
}

// identityOf returns the identity of an object, if its type has identities and it exists.
func identityOf(kind, id string) (*tfprotov6.ResourceIdentityData, error) {
	if kind != listedName || id == "" {
		return nil, nil
	}
	dv, err := tfprotov6.NewDynamicValue(identityType, tftypes.NewValue(identityType,
		map[string]tftypes.Value{"id": tftypes.NewValue(tftypes.String, id)}))
	return &tfprotov6.ResourceIdentityData{IdentityData: &dv}, err
}

// importedID returns the ID in the request of an import, which may have an identity instead.
func importedID(req *tfprotov6.ImportResourceStateRequest) (string, error) {
	if req.ID != "" || req.Identity == nil {
		return req.ID, nil
	}
	v, err := req.Identity.IdentityData.Unmarshal(identityType)
	if err != nil {
		return "", err
	}
	var attrs map[string]tftypes.Value
	if err := v.As(&attrs); err != nil {
		return "", err
	}
	return object(attrs).text("id"), nil
}

// ValidateListResourceConfig accepts every configuration: engines check its type.
func (s *server) ValidateListResourceConfig(context.Context, *tfprotov6.ValidateListResourceConfigRequest) (
	*tfprotov6.ValidateListResourceConfigResponse, error) {
	return &tfprotov6.ValidateListResourceConfigResponse{}, nil
}

// ListResource lists objects, while it reads them.
func (s *server) ListResource(ctx context.Context, req *tfprotov6.ListResourceRequest) (
	*tfprotov6.ListResourceServerStream, error) {
	v, err := req.Config.Unmarshal(listConfig.ValueType())
	if err != nil {
		return nil, err
	}
	var config map[string]tftypes.Value
	if err := v.As(&config); err != nil {
		return nil, err
	}
	prefix := object(config).text("prefix")
	return &tfprotov6.ListResourceServerStream{Results: func(push func(tfprotov6.ListResourceResult) bool) {
		err := s.stage.Do(ctx, record.Entry{Op: record.List, Type: listedName, Name: prefix}, act.Script{},
			func(*record.Entry) error { return s.list(req, prefix, push) })
		if err != nil {
			push(tfprotov6.ListResourceResult{Diagnostics: failed(record.List, err)})
		}
	}}, nil
}

func (s *server) list(req *tfprotov6.ListResourceRequest, prefix string,
	push func(tfprotov6.ListResourceResult) bool) error {
	empty := object{}
	for _, a := range item.Block.Attributes {
		empty[a.Name] = tftypes.NewValue(a.Type, nil)
	}
	ids, err := s.stage.Cloud.IDs(typeName, prefix)
	if err != nil {
		return err
	}
	for _, id := range ids[:min(len(ids), int(req.Limit))] {
		found, err := s.stage.Cloud.Get(typeName, id)
		if err != nil {
			return err
		}
		result := tfprotov6.ListResourceResult{DisplayName: found.Name}
		if result.Identity, err = identityOf(listedName, found.ID); err != nil {
			return err
		}
		if req.IncludeResource {
			if result.Resource, err = empty.with(found).encode(); err != nil {
				return err
			}
		}
		if !push(result) {
			return nil
		}
	}
	return nil
}
