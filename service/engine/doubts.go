package engine

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
	"github.com/millipede-iac/millipede/state"
)

// Resolve implements work.Engine.
func (e *Engine) Resolve(ctx context.Context, j *work.Job, r work.Resolution, who string) (err error) {
	ctx, span := phaseSpan(ctx, "resolve", j)
	defer func() { endSpan(span, err) }()
	p, err := e.begin(ctx, j)
	if err != nil {
		return err
	}
	return p.end(p.resolve(ctx, r, who))
}

// resolve first collects the results of an abandoned run, if there is one, and then records a person's
// resolution of a doubt.
func (p *phase) resolve(ctx context.Context, r work.Resolution, who string) (diags diag.List) {
	at, diags := addr.ParseInstance(r.Address)
	if diags.HasErrors() {
		return diags
	}
	if diags = diags.Append(p.install(ctx)); diags.HasErrors() {
		return diags
	}
	op, more := p.leftBehind(ctx, "resolve")
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	defer closing(ctx, op, &diags)
	if diags = diags.Append(op.LockAll(ctx)); diags.HasErrors() {
		return diags
	}
	tx, more := op.Engine.Resolve(ctx, op.Prior, at, r.ID, who)
	diags = diags.Append(more)
	if len(tx.Changes) > 0 {
		diags = diags.Append(op.State.Record(ctx, tx))
	}
	after, more := op.State.Load(context.WithoutCancel(ctx))
	if diags = diags.Append(more); after != nil {
		p.doubtful(after)
	}
	return diags
}

// leftBehind opens the estate after a run that is not continued, and collects its results first. as is the
// purpose, for the names of requests.
func (p *phase) leftBehind(ctx context.Context, as string) (*estate.Operation, diag.List) {
	o := estate.StateOptions{Lock: true, LockTimeout: storeWait}
	if run := p.job.Run.ID; p.job.Workspace.ObjectLocks {
		o = p.shared()
		o.Sharing.Request = as + "-" + run // the run itself may have left a request
		alive := o.Sharing.Alive
		o.Sharing.Alive = func(request string) bool { return request != run && alive(request) }
	}
	return p.estate.Begin(ctx, estate.OperationOptions{
		Name: "apply", Bare: p.job.Run.Destroy, Variables: p.vars, Parallelism: p.o.Parallelism, LockAs: as,
		State: o, Watch: p.watch(),
	})
}

// doubtful reports the operations in doubt in a state to the service.
func (p *phase) doubtful(st *state.State) {
	if p.job.Doubtful == nil || st == nil {
		return
	}
	var all []record.Doubt
	for _, at := range st.Doubted() {
		i := st.Instance(at)
		objects := []*state.Object{i.Current}
		for _, key := range i.DeposedKeys() {
			objects = append(objects, i.Deposed[key])
		}
		for _, o := range objects {
			if o == nil || o.Status != state.InDoubt || o.Doubt == nil {
				continue
			}
			all = append(all, record.Doubt{Address: at.String(), Operation: o.Doubt.Operation, Worker: o.Doubt.Worker,
				Reason: o.Doubt.Reason, Started: o.Doubt.Started})
		}
	}
	p.job.Doubtful(all)
}
