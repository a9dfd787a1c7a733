package rpc

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/millipede-iac/millipede/provider/tfplugin5"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// protocol5 adapts version 5 to the messages of version 6. The embedded client sends the messages of version 6 to
// the methods of version 5, whose messages have the same encoding (the tests compare all of them, field by field).
// The schema's encoding differs, so that it is fetched with a stub of version 5 and converted.
type protocol5 struct {
	tfplugin6.ProviderClient
	own tfplugin5.ProviderClient
}

// namesIn5 are the methods that have another name in version 5.
var namesIn5 = map[string]string{
	"GetProviderSchema":          "GetSchema",
	"ValidateProviderConfig":     "PrepareProviderConfig",
	"ValidateResourceConfig":     "ValidateResourceTypeConfig",
	"ValidateDataResourceConfig": "ValidateDataSourceConfig",
	"ConfigureProvider":          "Configure",
	"StopProvider":               "Stop",
}

const (
	service5 = "/tfplugin5.Provider/"
	service6 = "/tfplugin6.Provider/"
)

// renamed converts a full method name of version 6 to that of version 5.
func renamed(method string) string {
	name := strings.TrimPrefix(method, service6)
	if old, ok := namesIn5[name]; ok {
		name = old
	}
	return service5 + name
}

// GetProviderSchema fetches the schema in version 5 and converts it.
func (p protocol5) GetProviderSchema(ctx context.Context, _ *tfplugin6.GetProviderSchema_Request,
	opts ...grpc.CallOption) (*tfplugin6.GetProviderSchema_Response, error) {
	from, err := p.own.GetSchema(ctx, &tfplugin5.GetProviderSchema_Request{}, opts...)
	if err != nil {
		return nil, err
	}
	to := &tfplugin6.GetProviderSchema_Response{
		Provider:                 schemaFrom5(from.Provider),
		ProviderMeta:             schemaFrom5(from.ProviderMeta),
		ResourceSchemas:          schemasFrom5(from.ResourceSchemas),
		DataSourceSchemas:        schemasFrom5(from.DataSourceSchemas),
		EphemeralResourceSchemas: schemasFrom5(from.EphemeralResourceSchemas),
		ListResourceSchemas:      schemasFrom5(from.ListResourceSchemas),
		ActionSchemas:            make(map[string]*tfplugin6.ActionSchema, len(from.ActionSchemas)),
		Functions:                make(map[string]*tfplugin6.Function, len(from.Functions)),
	}
	for name, a := range from.ActionSchemas {
		to.ActionSchemas[name] = &tfplugin6.ActionSchema{Schema: schemaFrom5(a.GetSchema())}
	}
	for name, f := range from.Functions {
		to.Functions[name] = convertMessage(f, &tfplugin6.Function{})
	}
	for _, d := range from.Diagnostics {
		to.Diagnostics = append(to.Diagnostics, convertMessage(d, &tfplugin6.Diagnostic{}))
	}
	if from.ServerCapabilities != nil {
		to.ServerCapabilities = convertMessage(from.ServerCapabilities, &tfplugin6.ServerCapabilities{})
	}
	return to, nil
}

func schemasFrom5(from map[string]*tfplugin5.Schema) map[string]*tfplugin6.Schema {
	to := make(map[string]*tfplugin6.Schema, len(from))
	for name, s := range from {
		to[name] = schemaFrom5(s)
	}
	return to
}

func schemaFrom5(from *tfplugin5.Schema) *tfplugin6.Schema {
	if from == nil {
		return nil
	}
	return &tfplugin6.Schema{Version: from.Version, Block: blockFrom5(from.Block)}
}

func blockFrom5(from *tfplugin5.Schema_Block) *tfplugin6.Schema_Block {
	if from == nil {
		return nil
	}
	to := &tfplugin6.Schema_Block{
		Version:            from.Version,
		Attributes:         make([]*tfplugin6.Schema_Attribute, len(from.Attributes)),
		BlockTypes:         make([]*tfplugin6.Schema_NestedBlock, len(from.BlockTypes)),
		Description:        from.Description,
		DescriptionKind:    tfplugin6.StringKind(from.DescriptionKind),
		Deprecated:         from.Deprecated,
		DeprecationMessage: from.DeprecationMessage,
	}
	for i, a := range from.Attributes {
		to.Attributes[i] = &tfplugin6.Schema_Attribute{
			Name:               a.Name,
			Type:               a.Type,
			Description:        a.Description,
			Required:           a.Required,
			Optional:           a.Optional,
			Computed:           a.Computed,
			Sensitive:          a.Sensitive,
			DescriptionKind:    tfplugin6.StringKind(a.DescriptionKind),
			Deprecated:         a.Deprecated,
			WriteOnly:          a.WriteOnly,
			DeprecationMessage: a.DeprecationMessage,
		}
	}
	for i, b := range from.BlockTypes {
		to.BlockTypes[i] = &tfplugin6.Schema_NestedBlock{
			TypeName: b.TypeName,
			Block:    blockFrom5(b.Block),
			Nesting:  tfplugin6.Schema_NestedBlock_NestingMode(b.Nesting),
			MinItems: b.MinItems,
			MaxItems: b.MaxItems,
		}
	}
	return to
}

// convertMessage decodes a message of version 5 as one of version 6.
func convertMessage[M proto.Message](from proto.Message, to M) M {
	b, err := proto.Marshal(from)
	if err == nil {
		err = proto.Unmarshal(b, to)
	}
	if err != nil {
		panic(fmt.Sprintf("rpc: %T is no %T: %s", from, to, err))
	}
	return to
}
