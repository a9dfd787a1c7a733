package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker"
)

// cloud has the objects of the providers. It records every request, and is the oracle of the simulation.
type cloud struct {
	w       *world
	made    int
	objects map[string]*thing // by id
	ever    map[string]*thing // also the deleted ones
	busy    map[*cloudRequest]bool
	log     []string
}

// thing is an object of a cloud. Its name begins with the name of its site and is unique for one planned creation.
type thing struct {
	id    string
	value cty.Value
	half  bool // its creation failed after the object existed
}

// is reports whether an object has the content of an update.
func (t *thing) is(size int64, refs []string) bool {
	have := []string{}
	if v := t.value.GetAttr("refs"); !v.IsNull() {
		for _, r := range v.AsValueSlice() {
			have = append(have, r.AsString())
		}
	}
	n, _ := t.value.GetAttr("size").AsBigFloat().Int64()
	return n == size && slices.Equal(have, refs)
}

func (t *thing) name() string { return t.value.GetAttr("name").AsString() }

// cloudRequest is a request that changes the cloud, from when its provider sends it until it has taken effect or is
// lost.
type cloudRequest struct {
	verb, name, id string
	run            string // the run of a team: each run has a limit of its own
	by             *process
	done           bool
}

func newCloud(w *world) *cloud {
	return &cloud{w: w, objects: map[string]*thing{}, ever: map[string]*thing{}, busy: map[*cloudRequest]bool{}}
}

// named returns the object with a name, or nil; of several, a complete one.
func (c *cloud) named(name string) (found *thing) {
	for _, id := range c.ids() {
		if t := c.objects[id]; t.name() == name && (found == nil || found.half) {
			found = t
		}
	}
	return found
}

// replaced reports whether an object of a team was replaced and is still to be destroyed. A person whose branch has the
// former block creates another object with the same name.
func (c *cloud) replaced(t *thing) bool {
	s := c.w.siteOf(t.name())
	return s != nil && s.team != nil && slices.ContainsFunc(s.records(), func(r record) bool {
		return r.attrs.ID == t.id && r.address != r.resource.String()
	})
}

func (c *cloud) ids() []string {
	ids := make([]string, 0, len(c.objects))
	for id := range c.objects {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// isBusy reports whether something about a site's objects may still take effect.
func (c *cloud) isBusy(site string) bool {
	for e := range c.busy {
		if strings.HasPrefix(e.name, site+"-") {
			return true
		}
	}
	return false
}

// begin records that a provider begins a request, and checks the promises for it.
func (c *cloud) begin(e *cloudRequest, r provider.ApplyRequest) {
	w := c.w
	c.busy[e] = true
	c.log = append(c.log, e.verb+" "+e.name)
	w.note("cloud: %s begins to %s %s", e.by.name, e.verb, e.name)
	w.moved()
	site := w.siteOf(e.name)
	if site != nil && site.team != nil {
		e.run = site.team.ledger.writer(e.name)
	}
	running := 0
	for o := range c.busy {
		// A request that the cloud continues after its provider has died is not an operation of a run any more.
		if !o.by.dead && !w.isByzantine(w.poolOf(o.name)) && o.run == e.run {
			running++
		}
	}
	if running > w.options.slots {
		w.violate("limit", "%d operations run at a time, the limit is %d", running, w.options.slots)
	}
	if site == nil || w.isByzantine(w.poolOf(e.name)) {
		return
	}
	if e.verb == "delete" {
		site.mustNotBeNeeded(e)
		return
	}
	refs := r.Planned.GetAttr("refs")
	if refs.IsNull() {
		return
	}
	for _, ref := range refs.AsValueSlice() {
		site.mustBeDurable(e, ref.AsString())
	}
}

// apply is the effect of a request.
func (c *cloud) apply(e *cloudRequest, r provider.ApplyRequest, half bool) (cty.Value, error) {
	w := c.w
	e.done = true
	delete(c.busy, e)
	w.note("cloud: %s %s takes effect", e.verb, e.name)
	violate := w.violate
	if w.isByzantine(w.poolOf(e.name)) {
		violate = func(string, string, ...any) {}
	}
	switch e.verb {
	case "create":
		if old := c.named(e.name); old != nil && !old.half && !c.replaced(old) {
			violate("once", "%s was created twice: as %s, and again by %s", e.name, old.id, e.by.name)
		}
		c.made++
		id := fmt.Sprintf("i%d", c.made)
		vals := r.Planned.AsValueMap()
		vals["id"] = cty.StringVal(id)
		t := &thing{id: id, value: cty.ObjectVal(vals), half: half}
		c.objects[id], c.ever[id] = t, t
		return t.value, nil
	case "update":
		t := c.objects[e.id]
		if t == nil {
			violate("once", "%s (%s) is updated, but does not exist", e.name, e.id)
			return cty.NullVal(r.Planned.Type()), nil
		}
		if t.value.RawEquals(r.Planned) {
			violate("once", "%s (%s) was updated twice", e.name, e.id)
		}
		t.value = r.Planned
		return t.value, nil
	default:
		if c.objects[e.id] == nil {
			violate("once", "%s (%s) was deleted twice", e.name, e.id)
		}
		delete(c.objects, e.id)
		return cty.NullVal(r.Prior.Type()), nil
	}
}

var thingSchema = schema.Schema{Version: 1, Block: &schema.Block{Attributes: map[string]*schema.Attribute{
	"id":   {Type: cty.String, Computed: true},
	"name": {Type: cty.String, Required: true},
	"size": {Type: cty.Number, Optional: true},
	"refs": {Type: cty.List(cty.String), Optional: true},
}}}

var cloudSchemas = &provider.Schemas{
	Provider: schema.Schema{Block: &schema.Block{}},
	Managed: map[string]schema.Schema{
		typeIn(honest): thingSchema, typeIn("east"): thingSchema, typeIn("west"): thingSchema,
	},
	ProtocolVersion: 6,
}

// plugin is a provider in one worker's process. It implements worker.Providers too.
type plugin struct {
	provider.Provider // nil: methods that the simulation does not implement panic
	p                 *process
	c                 *cloud
}

func (g *plugin) Acquire(ctx context.Context, _ wire.Provider, _ *wire.Variables, configure worker.Configure) (
	worker.Lease, diag.List) {
	err := g.p.do(ctx, local, "Provider.Acquire", "", func(o *op) {
		w := g.p.w
		if w.odds(30) { // the worker has to download the package
			w.after(w.between(10*time.Millisecond, 10*time.Second), func() { o.reply(nil) })
			return
		}
		o.reply(nil)
	})
	if err != nil {
		return nil, diag.Errors("No provider", err.Error(), nil)
	}
	if configure != nil {
		if diags := configure(ctx, g); diags.HasErrors() {
			return nil, diags
		}
	}
	return lease{g}, nil
}

type lease struct{ g *plugin }

func (l lease) Provider() provider.Provider { return l.g }
func (lease) Release()                      {}

func (g *plugin) Schemas(context.Context) (*provider.Schemas, diag.List) { return cloudSchemas, nil }

func (g *plugin) Metadata(context.Context) (provider.Metadata, diag.List) {
	return cloudSchemas.Metadata(), nil
}

func (g *plugin) ValidateProviderConfig(_ context.Context, v cty.Value) (cty.Value, diag.List) {
	return v, nil
}

func (g *plugin) Configure(context.Context, cty.Value, string) diag.List { return nil }

func (g *plugin) ValidateResourceConfig(context.Context, string, cty.Value) diag.List { return nil }

func (g *plugin) Stop(context.Context) error { return nil }

func (g *plugin) UpgradeResourceState(_ context.Context, r provider.UpgradeRequest) (cty.Value, diag.List) {
	v, err := ctyjson.Unmarshal(r.JSON, thingSchema.Block.ImpliedType())
	if err != nil {
		return cty.NilVal, diag.Errors("upgrade failed", err.Error(), nil)
	}
	return v, nil
}

func (g *plugin) ReadResource(ctx context.Context, r provider.ReadRequest) (provider.ReadResponse, diag.List) {
	id := r.Prior.GetAttr("id").AsString()
	v, err := g.read(ctx, id)
	if err != nil {
		return provider.ReadResponse{}, diag.Errors("reading failed", err.Error(), nil)
	}
	return provider.ReadResponse{Object: v, Private: r.Private}, nil
}

func (g *plugin) read(ctx context.Context, id string) (v cty.Value, err error) {
	err = g.p.do(ctx, outside, "Read", id, func(o *op) {
		v = cty.NullVal(thingSchema.Block.ImpliedType())
		if t := g.c.objects[id]; t != nil {
			v = t.value
		}
		o.reply(nil)
	})
	return v, err
}

func (g *plugin) ImportResourceState(ctx context.Context, r provider.ImportRequest) ([]provider.Imported, diag.List) {
	v, err := g.read(ctx, r.ID)
	if err == nil && v.IsNull() {
		err = fmt.Errorf("there is no %s", r.ID)
	}
	if err != nil {
		return nil, diag.Errors("importing failed", err.Error(), nil)
	}
	return []provider.Imported{{TypeName: r.TypeName, Object: v}}, nil
}

func (g *plugin) PlanResourceChange(_ context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	out := provider.PlanResponse{Planned: r.Proposed, Private: r.PriorPrivate}
	if r.Proposed.IsNull() {
		return out, nil
	}
	vals := r.Proposed.AsValueMap()
	if r.Prior.IsNull() {
		vals["id"] = cty.UnknownVal(cty.String)
	} else if same := r.Prior.GetAttr("name").Equals(vals["name"]); !same.IsKnown() || same.False() {
		vals["id"] = cty.UnknownVal(cty.String)
		out.RequiresReplace = []cty.Path{cty.GetAttrPath("name")}
	}
	out.Planned = cty.ObjectVal(vals)
	return out, nil
}

// ApplyResourceChange sends a request to the cloud and waits for its response. The request continues even if the
// worker's process dies.
func (g *plugin) ApplyResourceChange(ctx context.Context, r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
	e := &cloudRequest{by: g.p}
	switch {
	case r.Prior.IsNull():
		e.verb, e.name = "create", r.Planned.GetAttr("name").AsString()
	case r.Planned.IsNull():
		e.verb, e.name, e.id = "delete", r.Prior.GetAttr("name").AsString(), r.Prior.GetAttr("id").AsString()
	default:
		e.verb, e.name, e.id = "update", r.Planned.GetAttr("name").AsString(), r.Prior.GetAttr("id").AsString()
	}
	var after cty.Value
	refused, half := false, false
	err := g.p.do(ctx, local, "Apply", e.verb+" "+e.name, func(o *op) {
		w := g.p.w
		g.c.begin(e, r)
		took := w.between(time.Millisecond, 2*time.Second)
		if w.odds(20) {
			took = w.between(5*time.Second, 40*time.Second)
		}
		refused = w.odds(40)
		half = !refused && e.verb == "create" && w.odds(60)
		w.after(took, func() {
			switch {
			case refused || g.p.dead && w.odds(3):
				e.done = true
				delete(g.c.busy, e)
				w.note("cloud: %s %s is refused, or lost", e.verb, e.name)
				after = r.Prior
			default:
				after, _ = g.c.apply(e, r, half)
			}
			w.after(w.latency(), func() { g.p.awake(func() { o.finish(nil) }) })
		})
	})
	switch {
	case err != nil:
		return provider.ApplyResponse{Object: r.Prior}, diag.Errors("the provider was cut off", err.Error(), nil)
	case refused:
		return provider.ApplyResponse{Object: r.Prior}, diag.Errors("the cloud refuses", e.verb, nil)
	case half:
		return provider.ApplyResponse{Object: after}, diag.Errors("the cloud broke off", e.verb, nil)
	}
	if how := g.c.unkeepable(e); how > 0 {
		return g.garble(e, after, how)
	}
	return provider.ApplyResponse{Object: after}, nil
}

// unkeepable draws whether the response to a request that has taken effect can be stored in the state, and if not, in
// which way it is invalid; 0 means valid. It depends only on the seed and the request, so that the other random choices
// of a seed stay the same.
func (c *cloud) unkeepable(e *cloudRequest) int {
	if c.w.options.fair {
		return 0
	}
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%d %s %s", c.w.seed, e.verb, e.name)
	if n := int(sum.Sum64() % 100); n < garbled*4 && n%4 == 0 {
		return 1 + n/4
	}
	return 0
}

// garbled is the number of kinds of responses that cannot be stored.
const garbled = 4

// garble makes an invalid response from the current content of an object.
func (g *plugin) garble(e *cloudRequest, after cty.Value, how int) (resp provider.ApplyResponse, diags diag.List) {
	w := g.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults["answer that cannot be kept"]++
	w.note("cloud: the provider's answer to %s %s cannot be kept (%d)", e.verb, e.name, how)
	if w.options.without == guardKept {
		// The guard is disabled: an invalid response counts as a failure without an effect.
		return provider.ApplyResponse{Object: cty.NullVal(thingSchema.Block.ImpliedType())},
			diag.Errors("the answer cannot be kept", e.verb, nil)
	}
	switch how {
	case 1: // it cannot be decoded
		d := diag.New(diag.Error, "Invalid provider response", "malformed message", nil)
		d.Extra = &provider.Lost{Reason: "the answer could not be read",
			Answer: &provider.Answer{Raw: []byte("\xdd\xff\xff\xff\xff")}}
		return provider.ApplyResponse{}, diag.List{d}
	case 2: // attributes are missing
		return provider.ApplyResponse{Object: cty.EmptyObjectVal}, nil
	case 3: // it has a value that cannot be stored in a state
		if after.IsNull() {
			return provider.ApplyResponse{Object: cty.True}, nil
		}
		vals := after.AsValueMap()
		vals["size"] = cty.PositiveInfinity
		return provider.ApplyResponse{Object: cty.ObjectVal(vals)}, nil
	default: // it has neither an object nor an error
		if e.verb == "create" {
			return provider.ApplyResponse{Object: cty.NullVal(thingSchema.Block.ImpliedType())}, nil
		}
		return provider.ApplyResponse{Object: cty.StringVal("done")}, nil
	}
}

// packageOf is the package of every provider.
func packageOf(p addr.Provider) wire.Package { return wire.Package{Source: p.String()} }
