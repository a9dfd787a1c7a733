package operation_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// cloud is a provider whose objects are kept in memory. It offers the resource type fake_thing, whose name cannot be
// changed and whose size can, and the data source fake_lookup,
// which does not find "nothing".
type cloud struct {
	provider.Provider // methods that are not faked panic

	// onCreate is called, if it is not nil, before an object is created, outside the lock. If it returns an error, the
	// creation fails; half says that the object exists nevertheless.
	onCreate func(ctx context.Context, name string) (half bool, err error)

	// onSchemas is called, if it is not nil, before the schemas are returned.
	onSchemas func()

	// takesMeta offers provider_meta blocks with the argument "module"; metas has the received values.
	takesMeta bool

	// onApply is called, if it is not nil, before each change. If it returns an error, the change fails, and nothing was
	// changed.
	onApply func(what string) error

	// lists has objects of the type fake_listed, if it is not nil.
	lists *catalogue

	// sends has the action fake_send, if it is not nil.
	sends *post

	// warns makes the validation of a note that is "strange" warn.
	warns bool

	// onRead is called, if it is not nil, before an object is read. If it returns an error, the read fails.
	onRead func(name string) error

	mu      sync.Mutex // guards all below
	made    int
	objects map[string]cty.Value // by id
	log     []string             // the changes, in order
	asked   []string             // the reads and plans
	metas   []string             // the requests with the name of the module, in order; see takesMeta
	stopped chan struct{}        // closed by Stop
}

func newCloud() *cloud {
	return &cloud{objects: map[string]cty.Value{}, stopped: make(chan struct{})}
}

// done returns the operations since its last call, in order.
func (c *cloud) done() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.log
	c.log = nil
	return out
}

var thing = schema.Schema{Version: 1, Block: &schema.Block{Attributes: map[string]*schema.Attribute{
	"id":     {Type: cty.String, Computed: true},
	"name":   {Type: cty.String, Required: true},
	"size":   {Type: cty.Number, Optional: true},
	"note":   {Type: cty.String, Optional: true},
	"secret": {Type: cty.String, Optional: true, Sensitive: true},
}}}

var lookup = schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
	"key":   {Type: cty.String, Required: true},
	"value": {Type: cty.String, Computed: true},
}}}

var token = schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
	"name":  {Type: cty.String, Required: true},
	"value": {Type: cty.String, Computed: true},
}}}

var cloudSchemas = &provider.Schemas{
	Provider: schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"token": {Type: cty.String, Optional: true},
	}}},
	Managed:         map[string]schema.Schema{"fake_thing": thing},
	Data:            map[string]schema.Schema{"fake_lookup": lookup},
	Ephemeral:       map[string]schema.Schema{"fake_token": token},
	ProtocolVersion: 6,
}

func (c *cloud) Schemas(context.Context) (*provider.Schemas, diag.List) {
	if c.onSchemas != nil {
		c.onSchemas()
	}
	if c.lists != nil {
		return c.lists.with(cloudSchemas), nil
	}
	if c.sends != nil {
		with := *cloudSchemas
		with.Actions = map[string]schema.Schema{"fake_send": sendConfig}
		return &with, nil
	}
	if !c.takesMeta {
		return cloudSchemas, nil
	}
	with := *cloudSchemas
	with.ProviderMeta.Block = &schema.Block{Attributes: map[string]*schema.Attribute{
		"module": {Type: cty.String, Optional: true},
	}}
	return &with, nil
}

// told records the provider_meta value of a call.
func (c *cloud) told(what string, meta cty.Value) {
	if !c.takesMeta {
		return
	}
	name := "nobody"
	if !meta.IsNull() {
		name = meta.GetAttr("module").AsString()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metas = append(c.metas, what+" for "+name)
}

func (c *cloud) Metadata(context.Context) (provider.Metadata, diag.List) {
	return cloudSchemas.Metadata(), nil
}

func (c *cloud) ValidateProviderConfig(_ context.Context, v cty.Value) (cty.Value, diag.List) {
	return v, nil
}

func (c *cloud) Configure(_ context.Context, config cty.Value, _ string) diag.List {
	if v := config.GetAttr("token"); v.IsKnown() && !v.IsNull() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.log = append(c.log, "configure with "+v.AsString())
	}
	return nil
}

func (c *cloud) ValidateEphemeralConfig(context.Context, string, cty.Value) diag.List { return nil }

// OpenEphemeral opens a token, unless its name is "locked".
func (c *cloud) OpenEphemeral(_ context.Context, _ string, config cty.Value) (provider.Opened, diag.List) {
	name := config.GetAttr("name").AsString()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, "open "+name)
	if name == "locked" {
		return provider.Opened{}, diag.Errors("refused", "it is locked", nil)
	}
	return provider.Opened{
		Object: cty.ObjectVal(map[string]cty.Value{"name": config.GetAttr("name"),
			"value": cty.StringVal("token of " + name)}), Private: []byte(name),
	}, nil
}

func (c *cloud) CloseEphemeral(_ context.Context, _ string, private []byte) diag.List {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, "close "+string(private))
	return nil
}

// ImportResourceState finds an object by its ID.
func (c *cloud) ImportResourceState(_ context.Context, r provider.ImportRequest) ([]provider.Imported, diag.List) {
	if c.onRead != nil {
		if err := c.onRead(r.ID); err != nil {
			return nil, diag.Errors(err.Error(), "", nil)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[r.ID]
	if !ok {
		return nil, diag.Errors("not found", "there is no object of that ID", nil)
	}
	return []provider.Imported{{TypeName: r.TypeName, Object: o}}, nil
}

// ValidateResourceConfig refuses a note that is "invalid".
func (c *cloud) ValidateResourceConfig(_ context.Context, _ string, v cty.Value) diag.List {
	if !v.Type().HasAttribute("note") {
		return nil
	}
	if note := v.GetAttr("note"); note.IsKnown() && !note.IsNull() && note.AsString() == "invalid" {
		return diag.Errors("Invalid note", "The provider does not take it.", nil)
	} else if c.warns && note.IsKnown() && !note.IsNull() && note.AsString() == "strange" {
		return diag.List{diag.New(diag.Warning, "Strange note", "The provider takes it.", nil)}
	}
	return nil
}

func (c *cloud) ValidateDataConfig(context.Context, string, cty.Value) diag.List { return nil }

func (c *cloud) UpgradeResourceState(_ context.Context, r provider.UpgradeRequest) (cty.Value, diag.List) {
	v, err := ctyjson.Unmarshal(r.JSON, thing.Block.ImpliedType())
	if err != nil {
		return cty.NilVal, diag.Errors("upgrade failed", err.Error(), nil)
	}
	return v, nil
}

func (c *cloud) ReadResource(_ context.Context, r provider.ReadRequest) (provider.ReadResponse, diag.List) {
	c.told("read "+r.Prior.GetAttr("name").AsString(), r.ProviderMeta)
	if c.onRead != nil {
		if err := c.onRead(r.Prior.GetAttr("name").AsString()); err != nil {
			return provider.ReadResponse{}, diag.Errors(err.Error(), "", nil)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, "read "+r.Prior.GetAttr("name").AsString())
	found, ok := c.objects[r.Prior.GetAttr("id").AsString()]
	if !ok {
		found = cty.NullVal(r.Prior.Type())
	}
	return provider.ReadResponse{Object: found, Private: r.Private}, nil
}

func (c *cloud) PlanResourceChange(_ context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	if c.takesMeta { // names are known then
		c.told("plan to "+deed(provider.ApplyRequest{Prior: r.Prior, Planned: r.Proposed}), r.ProviderMeta)
	}
	out := provider.PlanResponse{Planned: r.Proposed}
	if r.Proposed.IsNull() {
		return out, nil
	}
	c.mu.Lock()
	if name := r.Proposed.GetAttr("name"); name.IsKnown() {
		c.asked = append(c.asked, "plan "+name.AsString())
	}
	c.mu.Unlock()
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

func (c *cloud) ApplyResourceChange(ctx context.Context, r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
	c.told(deed(r), r.ProviderMeta)
	if c.onApply != nil {
		if err := c.onApply(deed(r)); err != nil {
			return provider.ApplyResponse{Object: r.Prior}, diag.Errors("refused", err.Error(), nil)
		}
	}
	switch {
	case r.Prior.IsNull():
		return c.create(ctx, r.Planned)
	case r.Planned.IsNull():
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.objects, r.Prior.GetAttr("id").AsString())
		c.log = append(c.log, "delete "+r.Prior.GetAttr("name").AsString())
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.objects[r.Prior.GetAttr("id").AsString()] = r.Planned
		c.log = append(c.log, "update "+r.Prior.GetAttr("name").AsString())
	}
	return provider.ApplyResponse{Object: r.Planned}, nil
}

// deed returns the requested action and the name of its object.
func deed(r provider.ApplyRequest) string {
	switch {
	case r.Prior.IsNull():
		return "create " + r.Planned.GetAttr("name").AsString()
	case r.Planned.IsNull():
		return "delete " + r.Prior.GetAttr("name").AsString()
	}
	return "update " + r.Prior.GetAttr("name").AsString()
}

func (c *cloud) create(ctx context.Context, planned cty.Value) (provider.ApplyResponse, diag.List) {
	vals := planned.AsValueMap()
	name := vals["name"].AsString()
	var half bool
	var err error
	if c.onCreate != nil {
		half, err = c.onCreate(ctx, name)
	}
	if err != nil && !half {
		return provider.ApplyResponse{Object: cty.NullVal(planned.Type())}, diag.Errors("creation refused",
			err.Error(), nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	id := fmt.Sprintf("id%d", c.made)
	vals["id"] = cty.StringVal(id)
	c.objects[id] = cty.ObjectVal(vals)
	c.log = append(c.log, "create "+name)
	if err != nil {
		return provider.ApplyResponse{Object: c.objects[id]}, diag.Errors("creation incomplete", err.Error(), nil)
	}
	return provider.ApplyResponse{Object: c.objects[id]}, nil
}

func (c *cloud) ReadDataSource(_ context.Context, _ string, config, meta cty.Value) (cty.Value, diag.List) {
	key := config.GetAttr("key").AsString()
	c.told("look up", meta)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, "look up "+key)
	if key == "nothing" {
		return cty.NilVal, diag.Errors("not found", "there is nothing of that key", nil)
	}
	return cty.ObjectVal(map[string]cty.Value{"key": config.GetAttr("key"), "value": cty.StringVal("value of " + key)}),
		nil
}

func (c *cloud) Stop(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.stopped:
	default:
		close(c.stopped)
	}
	return nil
}

// names returns the names of the existing objects, sorted.
func (c *cloud) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, o := range c.objects {
		out = append(out, o.GetAttr("name").AsString())
	}
	slices.Sort(out)
	return out
}

// remove deletes an object outside of the engine.
func (c *cloud) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, o := range c.objects {
		if o.GetAttr("name").AsString() == name {
			delete(c.objects, id)
		}
	}
}
