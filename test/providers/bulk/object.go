package bulk

import (
	"math/big"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// object has the attributes of an object of bulk_item; it is nil for null.
type object map[string]tftypes.Value

func decode(dv *tfprotov6.DynamicValue) (object, error) {
	if dv == nil {
		return nil, nil
	}
	v, err := dv.Unmarshal(itemType)
	if err != nil || v.IsNull() {
		return nil, err
	}
	var o object
	return o, v.As((*map[string]tftypes.Value)(&o))
}

func (o object) encode() (*tfprotov6.DynamicValue, error) {
	v := tftypes.NewValue(itemType, nil)
	if o != nil {
		v = tftypes.NewValue(itemType, map[string]tftypes.Value(o))
	}
	dv, err := tfprotov6.NewDynamicValue(itemType, v)
	return &dv, err
}

// text returns a text; it is empty for null and for unknown texts.
func (o object) text(name string) string {
	var s string
	if v := o[name]; v.IsNull() || !v.IsKnown() || v.As(&s) != nil {
		return ""
	}
	return s
}

// same reports whether all attributes are those of another object.
func (o object) same(other object) bool {
	for name, v := range o {
		if !v.Equal(other[name]) {
			return false
		}
	}
	return true
}

// unknown makes attributes unknown.
func (o object) unknown(names ...string) {
	for _, name := range names {
		o[name] = tftypes.NewValue(o[name].Type(), tftypes.UnknownValue)
	}
}

// whole returns a number without its fraction; it is 0 for null and for unknown numbers.
func (o object) whole(name string) int64 {
	var f big.Float
	if v := o[name]; v.IsNull() || !v.IsKnown() || v.As(&f) != nil {
		return 0
	}
	n, _ := f.Int64()
	return n
}

// entry begins a call's line in the record.
func (o object) entry(op record.Op) record.Entry {
	return record.Entry{Op: op, Type: typeName, Name: o.text("name"), ID: o.text("id")}
}

// script reads the durations.
func (o object) script() act.Script {
	last := make(map[record.Op]time.Duration, len(timed))
	for _, op := range timed {
		last[op] = time.Duration(o.whole(string(op)+"_ms")) * time.Millisecond
	}
	return act.Script{Last: last}
}

// stored returns the attributes that the cloud stores.
func (o object) stored() map[string]any {
	if o["value"].IsNull() {
		return nil
	}
	return map[string]any{"value": o.text("value")}
}

// inCloud returns the attributes of the object that the cloud has.
func (o object) inCloud() cloud.Object {
	return cloud.Object{Type: typeName, Name: o.text("name"), ID: o.text("id"), IP: o.text("ip"),
		Revision: o.whole("revision"), Attributes: o.stored()}
}

// with returns the object with the cloud's attributes. The cloud does not have the durations.
func (o object) with(found cloud.Object) object {
	all := object{}
	for name, v := range o {
		all[name] = v
	}
	all["name"] = tftypes.NewValue(tftypes.String, found.Name)
	all["value"] = tftypes.NewValue(tftypes.String, nil)
	if text, ok := found.Attributes["value"].(string); ok {
		all["value"] = tftypes.NewValue(tftypes.String, text)
	}
	all["id"] = tftypes.NewValue(tftypes.String, found.ID)
	all["ip"] = tftypes.NewValue(tftypes.String, found.IP)
	all["revision"] = tftypes.NewValue(tftypes.Number, found.Revision)
	return all
}
