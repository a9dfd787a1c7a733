// Package outline reads large documents, plans and states, once and from front to back, and keeps of each object in
// them what lists and trees show, and where in the document the rest of it lies.
//
// So a page shows one object of a hundred thousand without reading the others. It knows no files and no rights. Values
// of attributes never enter an outline.
package outline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// Version changes when outlines get another form; those with another one are made anew.
const Version = 1

// Object is what an outline has of an object.
type Object struct {
	// Address is whole; Module is the path of the module in it, empty for the root module.
	Address, Module string
	// Mode is "managed" or "data".
	Mode, Type string
	// Action is what a plan does: create, read, update, delete, replace, forget, move, import, no-op; empty in a state.
	Action string
	// Reason is why, in the words of the document; empty for none.
	Reason string
	// Start and Size are where its JSON lies in the document, in bytes.
	Start, Size int64
	// Sum is a digest of all that a state has of the object.
	Sum uint64
	// Since is the version of the state in which it became as it is; empty when that is not known.
	Since string
}

// Plan is the outline of a plan.
type Plan struct {
	Version int
	// Changes are in the order of the plan; those that do nothing are left out, and counted in Same.
	Changes, Drift []Object
	Same           int
	// Outputs are the changes of output values, as the redacted document has them, if they are not too large.
	Outputs []byte
	// Masks say what the schemas make sensitive.
	Masks Masks
}

// State is the outline of a state.
type State struct {
	Version int
	Objects []Object // in the order of the document
	// Before is the version that Since was compared with first: what is as it was there has an empty Since.
	Before string
}

// Masks are the paths of sensitive attributes by mode and type, as in "managed aws_db_instance". A type that is not
// here is not known: nothing says which of its values are sensitive.
type Masks map[string][]string

// Encode and Decode are the form in which outlines are kept.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseArrayEncodedStructs(true)
	err := e.Encode(v)
	return b.Bytes(), err
}

// ErrVersion means that an outline has to be made anew.
var ErrVersion = errors.New("the outline has another form")

// DecodePlan reads what Encode has made of a plan's outline.
func DecodePlan(data []byte) (*Plan, error) {
	p := new(Plan)
	err := msgpack.Unmarshal(data, p)
	if err == nil && p.Version != Version {
		err = ErrVersion
	}
	return p, err
}

// DecodeState reads what Encode has made of a state's outline.
func DecodeState(data []byte) (*State, error) {
	s := new(State)
	err := msgpack.Unmarshal(data, s)
	if err == nil && s.Version != Version {
		err = ErrVersion
	}
	return s, err
}

// maxOutputs is how much of the outputs' changes is kept.
const maxOutputs = 1 << 20

// document reads JSON piece by piece.
type document struct{ *json.Decoder }

// object calls fn for each key of an object, which the decoder stands before; fn reads the value.
func (d document) object(fn func(key string) error) error {
	return d.within('{', func() error {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return fmt.Errorf("the key %v is no text", key)
		}
		return fn(name)
	})
}

// list calls fn for each element of a list, which the decoder stands before; fn reads it.
func (d document) list(fn func() error) error { return d.within('[', fn) }

// within reads what is between delimiters; null counts as empty.
func (d document) within(open json.Delim, fn func() error) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t == nil {
		return nil
	}
	if t != open {
		return fmt.Errorf("there is %v in the place of %v", t, open)
	}
	for d.More() {
		if err := fn(); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// raw reads a value as it stands, and where it begins.
func (d document) raw() (json.RawMessage, int64, error) {
	var raw json.RawMessage
	err := d.Decode(&raw)
	return raw, d.InputOffset() - int64(len(raw)), err
}

func (d document) skip() error {
	_, _, err := d.raw()
	return err
}

// ReadPlan makes the outline of a redacted plan.
func ReadPlan(r io.Reader) (*Plan, error) {
	d := document{json.NewDecoder(r)}
	p := &Plan{Version: Version, Masks: Masks{}}
	return p, d.object(func(key string) (err error) {
		switch key {
		case "resource_changes":
			p.Changes, err = p.changes(d, true)
		case "resource_drift":
			p.Drift, err = p.changes(d, false)
		case "output_changes":
			var raw json.RawMessage
			if raw, _, err = d.raw(); len(raw) <= maxOutputs {
				p.Outputs = raw
			}
		case "provider_schemas":
			err = d.object(func(string) error { return p.Masks.read(d) })
		default:
			err = d.skip()
		}
		return err
	})
}

func (p *Plan) changes(d document, counted bool) (out []Object, err error) {
	return out, d.list(func() error {
		raw, start, err := d.raw()
		if err != nil {
			return err
		}
		var c struct {
			Address  string `json:"address"`
			Previous string `json:"previous_address"`
			Module   string `json:"module_address"`
			Mode     string `json:"mode"`
			Type     string `json:"type"`
			Deposed  string `json:"deposed"`
			Reason   string `json:"action_reason"`
			Change   struct {
				Actions   []string        `json:"actions"`
				Importing json.RawMessage `json:"importing"`
			} `json:"change"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		o := Object{Address: c.Address, Module: c.Module, Mode: c.Mode, Type: c.Type, Reason: c.Reason,
			Action: strings.Join(c.Change.Actions, " "), Start: start, Size: int64(len(raw))}
		switch {
		case o.Action == "delete create" || o.Action == "create delete":
			o.Action = "replace"
		case o.Action == "no-op" && len(c.Change.Importing) > 0:
			o.Action = "import"
		case o.Action == "no-op" && c.Previous != "" && c.Previous != c.Address:
			o.Action = "move"
		}
		if c.Deposed != "" {
			o.Address += " (deposed object " + c.Deposed + ")"
		}
		if counted && o.Action == "no-op" {
			p.Same++
			return nil
		}
		out = append(out, o)
		return nil
	})
}

// ReadState makes the outline of a state in the exchange format. One that is encrypted has no objects.
func ReadState(r io.Reader) (*State, error) {
	d := document{json.NewDecoder(r)}
	s := &State{Version: Version}
	return s, d.object(func(key string) error {
		if key != "resources" {
			return d.skip()
		}
		return d.list(func() error { return s.resource(d) })
	})
}

// resource reads a resource with its instances, in whichever order it says what it is.
func (s *State) resource(d document) error {
	var name string
	of := Object{Mode: "managed"}
	first := len(s.Objects)
	var keys []string
	err := d.object(func(key string) (err error) {
		switch key {
		case "module":
			return d.Decode(&of.Module)
		case "mode":
			return d.Decode(&of.Mode)
		case "type":
			return d.Decode(&of.Type)
		case "name":
			return d.Decode(&name)
		case "instances":
			return d.list(func() error {
				raw, start, err := d.raw()
				if err != nil {
					return err
				}
				var i struct {
					Key     any    `json:"index_key"`
					Deposed string `json:"deposed"`
				}
				if err := json.Unmarshal(raw, &i); err != nil {
					return err
				}
				keys = append(keys, keyText(i.Key, i.Deposed))
				s.Objects = append(s.Objects, Object{Start: start, Size: int64(len(raw)), Sum: sum(raw)})
				return nil
			})
		}
		return d.skip()
	})
	address := of.Type + "." + name
	if of.Mode == "data" {
		address = "data." + address
	}
	if of.Module != "" {
		address = of.Module + "." + address
	}
	for i := range keys {
		o := &s.Objects[first+i]
		o.Address, o.Module, o.Mode, o.Type = address+keys[i], of.Module, of.Mode, of.Type
	}
	return err
}

func keyText(key any, deposed string) string {
	text := ""
	switch k := key.(type) {
	case string:
		text = "[" + strconv.Quote(k) + "]"
	case float64:
		text = "[" + strconv.FormatFloat(k, 'f', -1, 64) + "]"
	}
	if deposed != "" {
		text += " (deposed object " + deposed + ")"
	}
	return text
}

// counted are the parts of an instance that say what the object is. The others say how the engine sees it.
var counted = []string{"attributes", "attributes_flat", "status"}

// sum is a digest of what an instance says of its object, however that is laid out.
func sum(raw json.RawMessage) uint64 {
	var parts map[string]json.RawMessage
	h := fnv.New64a()
	if json.Unmarshal(raw, &parts) != nil {
		_, _ = h.Write(raw) // never fails
		return h.Sum64()
	}
	var b bytes.Buffer
	for _, name := range counted {
		b.WriteString(name)
		if part := parts[name]; part != nil && json.Compact(&b, part) != nil {
			b.Write(part)
		}
	}
	_, _ = h.Write(b.Bytes()) // never fails
	return h.Sum64()
}

// Follow fills in since when each object is as it is: as in the version before, where it is the same there, and from
// this version on otherwise. before is nil where the version is the first that is known.
func (s *State) Follow(this string, before *State, beforeID string) {
	if before == nil {
		s.Before = this
		return // since when they are as they are is not known
	}
	was := make(map[string]*Object, len(before.Objects))
	for i := range before.Objects {
		was[before.Objects[i].Address] = &before.Objects[i]
	}
	if s.Before = before.Before; s.Before == "" {
		s.Before = beforeID
	}
	for i := range s.Objects {
		o := &s.Objects[i]
		if old := was[o.Address]; old != nil && old.Sum == o.Sum {
			o.Since = old.Since
		} else {
			o.Since = this
		}
	}
}
