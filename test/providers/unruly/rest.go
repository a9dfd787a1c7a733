package unruly

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// GetMetadata names all that there is.
func (s *server) GetMetadata(ctx context.Context, _ *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse,
	error) {
	all, err := s.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}
	resp := &tfprotov6.GetMetadataResponse{ServerCapabilities: all.ServerCapabilities, Diagnostics: all.Diagnostics}
	for name := range all.ResourceSchemas {
		resp.Resources = append(resp.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	for name := range all.DataSourceSchemas {
		resp.DataSources = append(resp.DataSources, tfprotov6.DataSourceMetadata{TypeName: name})
	}
	for name := range all.EphemeralResourceSchemas {
		resp.EphemeralResources = append(resp.EphemeralResources, tfprotov6.EphemeralResourceMetadata{TypeName: name})
	}
	for name := range all.Functions {
		resp.Functions = append(resp.Functions, tfprotov6.FunctionMetadata{Name: name})
	}
	return resp, nil
}

// GetProviderSchema returns the schemas, unless UNRULY_SCHEMA requests something else: "invalid" for schemas that break
// the rules, "many:N" for N more resource types, or a fault (error, warn, grpc, panic, crash, hang, hang_deaf).
func (s *server) GetProviderSchema(ctx context.Context, _ *tfprotov6.GetProviderSchemaRequest) (
	*tfprotov6.GetProviderSchemaResponse, error) {
	if s.schemaFault == "invalid" {
		return invalid(), nil
	}
	if number, ok := strings.CutPrefix(s.schemaFault, "many:"); ok {
		extra, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("the number of types in UNRULY_SCHEMA: %w", err)
		}
		return schemas(extra), nil
	}
	a := &answer{call: ctx, server: s}
	if s.schemaFault != "" {
		d, ok := Faults[s.schemaFault]
		if !ok {
			return nil, fmt.Errorf("the environment's UNRULY_SCHEMA is %q, which is not a known fault", s.schemaFault)
		}
		d.do(a)
	}
	all := schemas(0)
	all.Diagnostics = a.diags
	return all, a.err
}

// GetResourceIdentitySchemas returns none.
func (s *server) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (
	*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

// ValidateProviderConfig checks the command.
func (s *server) ValidateProviderConfig(ctx context.Context, req *tfprotov6.ValidateProviderConfigRequest) (
	*tfprotov6.ValidateProviderConfigResponse, error) {
	diags, err := s.validate(ctx, configuration, req.Config, "validate")
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config, Diagnostics: diags}, err
}

// ConfigureProvider does nothing, unless the command requests a fault.
func (s *server) ConfigureProvider(ctx context.Context, req *tfprotov6.ConfigureProviderRequest) (
	*tfprotov6.ConfigureProviderResponse, error) {
	o, err := decode(configuration.ValueType(), req.Config)
	if err != nil {
		return nil, err
	}
	a := s.answer(ctx, record.Configure, "", "configure", o.text("misbehave"), configuration.ValueType(), o)
	return &tfprotov6.ConfigureProviderResponse{Diagnostics: a.diags}, a.err
}

// StopProvider is recorded; the calls' contexts end by the server's doing.
func (s *server) StopProvider(ctx context.Context, _ *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse,
	error) {
	err := s.stage.Do(ctx, record.Entry{Op: record.Stop}, act.Script{}, func(*record.Entry) error { return nil })
	return &tfprotov6.StopProviderResponse{}, err
}

// GetFunctions returns the function.
func (s *server) GetFunctions(context.Context, *tfprotov6.GetFunctionsRequest) (*tfprotov6.GetFunctionsResponse,
	error) {
	return &tfprotov6.GetFunctionsResponse{Functions: map[string]*tfprotov6.Function{"misdo": misdo}}, nil
}

// CallFunction returns the second argument, unless the first one requests a fault: "function:FAULT", and for functions
// alone "function:error_argument" for an error at an argument that is not there, "function:unknown" and
// "function:number" for unlawful results.
func (s *server) CallFunction(ctx context.Context, req *tfprotov6.CallFunctionRequest) (*tfprotov6.CallFunctionResponse,
	error) {
	if req.Name != "misdo" || len(req.Arguments) != 2 {
		return nil, fmt.Errorf("there is no function %s of %d arguments", req.Name, len(req.Arguments))
	}
	value, err := req.Arguments[1].Unmarshal(tftypes.String)
	if err != nil {
		return nil, err
	}
	first := tftypes.NewValue(tftypes.String, nil)
	if a := req.Arguments[0]; a.MsgPack != nil || a.JSON != nil { // OpenTofu sends nothing for null
		if first, err = a.Unmarshal(tftypes.String); err != nil {
			return nil, err
		}
	}
	command := object{"command": first}.text("command")
	// An object with the result as its value makes the faults work as they do elsewhere.
	t := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"value": tftypes.String}}
	a := s.answer(ctx, record.Function, req.Name, "function", command, t, object{"value": value})
	if a.err != nil {
		return nil, a.err
	}
	if len(a.diags) > 0 {
		return &tfprotov6.CallFunctionResponse{Error: &tfprotov6.FunctionError{Text: a.diags[0].Detail}}, nil
	}
	result := tftypes.NewValue(tftypes.String, nil)
	if v, ok := a.object["value"]; ok {
		result = v
	}
	switch command {
	case "function:error_argument":
		seventh := int64(7)
		return &tfprotov6.CallFunctionResponse{Error: &tfprotov6.FunctionError{Text: "the eighth argument",
			FunctionArgument: &seventh}}, nil
	case "function:unknown":
		result = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	case "function:number":
		result = tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, []tftypes.Value{value})
	}
	if a.absent || a.bytes != nil {
		return &tfprotov6.CallFunctionResponse{Result: a.encode()}, nil
	}
	encoded, err := tfprotov6.NewDynamicValue(result.Type(), result)
	return &tfprotov6.CallFunctionResponse{Result: &encoded}, err
}

// MoveResourceState is refused.
func (s *server) MoveResourceState(context.Context, *tfprotov6.MoveResourceStateRequest) (
	*tfprotov6.MoveResourceStateResponse, error) {
	return nil, errors.New("no resource type takes over objects of another")
}

// UpgradeResourceIdentity is refused.
func (s *server) UpgradeResourceIdentity(context.Context, *tfprotov6.UpgradeResourceIdentityRequest) (
	*tfprotov6.UpgradeResourceIdentityResponse, error) {
	return nil, errors.New("no resource type has an identity")
}

// GenerateResourceConfig is refused.
func (s *server) GenerateResourceConfig(context.Context, *tfprotov6.GenerateResourceConfigRequest) (
	*tfprotov6.GenerateResourceConfigResponse, error) {
	return nil, errors.New("no configuration is generated")
}
