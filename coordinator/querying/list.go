package querying

import (
	"cmp"
	"crypto/sha256"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/wire"
)

// listing is the vertex of one instance of a list block. The loop works on a vertex with one goroutine at a time.
type listing struct {
	List
	resource *values.Resource
	in       *instance.Instance
	options  values.ListOptions
	used     bool // whether others refer to its results

	begun bool
	// seen has the hashes of the identities that were passed on: a call that is repeated lists objects again.
	seen    map[[16]byte]struct{}
	results []cty.Value // if used
	diags   diag.List   // of pages
}

// prepareList evaluates a list block, and returns the task for a worker.
func (q *Querier) prepareList(l *listing) program.Step {
	e := instance.Evaluator{Store: q.Store, Package: q.Package}
	in, diags := e.Block(l.resource, l.Addr.Key, instance.Options{})
	if diags.HasErrors() {
		return program.Step{Diags: inConfig(l.resource, diags)}
	}
	l.in, l.Provider, l.Input = in, in.Provider, in.Config
	l.Place = cmp.Or(in.Place.Region, in.Place.ProviderRegion)
	var more diag.List
	l.options, more = l.resource.ListOptions(in.Rep)
	l.Limit = l.options.Limit
	diags = diags.Append(more)
	if diags = diags.Append(q.unknowns(l)); diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	l.Managed, more = q.managed(l)
	if diags = diags.Append(more); diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	config, err := in.EncodeConfig()
	if err != nil {
		return instance.Broken("encoding the configuration of "+l.Addr.String(), err)
	}
	if l.seen == nil {
		l.seen = map[[16]byte]struct{}{}
	}
	if !l.begun {
		l.begun = true
		q.Watcher.Begun(&l.List)
	}
	return program.Step{
		Diags: diags, Lane: program.Fast, Place: &in.Place,
		Task: &wire.Task{Address: l.Addr.String(), Provider: in.Wire, List: &wire.ListTask{
			Type: l.Type, Config: config, IncludeObject: l.options.IncludeObject || q.Generate, Generate: q.Generate,
			Limit: l.Limit + q.known.count(l), // managed objects do not count
		}},
	}
}

// inConfig gives problems without a place that of the config block.
func inConfig(r *values.Resource, diags diag.List) diag.List {
	for _, d := range diags {
		if d.Subject == nil {
			d.Subject = r.Code.Config.ConfigRange.Ptr()
		}
	}
	return diags
}

// unknowns reports values that are not known, in the config block and in the configuration of the provider.
func (q *Querier) unknowns(l *listing) diag.List {
	var diags diag.List
	if path, unknown := firstUnknown(l.in.Bare); unknown {
		d := unknownValue(fmt.Sprintf("The config block of %s", l.Addr))
		d.Subject = l.in.Range(path)
		diags = append(diags, d)
	}
	p, more := q.Store.Provider(l.Provider)
	if diags = diags.Append(more); more.HasErrors() || p.Block == nil {
		return diags
	}
	bare, _ := p.Value.UnmarkDeep()
	if path, unknown := firstUnknown(bare); unknown {
		d := unknownValue(fmt.Sprintf("The configuration of %s", l.Provider))
		d.Subject = p.Block.Range.Ptr()
		if rng := eval.ConfigRange(p.Block.Config, path); rng != nil {
			d.Subject = rng
		}
		diags = append(diags, d)
	}
	return diags
}

// firstUnknown returns the path of a value that is not known.
func firstUnknown(v cty.Value) (at cty.Path, found bool) {
	if v.IsWhollyKnown() {
		return nil, false
	}
	_ = cty.Walk(v, func(path cty.Path, part cty.Value) (bool, error) { // it returns no error
		if !found && !part.IsKnown() {
			at, found = path.Copy(), true
		}
		return !found, nil
	})
	return at, found
}

// managed returns the schemas of the objects that are listed.
func (q *Querier) managed(l *listing) (*Managed, diag.List) {
	s := q.Code.Schemas.Resource(l.Provider.Provider, addr.Managed, l.Type)
	id := q.Code.Schemas.Identity(l.Provider.Provider, l.Type)
	if s == nil || id == nil || id.Body == nil {
		return nil, diag.Errors("Resource type cannot be listed", fmt.Sprintf("Provider %s has a list of the resource "+
			"type %q, but no managed resource type of this name with an identity.\n\nThis is a bug in the provider.",
			l.Provider.Provider.Display(), l.Type), l.resource.Code.Config.TypeRange.Ptr())
	}
	return NewManaged(s, id), nil
}

// takePage passes the objects of a page on. A page that cannot be read fails the list when it ends.
func (q *Querier) takePage(l *listing, page *wire.ListPage) {
	for i := range page.Objects {
		from := &page.Objects[i]
		if l.Full() {
			return
		}
		sum := sha256.Sum256(from.Identity)
		if _, again := l.seen[[16]byte(sum[:16])]; again {
			continue
		}
		o, err := l.Managed.Decode(from)
		if err != nil {
			l.diags = l.diags.Append(instance.Broken("decoding an object of "+l.Addr.String(), err).Diags)
			return
		}
		l.seen[[16]byte(sum[:16])] = struct{}{}
		if q.known.has(l, o.Identity) {
			l.Left++
			continue
		}
		l.Total++
		if l.used {
			l.results = append(l.results, l.result(o))
		}
		q.Watcher.Found(&l.List, o)
	}
}

// result is an object as other blocks see it, as an element of data.
func (l *listing) result(o *Object) cty.Value {
	state := o.Value
	if state == cty.NilVal {
		state = cty.NullVal(l.Managed.Type)
	}
	return cty.ObjectVal(map[string]cty.Value{"display_name": cty.StringVal(o.Name), "identity": o.Identity,
		"state": state})
}

// completeList ends a list: its results are available for other blocks.
func (q *Querier) completeList(l *listing, r *wire.Result) program.Step {
	diags := values.WireDiags(r.Diagnostics, func(path cty.Path) *hcl.Range {
		if rng := l.in.Range(path); len(path) > 0 && rng != nil {
			return rng
		}
		return l.resource.Code.Config.ConfigRange.Ptr()
	}).Append(l.diags)
	if r.List == nil && !diags.HasErrors() {
		return instance.Broken("listing "+l.Addr.String(), errNoAnswer)
	}
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	if l.used {
		l.resource.Set(l.Addr.Key, cty.ObjectVal(map[string]cty.Value{"data": cty.TupleVal(l.results)}))
	}
	q.Watcher.Ended(&l.List)
	l.seen, l.results = nil, nil
	return program.Step{Diags: diags, Notes: program.Notes{Action: "list", Quiet: true}}
}
