package legacy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-cty/cty"
	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// operations are those that the knobs speak of.
var operations = []record.Op{record.Plan, record.Create, record.Read, record.Update, record.Delete}

func optional(t schema.ValueType) *schema.Schema { return &schema.Schema{Type: t, Optional: true} }
func required(t schema.ValueType) *schema.Schema { return &schema.Schema{Type: t, Required: true} }
func computed(t schema.ValueType) *schema.Schema { return &schema.Schema{Type: t, Computed: true} }

// listOf is an optional list or set of texts or numbers.
func listOf(t, elem schema.ValueType) *schema.Schema {
	return &schema.Schema{Type: t, Optional: true, Elem: &schema.Schema{Type: elem}}
}

// item is the resource type legacy_item.
func item() *schema.Resource {
	r := &schema.Resource{
		Description:   "An item.",
		SchemaVersion: 2,
		CreateContext: create, ReadContext: read, UpdateContext: update, DeleteContext: remove,
		CustomizeDiff: customizeDiff,
		Importer:      &schema.ResourceImporter{StateContext: importItem},
		Timeouts: &schema.ResourceTimeout{
			Create: schema.DefaultTimeout(10 * time.Minute), Delete: schema.DefaultTimeout(10 * time.Minute),
		},
		StateUpgraders: []schema.StateUpgrader{
			{Version: 0, Type: older("title"), Upgrade: renamed("title", "label")},
			{Version: 1, Type: older("label"), Upgrade: renamed("label", "name")},
		},
		Schema: map[string]*schema.Schema{
			"name": {Type: schema.TypeString, Required: true, ForceNew: true, Description: "The name; another one " +
				"needs another item."},
			"region": {Type: schema.TypeString, Optional: true, Computed: true, ForceNew: true,
				Description: "The region, by default the provider's."},
			"size": {Type: schema.TypeString, Optional: true, Default: "small",
				Description: "The size, changed in place."},
			"kind": {Type: schema.TypeString, Optional: true, Computed: true, Description: "By default what the " +
				"cloud chooses."},
			"note": {Type: schema.TypeString, Optional: true, Description: "Upper and lower case are the same.",
				DiffSuppressFunc: func(_, before, after string, _ *schema.ResourceData) bool {
					return strings.EqualFold(
						before, after)
				},
			},
			"mangled": {Type: schema.TypeString, Optional: true, Description: "Stored in capitals, whatever was " +
				"planned.",
				DiffSuppressFunc: func(_, before, after string, _ *schema.ResourceData) bool {
					return strings.ToUpper(
						after) == before
				},
			},
			"digest": {Type: schema.TypeString, Optional: true, Description: "The state has it in capitals.",
				StateFunc: func(v any) string { return strings.ToUpper(v.(string)) },
			},
			"blank":   {Type: schema.TypeString, Optional: true, Description: "An empty text where it is not set."},
			"secret":  {Type: schema.TypeString, Optional: true, Sensitive: true},
			"weight":  optional(schema.TypeInt),
			"ratio":   optional(schema.TypeFloat),
			"enabled": {Type: schema.TypeBool, Optional: true, Default: true},
			"old": {Type: schema.TypeString, Optional: true, Deprecated: "Use note instead.",
				ConflictsWith: []string{"note"}},
			"tags":  listOf(schema.TypeMap, schema.TypeString),
			"zones": listOf(schema.TypeList, schema.TypeString),
			"ports": listOf(schema.TypeSet, schema.TypeInt),
			"disk": {Type: schema.TypeList, Optional: true, MaxItems: 3,
				Elem: &schema.Resource{Schema: map[string]*schema.Schema{
					"size":  required(schema.TypeInt),
					"label": optional(schema.TypeString),
					"uuid":  computed(schema.TypeString),
				}}},
			"rule": {Type: schema.TypeSet, Optional: true, Elem: &schema.Resource{Schema: map[string]*schema.Schema{
				"port":     required(schema.TypeInt),
				"protocol": {Type: schema.TypeString, Optional: true, Default: "tcp"},
				"sources":  listOf(schema.TypeSet, schema.TypeString),
			}}},
			"network": {Type: schema.TypeList, Optional: true, ForceNew: true, MinItems: 1, MaxItems: 1,
				Elem: &schema.Resource{Schema: map[string]*schema.Schema{
					"cidr":    {Type: schema.TypeString, Required: true, ForceNew: true},
					"gateway": {Type: schema.TypeString, Optional: true, Computed: true, ForceNew: true},
				}}},
			"route": {Type: schema.TypeList, Optional: true, Computed: true, ConfigMode: schema.SchemaConfigModeAttr,
				Description: "Blocks written as an attribute; without any, one is computed.",
				Elem: &schema.Resource{Schema: map[string]*schema.Schema{
					"to":  optional(schema.TypeString),
					"via": optional(schema.TypeString),
				}},
			},
			"revision": {Type: schema.TypeInt, Computed: true,
				Description: "1 when created, one more with each update."},
			"fingerprint": {Type: schema.TypeString, Computed: true,
				Description: "Unknown in plans that change the size."},
			"times": {Type: schema.TypeInt, Optional: true, Description: "How often each kind of trouble " +
				"happens at each moment; always, if not set."},
		},
	}
	for _, op := range operations {
		r.Schema[string(op)+"_ms"] = &schema.Schema{Type: schema.TypeInt, Optional: true, Description: "How long a " +
			string(op) + " lasts, in milliseconds."}
	}
	for _, kind := range []string{"fail_on", "warn_on", "crash_on", "hang_on"} {
		r.Schema[kind] = &schema.Schema{Type: schema.TypeSet, Optional: true, Elem: &schema.Schema{
			Type: schema.TypeString, ValidateDiagFunc: func(v any, at cty.Path) diag.Diagnostics {
				return diag.FromErr(act.CheckMoments([]string{v.(string)}, operations...))
			},
		}}
	}
	return r
}

// older is the type of an older version's objects, as far as it matters.
func older(name string) cty.Type {
	return cty.Object(map[string]cty.Type{"id": cty.String, name: cty.String, "size": cty.String})
}

// renamed upgrades objects in which an attribute had another name.
func renamed(before, after string) schema.StateUpgradeFunc {
	return func(_ context.Context, raw map[string]any, _ any) (map[string]any, error) {
		raw[after] = raw[before]
		delete(raw, before)
		return raw, nil
	}
}

// getter is the common interface of data and diffs.
type getter interface {
	Get(key string) any
	Id() string
}

// script reads the knobs.
func script(d getter) act.Script {
	s := act.Script{Last: map[record.Op]time.Duration{}, Times: d.Get("times").(int)}
	for _, op := range operations {
		s.Last[op] = time.Duration(d.Get(string(op)+"_ms").(int)) * time.Millisecond
	}
	for knob, moments := range map[string]*[]string{"fail_on": &s.Fail, "warn_on": &s.Warn, "crash_on": &s.Crash,
		"hang_on": &s.Hang} {
		for _, m := range d.Get(knob).(*schema.Set).List() {
			*moments = append(*moments, m.(string))
		}
	}
	return s
}

// customizeDiff records each plan except those of destroys, for which the SDK does not call it, and plans computed
// attributes.
func customizeDiff(ctx context.Context, d *schema.ResourceDiff, meta any) error {
	s, ok := meta.(*site)
	if !ok {
		return nil // not configured: the configuration is only validated
	}
	e := record.Entry{Op: record.Plan, Type: "legacy_item", Name: d.Get("name").(string), ID: d.Id(),
		Region: d.Get("region").(string)}
	if err := s.stage.Do(ctx, e, script(d), nothing); err != nil {
		return fmt.Errorf("the plan failed: %w", err)
	}
	if d.Id() == "" {
		return nil
	}
	if len(d.GetChangedKeysPrefix("")) > 0 {
		if err := d.SetNewComputed("revision"); err != nil {
			return err
		}
	}
	if d.HasChange("size") {
		return d.SetNewComputed("fingerprint")
	}
	return nil
}
