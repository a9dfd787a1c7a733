package engine

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/work"
)

// Watch implements work.Engine.
func (e *Engine) Watch(ctx context.Context, j *work.Job, addresses []string, reads int) (
	found []work.Found, err error) {
	ctx, span := phaseSpan(ctx, "watch", j)
	defer func() { endSpan(span, err) }()
	p, err := e.begin(ctx, j)
	if err != nil {
		return nil, err
	}
	found, diags := p.compare(ctx, addresses, reads)
	var errs diag.List // of warnings every plan tells
	for _, d := range diags {
		if d.Severity == diag.Error {
			errs = append(errs, d)
		}
	}
	return found, p.end(errs)
}

// compare reads objects, and compares them with the state as it was last committed: nobody waits for that, and nothing
// of it is kept.
func (p *phase) compare(ctx context.Context, addresses []string, reads int) (found []work.Found, diags diag.List) {
	named := map[addr.Instance]string{}
	var instances []addr.Instance
	for _, address := range addresses {
		at, more := addr.ParseInstance(address)
		if diags = diags.Append(more); !more.HasErrors() {
			named[at] = address
			instances = append(instances, at)
		}
	}
	slots, err := placement.NewParallelism(int64(reads))
	if err != nil {
		panic(fmt.Sprintf("engine: the number of reads at a time %s", err))
	}
	more := p.install(ctx)
	if diags = diags.Append(more); more.HasErrors() {
		return nil, diags
	}
	op, more := p.estate.Begin(ctx, estate.OperationOptions{
		Name: "plan", Bare: p.job.Run.Destroy, Variables: p.vars, State: estate.StateOptions{KeepsNothing: true},
		Parallelism: slots, Background: true, LockAs: "OperationTypePlan",
		Watch: estate.Watch{Sources: p.screen.sources, Observer: coordinator.Silent{}, Note: func(string) {},
			Settle: func() {}},
	})
	if diags = diags.Append(more); more.HasErrors() {
		return nil, diags
	}
	defer closing(ctx, op, &diags)
	all, more := op.Compare(ctx, instances)
	for _, d := range all {
		found = append(found, work.Found{Address: named[d.Addr], Gone: d.Gone, Attributes: d.Attributes})
	}
	return found, diags.Append(more)
}
