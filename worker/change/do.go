package change

import (
	"context"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// Do executes the provider operation of a task and returns its outcome: the operation's field, the diagnostics and
// Doubt are set; the fields about the attempt are not. It panics if the task has no provider operation.
func Do(ctx context.Context, h Host, t *wire.Task) *wire.Result {
	out := &wire.Result{}
	var diags diag.List
	var deferral *provider.Deferral
	if t.Provider.MayDefer {
		ctx, deferral = provider.AllowDeferral(ctx)
	}
	switch {
	case t.Schema != nil:
		out.Schema = Schemas(h, t.Schema)
	case t.Validate != nil:
		out.Value, diags = Validate(ctx, h, t.Validate)
	case t.Plan != nil:
		out.Plan, diags = Plan(ctx, h, t.Plan)
	case t.Read != nil:
		out.Value, diags = ReadData(ctx, h, t.Read)
	case t.Apply != nil:
		var applied Applied
		applied, diags = Apply(ctx, h, t.Apply)
		out.Apply, out.Doubt, out.Answer = applied.Result, applied.Doubt, applied.Answer
	case t.Import != nil:
		out.Import, diags = Import(ctx, h, t.Import)
	case t.Ephemeral != nil:
		out.Ephemeral, diags = Ephemeral(ctx, h, t.Ephemeral)
	case t.Function != nil:
		out.Function, diags = Function(ctx, h, t.Function)
	case t.Action != nil && !t.Action.Invoke:
		diags = PlanAction(ctx, h, t.Action)
	default:
		panic("change: the task names no provider operation")
	}
	out.Diagnostics, out.Deferred = wire.DiagsToWire(diags), string(deferral.Reason())
	return out
}

// Schemas returns the part of the provider's schemas that the task requests, and the names of all its types. Types
// that the provider does not have are left out.
func Schemas(h Host, t *wire.SchemaTask) *wire.SchemaResult {
	part := *h.Schemas
	if !t.All {
		part.Managed = chosen(h.Schemas.Managed, t.Managed)
		part.Data = chosen(h.Schemas.Data, t.Data)
		part.Ephemeral = chosen(h.Schemas.Ephemeral, t.Ephemeral)
		part.Lists, part.Actions = chosen(h.Schemas.Lists, t.Lists), chosen(h.Schemas.Actions, t.Actions)
		part.Identities = chosen(h.Schemas.Identities, t.Managed)
	}
	return &wire.SchemaResult{
		Schemas:   wire.EncodeSchemas(&part),
		Managed:   names(h.Schemas.Managed),
		Data:      names(h.Schemas.Data),
		Ephemeral: names(h.Schemas.Ephemeral),
	}
}

func chosen[T schema.Schema | schema.Identity](all map[string]T, wanted []string) map[string]T {
	out := make(map[string]T, len(wanted))
	for _, name := range wanted {
		if s, ok := all[name]; ok {
			out[name] = s
		}
	}
	return out
}

func names(all map[string]schema.Schema) []string {
	return slices.Sorted(maps.Keys(all))
}
