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
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/service/skim"
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

// ReadPlan makes the outline of a redacted plan.
func ReadPlan(r io.Reader) (*Plan, error) {
	d := skim.New(r)
	p := &Plan{Version: Version, Masks: Masks{}}
	return p, d.Members(func(key string) (err error) {
		switch key {
		case "resource_changes":
			p.Changes, err = p.changes(d, true)
		case "resource_drift":
			p.Drift, err = p.changes(d, false)
		case "millipede_unchanged": // of documents that do not list them
			var n int
			err = d.Decode(&n)
			p.Same += n
		case "output_changes":
			var raw []byte
			if raw, _, err = d.Raw(); len(raw) <= maxOutputs {
				p.Outputs = bytes.Clone(raw)
			}
		case "provider_schemas":
			err = d.Members(func(string) error { return p.Masks.read(d) })
		default:
			err = d.Skip()
		}
		return err
	})
}

func (p *Plan) changes(d *skim.Reader, counted bool) (out []Object, err error) {
	return out, d.Elements(func() error {
		raw, start, err := d.Raw()
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
	d := skim.New(r)
	s := &State{Version: Version}
	return s, d.Members(func(key string) error {
		if key != "resources" {
			return d.Skip()
		}
		return d.Elements(func() error { return s.resource(d) })
	})
}

// resource reads a resource with its instances, in whichever order it says what it is.
func (s *State) resource(d *skim.Reader) error {
	var name string
	of := Object{Mode: "managed"}
	first := len(s.Objects)
	var keys []string
	err := d.Members(func(key string) (err error) {
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
			return d.Elements(func() error {
				raw, start, err := d.Raw()
				if err != nil {
					return err
				}
				key, sum, err := instance(d.Within(raw))
				keys = append(keys, key)
				s.Objects = append(s.Objects, Object{Start: start, Size: int64(len(raw)), Sum: sum})
				return err
			})
		}
		return d.Skip()
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

// instance returns the text of an instance's key, and a digest of what it says of its object, however that is laid out.
func instance(d *skim.Reader) (text string, sum uint64, err error) {
	var key any
	deposed := ""
	var parts [3][]byte // as counted
	err = d.Members(func(name string) (err error) {
		switch i := slices.Index(counted, name); {
		case i >= 0:
			parts[i], _, err = d.Raw() // within a value nothing is moved
			return err
		case name == "index_key":
			return d.Decode(&key)
		case name == "deposed":
			return d.Decode(&deposed)
		}
		return d.Skip()
	})
	if err != nil {
		return "", 0, err
	}
	h := fnv.New64a()
	var b []byte
	for i, name := range counted {
		b = skim.Compact(append(b[:0], name...), parts[i])
		_, _ = h.Write(b) // never fails
	}
	return keyText(key, deposed), h.Sum64(), nil
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
