// Package change executes the lifecycle of one resource instance at its provider: upgrade, read, validate, propose,
// plan, apply, import.
//
// It also checks that a provider's answers follow the rules: a plan may not contradict the configuration, a result may
// not contradict the plan. The package does not find providers, and does not choose the operations on an object. It
// starts no goroutine, keeps nothing between calls, and never changes the state. The rules are those that OpenTofu 1.12
// enforces (docs/resource-instance-change-lifecycle.md there); the summaries of the diagnostics are the ones that its
// users and tools know.
//
// Arguments and results of this package carry no marks: the coordinator handles sensitivity. Messages never contain the
// value of an attribute that the schema declares sensitive or write-only.
package change

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// Host is the provider of an object, with the names of both for messages. The provider is already configured, if
// the operation requires that.
type Host struct {
	Provider provider.Provider
	// Schemas are the provider's schemas. They are shared, and never changed here.
	Schemas *provider.Schemas
	// Name is the provider instance as it is shown to users: provider["registry.opentofu.org/hashicorp/null"].east.
	Name string
	// Source is the provider's source address: registry.opentofu.org/hashicorp/null.
	Source string
	// Address is the resource instance on which the operation works.
	Address string
}

// kind is one type of object in the provider's schemas, with the implied types.
type kind struct {
	name    string
	block   *schema.Block
	ty      cty.Type
	version int64

	// identity is nil for a type without one; identityTy is cty.NilType then.
	identity        *schema.Object
	identityTy      cty.Type
	identityVersion int64
}

// managed returns the managed resource type of the given name.
func (h Host) managed(name string) (kind, diag.List) {
	s, ok := h.Schemas.Managed[name]
	if !ok {
		return kind{}, h.unsupported("resource type", name)
	}
	k := kind{name: name, block: s.Block, ty: s.Block.ImpliedType(), version: s.Version}
	if id, ok := h.Schemas.Identities[name]; ok && id.Body != nil {
		k.identity, k.identityTy, k.identityVersion = id.Body, id.Body.ImpliedType(), id.Version
	}
	return k, nil
}

// data returns the data source type of the given name.
func (h Host) data(name string) (kind, diag.List) {
	s, ok := h.Schemas.Data[name]
	if !ok {
		return kind{}, h.unsupported("data source", name)
	}
	return kind{name: name, block: s.Block, ty: s.Block.ImpliedType(), version: s.Version}, nil
}

// ephemeral returns the ephemeral resource type of the given name.
func (h Host) ephemeral(name string) (kind, diag.List) {
	s, ok := h.Schemas.Ephemeral[name]
	if !ok {
		return kind{}, h.unsupported("ephemeral resource type", name)
	}
	return kind{name: name, block: s.Block, ty: s.Block.ImpliedType(), version: s.Version}, nil
}

func (h Host) unsupported(what, name string) diag.List {
	return diag.List{{
		Severity: diag.Error,
		Summary:  "Unsupported " + what,
		Detail:   fmt.Sprintf("Provider %q has no %s %q.", h.Name, what, name),
		Address:  h.Address,
	}}
}

// problem returns an error about the object that is not a fault of the provider.
func (h Host) problem(summary, format string, args ...any) *diag.Diagnostic {
	return &diag.Diagnostic{
		Severity: diag.Error,
		Summary:  summary,
		Detail:   fmt.Sprintf(format, args...),
		Address:  h.Address,
	}
}

// blame returns an error that only a fault in the provider can cause.
func (h Host) blame(summary, format string, args ...any) *diag.Diagnostic {
	return h.problem(summary,
		format+"\n\nThis is a bug in the provider: please report it to the people who maintain it.", args...)
}

// blameEach is blame for every violation; the detail consists of the opening, the address with the path, and the text
// of the violation.
func (h Host) blameEach(summary, opening string, found violations) diag.List {
	var out diag.List
	for _, b := range found.sorted() {
		out = append(out, h.blame(summary, "%s %s%s: %s.", opening, h.Address, pathText(b.path), b.text))
	}
	return out
}
