package worker

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/mock"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/change"
)

// operate executes the operation of a task, in either lane. It always returns a result. It recovers a panic, which is a
// bug, so that the other operations continue; nothing else in the worker does. note is called with the progress of an
// action, for the journal.
func (w *Worker) operate(ctx context.Context, ref wire.TaskRef, t *wire.Task, note func(string)) (
	result *wire.Result) {
	begun := false
	defer func() {
		if p := recover(); p != nil {
			w.Log.Error("panic in an operation", "address", t.Address, "panic", p, "stack", string(debug.Stack()))
			result = w.bug(t, p, begun)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	env, refused, again := w.environment(ctx, ref.Pool, t)
	if again || refused.HasErrors() {
		return &wire.Result{Diagnostics: wire.DiagsToWire(refused), NotStarted: again}
	}
	if t.Provision != nil {
		end := w.ops.begin(ref.Run, ref.Attempt, func(context.Context) error { cancel(errAskedToStop); return nil })
		defer end()
		begun = true
		return &wire.Result{Diagnostics: wire.DiagsToWire(w.Provisioners.Run(ctx, t.Address, t.Provision, env,
			w.emitter(ctx, ref)))}
	}

	leasing, span := trace.Start(ctx, "lease provider", trace.Internal)
	lease, diags := w.Providers.Acquire(leasing, t.Provider, env, w.configure(t.Provider))
	span.Set("millipede.provider", t.Provider.Package.Source)
	span.End()
	if diags.HasErrors() {
		return &wire.Result{Diagnostics: wire.DiagsToWire(diags)}
	}
	defer lease.Release()
	p := lease.Provider()
	schemas, more := p.Schemas(ctx)
	if diags = append(diags, more...); diags.HasErrors() {
		return &wire.Result{Diagnostics: wire.DiagsToWire(diags)}
	}
	if m := t.Provider.Mock; m != nil {
		if p, more = mocked(p, schemas, m); more.HasErrors() {
			return &wire.Result{Diagnostics: wire.DiagsToWire(append(diags, more...))}
		}
	}
	end := w.ops.begin(ref.Run, ref.Attempt, p.Stop)
	defer end()
	begun = true
	host := change.Host{Provider: p, Schemas: schemas, Name: t.Provider.Address, Source: t.Provider.Package.Source,
		Address: t.Address}
	switch {
	case t.Action != nil && t.Action.Invoke:
		result = w.invoke(ctx, ref, host, t.Action, note)
	case t.List != nil:
		stop := w.ops.begin(ref.Run, ref.Attempt, func(context.Context) error { cancel(errAskedToStop); return nil })
		defer stop()
		result = w.list(ctx, ref, host, t.List)
	default:
		result = change.Do(ctx, host, t)
	}
	result.Diagnostics = append(wire.DiagsToWire(diags), result.Diagnostics...)
	return result
}

// mocked returns the mock of a provider in a test.
func mocked(p provider.Provider, schemas *provider.Schemas, m *wire.Mock) (provider.Provider, diag.List) {
	var given map[string]cty.Value
	if len(m.Values) > 0 {
		var v ctyjson.SimpleJSONValue
		if err := v.UnmarshalJSON(m.Values); err != nil {
			return nil, diag.Errors("Invalid mock values",
				fmt.Sprintf("The values that a test gives cannot be read: %s.", err), nil)
		}
		given = v.AsValueMap()
	}
	return mock.New(p, schemas, given), nil
}

// configure returns the function that passes a provider the configuration of p; nil if none is asked for.
func (w *Worker) configure(p wire.Provider) Configure {
	if p.Digest == "" {
		return nil
	}
	return func(ctx context.Context, target provider.Provider) diag.List {
		schemas, diags := target.Schemas(ctx)
		if diags.HasErrors() {
			return diags
		}
		config, err := coding.DecodeValue(p.Config, schemas.Provider.Block.ImpliedType())
		if err != nil {
			return append(diags, diag.New(diag.Error, "Invalid provider configuration",
				fmt.Sprintf("The configuration of %s does not fit the provider's schema: %s.", p.Address, err), nil))
		}
		if p.MayDefer {
			ctx, _ = provider.AllowDeferral(ctx) // it puts off its operations, each with a reason of its own
		}
		return append(diags, target.Configure(ctx, config, w.EngineVersion)...)
	}
}

// emitter returns the function that publishes the events of an operation. Live events may be lost: nothing depends on
// them.
func (w *Worker) emitter(ctx context.Context, ref wire.TaskRef) func(wire.Event) {
	return func(e wire.Event) {
		e.Attempt, e.Worker = ref.Attempt, w.ID
		if err := w.Presence.Emit(ctx, ref.Pool, ref.Run, wire.EncodeEvent(e)); err != nil {
			w.Log.Debug("a live event was lost", "address", e.Address, "error", err)
		}
	}
}

// bug is the result of an operation that panicked. If it may have changed the world, it is in doubt.
func (w *Worker) bug(t *wire.Task, panicked any, begun bool) *wire.Result {
	result := &wire.Result{Diagnostics: wire.DiagsToWire(diag.List{{
		Severity: diag.Error,
		Summary:  "Bug in Millipede",
		Detail: fmt.Sprintf("Worker %s failed while it worked on %s: %v. Please report this with the worker's log, "+
			"which has the details.", w.ID, t.Address, panicked),
	}})}
	if begun && (t.Apply != nil || t.Provision != nil || t.Action != nil && t.Action.Invoke) {
		result.Doubt = "The worker failed while it carried the operation out."
	}
	return result
}
