package rpc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// SchemaCache caches the schemas of a package, so that further processes need not be asked in full. It is safe for
// concurrent use. Answers with errors are not cached.
type SchemaCache struct {
	turn chan struct{} // contains a token during a fetch
	kept atomic.Pointer[declared]
}

// NewSchemaCache returns an empty cache.
func NewSchemaCache() *SchemaCache { return &SchemaCache{turn: make(chan struct{}, 1)} }

// declared is a package's schemas with data that is derived from them once.
type declared struct {
	schemas  *provider.Schemas
	warnings diag.List
	config   shape
	meta     *shape // nil if the provider accepts no metadata
	managed  shapes
	data     shapes
	ephem    shapes
	lists    shapes
	actions  shapes
}

// shape is one kind of object, prepared for encoding.
type shape struct {
	block    *schema.Block
	ty       cty.Type
	identity cty.Type // cty.NilType when there is none
}

// shapes are made at first use: a configuration uses few of a provider's types.
type shapes struct {
	from       map[string]schema.Schema
	identities map[string]schema.Identity
	made       sync.Map // string to *shape
}

func (s *shapes) get(name string) (*shape, bool) {
	if made, ok := s.made.Load(name); ok {
		return made.(*shape), true
	}
	from, ok := s.from[name]
	if !ok {
		return nil, false
	}
	sh := &shape{block: from.Block, ty: from.Block.ImpliedType()}
	if id, ok := s.identities[name]; ok {
		sh.identity = id.Body.ImpliedType()
	}
	made, _ := s.made.LoadOrStore(name, sh)
	return made.(*shape), true
}

// Schemas implements provider.Describer. The first call of a process asks the plugin, even if the schemas are
// cached, unless the plugin has declared that this is not necessary: old plugins require this call before any
// other.
func (p *Provider) Schemas(ctx context.Context) (*provider.Schemas, diag.List) {
	d, diags := p.declared(ctx)
	if d == nil {
		return nil, diags
	}
	return d.schemas, append(diags, d.warnings...)
}

// declared returns nil if, and only if, it returns errors.
func (p *Provider) declared(ctx context.Context) (*declared, diag.List) {
	cache := p.options.Schemas
	if d := cache.kept.Load(); d != nil {
		return p.asking(ctx, d)
	}
	select {
	case cache.turn <- struct{}{}:
		defer func() { <-cache.turn }()
	case <-ctx.Done():
		return nil, p.lost(ctx, "GetProviderSchema", status.FromContextError(ctx.Err()).Err())
	}
	if d := cache.kept.Load(); d != nil {
		return p.asking(ctx, d)
	}
	d, diags := p.fetch(ctx)
	if diags.HasErrors() {
		return nil, diags
	}
	cache.kept.Store(d)
	return d, nil
}

func (p *Provider) asking(ctx context.Context, d *declared) (*declared, diag.List) {
	if diags := p.ask(ctx, d); diags.HasErrors() {
		return nil, diags
	}
	return d, nil
}

// ask makes the call that old plugins require, for a process whose package is already known. The answer, which may
// be large, is not decoded.
func (p *Provider) ask(ctx context.Context, d *declared) diag.List {
	if d.schemas.Capabilities.GetProviderSchemaOptional || p.asked.Load() {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return p.lost(ctx, "GetProviderSchema", status.FromContextError(ctx.Err()).Err())
	}
	if p.asked.Load() {
		return nil
	}
	if err := p.conn.Invoke(ctx, service6+"GetProviderSchema", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
		return p.lost(ctx, "GetProviderSchema", err)
	}
	p.asked.Store(true)
	return nil
}

func (p *Provider) fetch(ctx context.Context) (d *declared, diags diag.List) {
	defer p.survive("GetProviderSchema", &diags)
	resp, err := p.stub.GetProviderSchema(ctx, &tfplugin6.GetProviderSchema_Request{})
	if err != nil {
		return nil, p.lost(ctx, "GetProviderSchema", err)
	}
	diags = problems(resp.Diagnostics)
	if diags.HasErrors() {
		return nil, diags
	}
	p.asked.Store(true)
	identities := p.identities(ctx)
	c := converter{name: p.options.Name, types: map[string]cty.Type{}}
	s := c.schemas(resp, identities)
	if len(c.problems) > 0 {
		return nil, append(diags, c.problems...)
	}
	s.ProtocolVersion = p.protocol
	d = &declared{
		schemas:  s,
		warnings: diags,
		config:   shape{block: s.Provider.Block, ty: s.Provider.Block.ImpliedType()},
		managed:  shapes{from: s.Managed, identities: s.Identities},
		data:     shapes{from: s.Data},
		ephem:    shapes{from: s.Ephemeral},
		lists:    shapes{from: s.Lists},
		actions:  shapes{from: s.Actions},
	}
	if s.ProviderMeta.Block != nil {
		d.meta = &shape{block: s.ProviderMeta.Block, ty: s.ProviderMeta.Block.ImpliedType()}
	}
	return d, nil
}

// identities fetches the identity schemas. A plugin that has none, or returns an error, is treated as one without
// identities: nothing else is affected.
func (p *Provider) identities(ctx context.Context) map[string]*tfplugin6.ResourceIdentitySchema {
	resp, err := p.stub.GetResourceIdentitySchemas(ctx, &tfplugin6.GetResourceIdentitySchemas_Request{})
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	if err == nil {
		err = problems(resp.Diagnostics).Err()
	}
	if err != nil {
		p.options.Log("the provider does not return its identity schemas; it is used without them", "provider",
			p.options.Name, "error", err)
		return nil
	}
	return resp.IdentitySchemas
}

// Metadata implements provider.Describer. It needs no schema, unless the plugin cannot return only the names.
func (p *Provider) Metadata(ctx context.Context) (provider.Metadata, diag.List) {
	resp, err := p.stub.GetMetadata(ctx, &tfplugin6.GetMetadata_Request{})
	if status.Code(err) == codes.Unimplemented {
		s, diags := p.Schemas(ctx)
		if diags.HasErrors() {
			return provider.Metadata{}, diags
		}
		return s.Metadata(), diags
	}
	if err != nil {
		return provider.Metadata{}, p.lost(ctx, "GetMetadata", err)
	}
	m := provider.Metadata{Capabilities: capabilities(resp.ServerCapabilities)}
	for _, r := range resp.Resources {
		m.Managed = append(m.Managed, r.TypeName)
	}
	for _, r := range resp.DataSources {
		m.Data = append(m.Data, r.TypeName)
	}
	for _, r := range resp.EphemeralResources {
		m.Ephemeral = append(m.Ephemeral, r.TypeName)
	}
	for _, f := range resp.Functions {
		m.Functions = append(m.Functions, f.Name)
	}
	return m, problems(resp.Diagnostics)
}

// kind is the name of a map of shapes in problems.
type kind string

const (
	managed   kind = "resource type"
	data      kind = "data source"
	ephemeral kind = "ephemeral resource"
	list      kind = "list resource"
	action    kind = "action"
)

// shape returns the shape of a type.
func (p *Provider) shape(ctx context.Context, k kind, typeName string) (d *declared, s *shape, diags diag.List) {
	if d, diags = p.declared(ctx); diags.HasErrors() {
		return nil, nil, diags
	}
	defer p.survive("GetProviderSchema", &diags)
	of := map[kind]*shapes{managed: &d.managed, data: &d.data, ephemeral: &d.ephem,
		list: &d.lists, action: &d.actions}[k]
	s, ok := of.get(typeName)
	if !ok {
		return nil, nil, diag.Errors(fmt.Sprintf("unknown %s %q", k, typeName),
			fmt.Sprintf("Provider %s has no %s of this name.", p.options.Name, k), nil)
	}
	return d, s, nil
}
