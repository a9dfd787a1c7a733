package legacy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

const typeName = "legacy_item"

// do records a call and reports its result.
func do(ctx context.Context, d *schema.ResourceData, meta any, op record.Op, effect func(*site, *record.Entry) error) (
	diags diag.Diagnostics) {
	s, knobs := meta.(*site), script(d)
	e := record.Entry{Op: op, Type: typeName, Name: d.Get("name").(string), ID: d.Id(),
		Region: d.Get("region").(string)}
	err := s.stage.Do(ctx, e, knobs, func(e *record.Entry) error { return effect(s, e) })
	if knobs.Warns(op) {
		diags = append(diags, diag.Diagnostic{Severity: diag.Warning, Summary: "Warned as told",
			Detail: fmt.Sprintf("The %s was told to warn.", op)})
	}
	if err != nil {
		diags = append(diags, diag.Diagnostic{Severity: diag.Error, Summary: fmt.Sprintf("The %s failed", op),
			Detail: err.Error()})
	}
	return diags
}

func create(ctx context.Context, d *schema.ResourceData, meta any) diag.Diagnostics {
	return do(ctx, d, meta, record.Create, func(s *site, e *record.Entry) error {
		if e.Region == "" {
			e.Region = s.region
		}
		o, err := s.stage.Cloud.Create(typeName, e.Name, e.Region, attributes(d))
		if err != nil {
			return err
		}
		e.ID = o.ID
		d.SetId(o.ID)
		return settle(d, o)
	})
}

func read(ctx context.Context, d *schema.ResourceData, meta any) diag.Diagnostics {
	return do(ctx, d, meta, record.Read, func(s *site, _ *record.Entry) error {
		o, err := s.stage.Cloud.Refresh(last(d))
		if errors.Is(err, cloud.ErrGone) {
			d.SetId("")
			return nil
		}
		if err != nil {
			return err
		}
		return settle(d, o)
	})
}

// update keeps the old object in the state if it fails before the effect.
func update(ctx context.Context, d *schema.ResourceData, meta any) diag.Diagnostics {
	d.Partial(true)
	return do(ctx, d, meta, record.Update, func(s *site, _ *record.Entry) error {
		o, err := s.stage.Cloud.Update(last(d), attributes(d))
		if err != nil {
			return err
		}
		d.Partial(false)
		return settle(d, o)
	})
}

func remove(ctx context.Context, d *schema.ResourceData, meta any) diag.Diagnostics {
	return do(ctx, d, meta, record.Delete, func(s *site, e *record.Entry) error {
		if err := s.stage.Cloud.Delete(typeName, e.ID); err != nil && !errors.Is(err, cloud.ErrGone) {
			return err
		}
		return nil
	})
}

// importItem finds an item by its id. Read, which follows, fills it in.
func importItem(ctx context.Context, d *schema.ResourceData, meta any) ([]*schema.ResourceData, error) {
	s := meta.(*site)
	e := record.Entry{Op: record.Import, Type: typeName, ID: d.Id()}
	err := s.stage.Do(ctx, e, act.Script{}, func(e *record.Entry) error {
		o, err := s.stage.Cloud.Get(typeName, e.ID)
		if err != nil {
			return err
		}
		e.Name, e.Region = o.Name, o.Region
		return settle(d, o)
	})
	return []*schema.ResourceData{d}, err
}

// last returns the item as in the state.
func last(d *schema.ResourceData) cloud.Object {
	return cloud.Object{
		Type: typeName, Name: d.Get("name").(string), ID: d.Id(), Region: d.Get("region").(string),
		Revision: int64(d.Get("revision").(int)), Attributes: attributes(d),
	}
}

// attributes returns the attributes of an item that the cloud stores.
func attributes(d *schema.ResourceData) map[string]any {
	kept := map[string]any{}
	for _, key := range []string{"size", "kind", "note", "mangled", "weight", "enabled", "tags"} {
		kept[key] = d.Get(key)
	}
	return kept
}

// settle takes an object's properties over and computes the rest. Unset texts become empty ones, as the old type
// system likes it.
func settle(d *schema.ResourceData, o cloud.Object) error {
	kind, _ := o.Attributes["kind"].(string)
	if kind == "" {
		kind = "plain"
	}
	mangled, _ := o.Attributes["mangled"].(string)
	values := map[string]any{
		"name": o.Name, "region": o.Region, "revision": int(o.Revision), "kind": kind,
		"mangled": strings.ToUpper(mangled),
		"size":    o.Attributes["size"], "note": o.Attributes["note"], "weight": o.Attributes["weight"],
		"enabled": o.Attributes["enabled"], "tags": o.Attributes["tags"],
		"blank": d.Get("blank"), "fingerprint": digest(o.ID, o.Attributes["size"]),
	}
	if weight, ok := values["weight"].(float64); ok { // from JSON
		values["weight"] = int(weight)
	}
	if disks := d.Get("disk").([]any); len(disks) > 0 {
		for i, disk := range disks {
			disk.(map[string]any)["uuid"] = digest(o.ID, i)
		}
		values["disk"] = disks
	}
	if networks := d.Get("network").([]any); len(networks) > 0 {
		network := networks[0].(map[string]any)
		if network["gateway"] == "" {
			network["gateway"] = "10.0.0.1"
		}
		values["network"] = networks
	}
	if len(d.Get("route").([]any)) == 0 {
		values["route"] = []any{map[string]any{"to": "0.0.0.0/0", "via": "default"}}
	}
	for key, value := range values {
		if err := d.Set(key, value); err != nil {
			return fmt.Errorf("setting %s: %w", key, err)
		}
	}
	return nil
}

// digest returns 8 hexadecimal digits that are derived from the input.
func digest(of ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, of...))
	return hex.EncodeToString(sum[:4])
}

// lookup is the data source legacy_lookup: an item by its name.
func lookup() *schema.Resource {
	return &schema.Resource{
		Description: "The item with a name.",
		Schema: map[string]*schema.Schema{
			"name":   required(schema.TypeString),
			"size":   computed(schema.TypeString),
			"tags":   {Type: schema.TypeMap, Computed: true, Elem: &schema.Schema{Type: schema.TypeString}},
			"region": computed(schema.TypeString),
			"items":  computed(schema.TypeInt),
		},
		ReadContext: func(ctx context.Context, d *schema.ResourceData, meta any) diag.Diagnostics {
			s := meta.(*site)
			e := record.Entry{Op: record.Lookup, Type: "legacy_lookup", Name: d.Get("name").(string)}
			return diag.FromErr(s.stage.Do(ctx, e, act.Script{}, func(e *record.Entry) error {
				items, err := s.stage.Cloud.ByName(typeName, e.Name)
				if err != nil {
					return err
				}
				if len(items) == 0 {
					return fmt.Errorf("there is no item %q", e.Name)
				}
				o := items[0]
				e.ID, e.Region = o.ID, o.Region
				d.SetId(o.ID)
				return errors.Join(
					d.Set("size", o.Attributes["size"]), d.Set("tags", o.Attributes["tags"]),
					d.Set("region", o.Region), d.Set("items", len(items)),
				)
			}))
		},
	}
}
