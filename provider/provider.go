// Package provider defines the interfaces of providers, independent of the version of the plugin protocol.
//
// The interfaces are small roles: a caller uses the one that it needs. Values are cty values of the implied types
// of the schemas; a nil private slice means that there is none. The package starts no process and implements no
// protocol; provider/rpc implements the roles over gRPC, provider/builtin in Go.
//
// Every method returns the provider's own problems as diagnostics whose Path points into the value that was passed.
// A transport problem (the process exited, the context ended) is a diagnostic too, with the summary that OpenTofu's
// users know, and with Extra set to a *Lost.
package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Lost is the Extra of a diagnostic about a plugin that did not answer: the effect of the call is unknown.
type Lost struct {
	// Reason is the event that ended the call: the process exited, the call's context ended, or the stream broke.
	Reason string
	// Answer is the readable part of an answer that cannot be stored; nil if there was no answer.
	Answer *Answer
}

// Answer is the readable part of an object in a provider's answer that cannot be stored as it is.
type Answer struct {
	// Attributes are those attributes of the object that could be decoded. They may be secrets.
	Attributes map[string]cty.Value
	// Private is the provider's private data of the object.
	Private []byte
	// Raw is the encoded object as received; nil if there are no bytes.
	Raw []byte
}

// Schemas is everything that a provider declares.
type Schemas struct {
	Provider     schema.Schema // its Block is never nil
	ProviderMeta schema.Schema // Block is nil if the provider accepts none
	Managed      map[string]schema.Schema
	Data         map[string]schema.Schema
	Ephemeral    map[string]schema.Schema
	// Lists are the arguments of list blocks, by the type of the managed resources that they list.
	Lists map[string]schema.Schema
	// Actions are the arguments of actions, by their types.
	Actions      map[string]schema.Schema
	Identities   map[string]schema.Identity
	Functions    map[string]Function
	Capabilities Capabilities
	// ProtocolVersion is 5 or 6; 0 for a provider without a plugin.
	ProtocolVersion int
}

// Metadata returns the names in the schemas, each list sorted.
func (s *Schemas) Metadata() Metadata {
	return Metadata{
		Managed:      slices.Sorted(maps.Keys(s.Managed)),
		Data:         slices.Sorted(maps.Keys(s.Data)),
		Ephemeral:    slices.Sorted(maps.Keys(s.Ephemeral)),
		Functions:    slices.Sorted(maps.Keys(s.Functions)),
		Capabilities: s.Capabilities,
	}
}

// Capabilities are the optional features that a server declares.
type Capabilities struct {
	PlanDestroy               bool // PlanResourceChange is also called for a planned destroy
	GetProviderSchemaOptional bool // calls work without GetProviderSchema before them
	MoveResourceState         bool
	GenerateResourceConfig    bool
}

// Function is the signature of a provider's function.
type Function struct {
	Parameters         []Parameter
	VariadicParameter  *Parameter
	Return             cty.Type
	Summary            string
	Description        string
	DescriptionKind    schema.StringKind
	DeprecationMessage string
}

// Admit reports whether the function is to be called with these arguments. Without an error, false means that the
// result is unknown: a part of an argument is unknown, and its parameter does not allow that. The error says that
// there are too few or too many arguments, or, as a function.ArgError, that one is null and must not be.
func (f *Function) Admit(args []cty.Value) (bool, error) {
	if len(args) < len(f.Parameters) || len(args) > len(f.Parameters) && f.VariadicParameter == nil {
		return false, fmt.Errorf("the function takes %d arguments; it was given %d", len(f.Parameters), len(args))
	}
	known := true
	for i, arg := range args {
		p := f.Parameter(i)
		if !p.AllowUnknownValues && !arg.IsWhollyKnown() {
			known = false
		}
		if arg.IsKnown() && arg.IsNull() && !p.AllowNullValue {
			return false, function.NewArgErrorf(i, "argument must not be null")
		}
	}
	return known, nil
}

// Parameter returns the parameter for the argument at this position. It must exist, see Admit.
func (f *Function) Parameter(i int) *Parameter {
	if i < len(f.Parameters) {
		return &f.Parameters[i]
	}
	return f.VariadicParameter
}

// Parameter is one parameter of a provider's function.
type Parameter struct {
	Name               string
	Type               cty.Type
	AllowNullValue     bool
	AllowUnknownValues bool
	Description        string
	DescriptionKind    schema.StringKind
}

// Metadata lists the names that a provider declares, without their schemas (GetMetadata).
type Metadata struct {
	Managed, Data, Ephemeral, Functions []string
	Capabilities                        Capabilities
}

// Provider is one provider, wherever it runs. Close releases its resources (a process, a connection); calls in
// progress fail as lost. A Provider is safe for concurrent use.
type Provider interface {
	Describer
	Configurer
	Managed
	DataSource
	Ephemeral
	Lister
	Invoker
	Functions
	Stopper
	Close() error
}

// Describer returns the declarations of a provider.
type Describer interface {
	// Schemas returns everything; implementations cache it. The result is shared and must not be changed.
	Schemas(ctx context.Context) (*Schemas, diag.List)
	// Metadata returns only the names. Providers without support for it derive them from their schemas.
	Metadata(ctx context.Context) (Metadata, diag.List)
}

// Configurer validates the value of a provider block, and configures the provider with it.
type Configurer interface {
	// ValidateProviderConfig returns the value to configure with (the legacy protocol may change it).
	ValidateProviderConfig(ctx context.Context, config cty.Value) (cty.Value, diag.List)
	// Configure must be called once before any other call than Describer's, the Validate family and CallFunction.
	Configure(ctx context.Context, config cty.Value, engineVersion string) diag.List
}

// Managed is the lifecycle of managed resource objects.
type Managed interface {
	ValidateResourceConfig(ctx context.Context, typeName string, config cty.Value) diag.List
	UpgradeResourceState(ctx context.Context, r UpgradeRequest) (cty.Value, diag.List)
	// UpgradeResourceIdentity converts a stored identity to the current identity schema.
	UpgradeResourceIdentity(ctx context.Context, typeName string, version int64, json []byte) (cty.Value, diag.List)
	ReadResource(ctx context.Context, r ReadRequest) (ReadResponse, diag.List)
	PlanResourceChange(ctx context.Context, r PlanRequest) (PlanResponse, diag.List)
	ApplyResourceChange(ctx context.Context, r ApplyRequest) (ApplyResponse, diag.List)
	ImportResourceState(ctx context.Context, r ImportRequest) ([]Imported, diag.List)
	MoveResourceState(ctx context.Context, r MoveRequest) (MoveResponse, diag.List)
}

// UpgradeRequest is a stored object in an older (or the current) schema version. Exactly one of JSON and
// Flatmap is set; Flatmap is the form of engines before 0.12.
type UpgradeRequest struct {
	TypeName string
	Version  int64
	JSON     []byte
	Flatmap  map[string]string
}

// ReadRequest requests the current value of an object.
type ReadRequest struct {
	TypeName     string
	Prior        cty.Value
	Private      []byte
	ProviderMeta cty.Value // cty.NilVal when the provider takes none
	Identity     cty.Value // cty.NilVal when there is none
}

// ReadResponse is the object as read. A null Object means that it no longer exists.
type ReadResponse struct {
	Object   cty.Value
	Private  []byte
	Identity cty.Value // cty.NilVal when there is none
}

// PlanRequest requests the plan of a change. Proposed is Config merged with Prior by the engine. For a planned
// destroy Proposed and Config are null.
type PlanRequest struct {
	TypeName      string
	Prior         cty.Value
	Proposed      cty.Value
	Config        cty.Value
	PriorPrivate  []byte
	ProviderMeta  cty.Value
	PriorIdentity cty.Value
}

// PlanResponse is the planned object, and the paths whose changes need a new object.
type PlanResponse struct {
	Planned         cty.Value
	RequiresReplace []cty.Path
	Private         []byte
	Identity        cty.Value
	// LegacyTypeSystem is set by plugins of the old SDK; looseness is tolerated only for them.
	LegacyTypeSystem bool
}

// ApplyRequest requests that a planned change be applied.
type ApplyRequest struct {
	TypeName        string
	Prior           cty.Value
	Planned         cty.Value
	Config          cty.Value
	PlannedPrivate  []byte
	ProviderMeta    cty.Value
	PlannedIdentity cty.Value
}

// ApplyResponse is the object after the change. With errors it is the part known to exist (perhaps null).
type ApplyResponse struct {
	Object           cty.Value
	Private          []byte
	Identity         cty.Value
	LegacyTypeSystem bool
}

// ImportRequest identifies an existing object by ID or by Identity (one of the two).
type ImportRequest struct {
	TypeName string
	ID       string
	Identity cty.Value
}

// Imported is one object that an import found.
type Imported struct {
	TypeName string
	Object   cty.Value
	Private  []byte
	Identity cty.Value
}

// MoveRequest requests the conversion of an object of another resource type into one of TargetType.
type MoveRequest struct {
	SourceProvider        string // "host/namespace/type"
	SourceType            string
	SourceVersion         int64
	SourceJSON            []byte
	SourcePrivate         []byte
	SourceIdentity        []byte
	SourceIdentityVersion int64
	TargetType            string
}

// MoveResponse is the converted object.
type MoveResponse struct {
	Object   cty.Value
	Private  []byte
	Identity cty.Value
}

// DataSource reads data sources.
type DataSource interface {
	ValidateDataConfig(ctx context.Context, typeName string, config cty.Value) diag.List
	ReadDataSource(ctx context.Context, typeName string, config, providerMeta cty.Value) (cty.Value, diag.List)
}

// WithAddress returns a context for calls that concern the object with this address, which the built-in provider
// uses in its messages.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// AddressOf returns the address that WithAddress has set; empty if there is none.
func AddressOf(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}

type addressKey struct{}

// Ephemeral is the lifecycle of ephemeral resource objects.
type Ephemeral interface {
	ValidateEphemeralConfig(ctx context.Context, typeName string, config cty.Value) diag.List
	OpenEphemeral(ctx context.Context, typeName string, config cty.Value) (Opened, diag.List)
	RenewEphemeral(ctx context.Context, typeName string, private []byte) (Renewed, diag.List)
	CloseEphemeral(ctx context.Context, typeName string, private []byte) diag.List
}

// Opened is an open ephemeral object. A zero RenewAt means that it is not renewed.
type Opened struct {
	Object  cty.Value
	Private []byte
	RenewAt time.Time
}

// Renewed has the time and the private data of the next renewal.
type Renewed struct {
	Private []byte
	RenewAt time.Time
}

// Lister finds the existing objects of managed resource types.
type Lister interface {
	// ValidateListConfig checks the arguments of a list block.
	ValidateListConfig(ctx context.Context, r ListRequest) diag.List
	// ListResource calls found for each object, in the order of the provider, until there are no more, r.Limit is
	// reached, found returns an error, or ctx ends. The error of found ends the call, and is not among the diagnostics.
	ListResource(ctx context.Context, r ListRequest, found func(Listed) error) diag.List
	// GenerateConfig turns an object into a value that is valid as the configuration of its resource. Call it only if
	// the capability GenerateResourceConfig is declared.
	GenerateConfig(ctx context.Context, typeName string, object cty.Value) (cty.Value, diag.List)
}

// ListRequest requests the existing objects of a managed resource type.
type ListRequest struct {
	TypeName string
	Config   cty.Value // of the list block, by the schema in Schemas.Lists
	// IncludeObject asks for whole objects, and not only for their identities. Limit is the most objects that are
	// wanted; at least 1. A validation may not know the limit, which is 0 then, nor whether objects are included.
	IncludeObject bool
	Limit         int64
}

// Listed is an object that exists. With errors among Diagnostics nothing else is set.
type Listed struct {
	DisplayName string
	Identity    cty.Value // by the identity schema of the type; never cty.NilVal without errors
	Object      cty.Value // cty.NilVal if objects were not requested
	Diagnostics diag.List
}

// Invoker invokes actions: what a provider does without leaving an object.
type Invoker interface {
	// ValidateActionConfig checks the arguments of an action.
	ValidateActionConfig(ctx context.Context, typeName string, config cty.Value) diag.List
	// PlanAction asks whether an action can be invoked. Parts of the configuration may be unknown.
	PlanAction(ctx context.Context, typeName string, config cty.Value) diag.List
	// InvokeAction invokes an action, and returns when it is over. Until then it calls progress for each message of the
	// provider about it, in order.
	InvokeAction(ctx context.Context, typeName string, config cty.Value, progress func(string)) diag.List
}

// Functions calls a provider's functions.
type Functions interface {
	// CallFunction calls a function. A problem with one argument is a function.ArgError.
	CallFunction(ctx context.Context, name string, args []cty.Value) (cty.Value, error)
}

// Stopper asks a provider to end its running calls soon. Stop returns when the provider has acknowledged the
// request.
type Stopper interface {
	Stop(ctx context.Context) error
}
