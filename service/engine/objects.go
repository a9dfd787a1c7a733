package engine

import (
	"context"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/work"
)

// ChangeObjects implements work.Engine.
func (e *Engine) ChangeObjects(ctx context.Context, j *work.Job, c work.ObjectChange) (err error) {
	ctx, span := phaseSpan(ctx, "change objects", j)
	defer func() { endSpan(span, err) }()
	p, err := e.begin(ctx, j)
	if err != nil {
		return err
	}
	diags := p.changeObjects(ctx, c)
	if refused := estate.RefusedIn(diags); refused != nil {
		p.unwatched()
		return &work.Refused{Reason: refused.Reason}
	}
	return p.end(diags)
}

func (p *phase) changeObjects(ctx context.Context, c work.ObjectChange) (diags diag.List) {
	root, diags := p.estate.FindRoot(estate.Finding{Variables: p.vars, StorageOnly: true, Sources: p.screen.sources})
	if diags.HasErrors() {
		return diags
	}
	o := p.shared()
	o.Sharing.Request, o.Sharing.Who, o.Sharing.Once = c.ID, c.Who, true
	opened, more := p.estate.OpenState(ctx, root, o, c.Operation)
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	defer func() { diags = diags.Append(opened.Close(ctx)) }()
	waited, cancel := context.WithTimeout(p.job.Stopping, time.Duration(c.Wait*float64(time.Second)))
	defer cancel()
	return diags.Append(opened.ChangeObjects(ctx, waited, backend.ObjectChange{Operation: c.Operation,
		Lineage: c.Lineage, Serial: c.Serial, Removed: c.Removed, State: c.State}))
}
