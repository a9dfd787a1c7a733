package wire

import "github.com/millipede-iac/millipede/internal/coding"

// The messages about managed objects and data sources are coded without reflection, because there is a task and a
// result for each object: see coding.Row. The functions below name all fields of their structs, in order. The other
// parts of tasks and results are rare, and a message with one of them is left to reflection, which has the same form.

func (t *Task) row(r *coding.Row) {
	r.Struct(19)
	number(r, &t.Protocol)
	r.Text(&t.Run)
	r.Text((*string)(&t.Attempt))
	r.Text(&t.Address)
	t.Provider.row(r)
	r.Rare(t.Schema == nil)
	r.Rare(t.Validate == nil)
	if coding.Pointer(r, &t.Plan) {
		t.Plan.row(r)
	}
	if coding.Pointer(r, &t.Read) {
		t.Read.row(r)
	}
	if coding.Pointer(r, &t.Apply) {
		t.Apply.row(r)
	}
	r.Rare(t.Import == nil)
	r.Rare(t.Ephemeral == nil)
	r.Rare(t.Function == nil)
	r.Rare(t.Provision == nil)
	r.Text(&t.Worker)
	r.Bool(&t.More)
	if coding.Pointer(r, &t.Environment) {
		t.Environment.row(r)
	}
	r.Rare(t.List == nil)
	r.Rare(t.Action == nil)
}

// number writes or reads a number.
func number(r *coding.Row, n *int) {
	v := int64(*n)
	r.Int(&v)
	*n = int(v)
}

func (p *Provider) row(r *coding.Row) {
	r.Struct(7)
	p.Package.row(r)
	r.Text(&p.Address)
	r.Bytes(&p.Config)
	r.Text(&p.Digest)
	r.Text(&p.Dir)
	r.Rare(p.Mock == nil)
	r.Bool(&p.MayDefer)
}

func (p *Package) row(r *coding.Row) {
	r.Struct(4)
	r.Text(&p.Source)
	r.Text(&p.Version)
	r.Texts(&p.Hashes)
	r.Text(&p.Unlocked)
}

func (e *Environment) row(r *coding.Row) {
	r.Struct(3)
	r.Text(&e.Run)
	r.Text(&e.Sealed)
	r.Text(&e.Blob)
}

func (o *StoredObject) row(r *coding.Row) {
	r.Struct(7)
	r.Int(&o.SchemaVersion)
	r.Bytes(&o.Attrs)
	r.Rare(o.Flatmap == nil)
	r.Bytes(&o.Private)
	r.Bytes(&o.Identity)
	r.Int(&o.IdentityVersion)
	r.Bool(&o.Tainted)
}

func (t *PlanTask) row(r *coding.Row) {
	r.Struct(14)
	r.Text(&t.Type)
	if coding.Pointer(r, &t.Prior) {
		t.Prior.row(r)
	}
	r.Rare(t.MovedFrom == nil)
	r.Rare(t.Import == nil)
	r.Bool(&t.Refresh)
	r.Bool(&t.SkipPlan)
	r.Bool(&t.Destroy)
	r.Bytes(&t.Config)
	r.Bytes(&t.Meta)
	r.ByteLists(&t.IgnorePaths)
	r.Bool(&t.IgnoreAll)
	r.ByteLists(&t.Sensitive)
	r.Text(&t.Replace)
	r.Bool(&t.IfChanged)
}

func (t *ReadDataTask) row(r *coding.Row) {
	r.Struct(3)
	r.Text(&t.Type)
	r.Bytes(&t.Config)
	r.Bytes(&t.Meta)
}

func (t *ApplyTask) row(r *coding.Row) {
	r.Struct(15)
	r.Text(&t.Type)
	r.Text((*string)(&t.Action))
	r.Bytes(&t.Prior)
	r.Bytes(&t.PriorPrivate)
	r.Bytes(&t.PriorIdentity)
	r.Bytes(&t.Planned)
	r.Bytes(&t.PlannedPrivate)
	r.Bytes(&t.PlannedIdentity)
	r.Bytes(&t.Config)
	r.Bytes(&t.Meta)
	r.ByteLists(&t.IgnorePaths)
	r.Bool(&t.IgnoreAll)
	r.ByteLists(&t.Sensitive)
	if coding.Pointer(r, &t.Stored) {
		t.Stored.row(r)
	}
	r.Bool(&t.Settled)
}

func (r *Result) row(to *coding.Row) {
	to.Struct(20)
	number(to, &r.Protocol)
	to.Text((*string)(&r.Attempt))
	to.Text(&r.Nonce)
	to.Text(&r.Worker)
	to.Text(&r.Pool)
	to.Time(&r.Started)
	to.Time(&r.Ended)
	to.Text(&r.Doubt)
	to.Bool(&r.NotStarted)
	to.Rare(r.Diagnostics == nil)
	to.Rare(r.Schema == nil)
	if coding.Pointer(to, &r.Plan) {
		r.Plan.row(to)
	}
	to.Bytes(&r.Value)
	if coding.Pointer(to, &r.Apply) {
		r.Apply.row(to)
	}
	to.Rare(r.Import == nil)
	to.Rare(r.Ephemeral == nil)
	to.Rare(r.Function == nil)
	to.Rare(r.Answer == nil)
	to.Rare(r.List == nil)
	to.Text(&r.Deferred)
}

func (p *PlanResult) row(r *coding.Row) {
	r.Struct(14)
	r.Bytes(&p.Upgraded)
	r.Bytes(&p.Prior)
	r.Bytes(&p.PriorPrivate)
	r.Bytes(&p.PriorIdentity)
	r.Bytes(&p.Planned)
	r.Bytes(&p.PlannedPrivate)
	r.Bytes(&p.PlannedIdentity)
	r.Text((*string)(&p.Action))
	r.Text(&p.Reason)
	r.ByteLists(&p.ReplacePaths)
	r.Int(&p.SchemaVersion)
	r.Int(&p.IdentityVersion)
	r.Bool(&p.Legacy)
	r.Bool(&p.Unread)
}

func (a *ApplyResult) row(r *coding.Row) {
	r.Struct(7)
	r.Bytes(&a.Object)
	r.Bytes(&a.Private)
	r.Bytes(&a.Identity)
	r.Int(&a.SchemaVersion)
	r.Int(&a.IdentityVersion)
	r.Bool(&a.Tainted)
	r.Bool(&a.Unchanged)
}
