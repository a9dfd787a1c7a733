// Package outline reads large documents (plans and states) once, as a stream, and keeps for each object the
// data for lists and trees, and the position of its JSON in the document.
//
// So a page can show one of a hundred thousand objects without reading the others. The package has no knowledge
// of files or rights. Values of attributes are never part of an outline.
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

// Version is the version of the format of outlines; those in another format are made again.
const Version = 1

// Object is the entry of an object in an outline.
type Object struct {
	// Address is the full address; Module is the path of its module, empty for the root module.
	Address, Module string
	// Mode is "managed" or "data".
	Mode, Type string
	// Action is the action in a plan: create, read, update, delete, replace, forget, move, import, no-op; empty
	// in a state.
	Action string
	// Reason is the reason of the action, in the words of the document; empty for none.
	Reason string
	// Start and Size are the position of the object's JSON in the document, in bytes.
	Start, Size int64
	// Sum is a digest of the object in a state.
	Sum uint64
	// Since is the version of the state in which the object last changed; empty if that is unknown.
	Since string
}

// Plan is the outline of a plan.
type Plan struct {
	Version int
	// Changes are in the order of the plan; objects without changes are omitted, and counted in Same.
	Changes, Drift []Object
	Same           int
	// Outputs are the changes of output values in the redacted document, if they are not too large.
	Outputs []byte
	// Masks are the sensitive attributes according to the schemas.
	Masks Masks
}

// State is the outline of a state.
type State struct {
	Version int
	Objects []Object // in the order of the document
	// Before is the oldest version that was compared: Since is empty for objects that have not changed since
	// then.
	Before string
}

// Masks are the paths of sensitive attributes by mode and type, as in "managed aws_db_instance". For a type
// that is missing, the sensitive attributes are unknown.
type Masks map[string][]string

// Encode encodes an outline for storage.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseArrayEncodedStructs(true)
	err := e.Encode(v)
	return b.Bytes(), err
}

// ErrVersion means that an outline must be made again.
var ErrVersion = errors.New("the outline has another form")

// DecodePlan decodes the outline of a plan.
func DecodePlan(data []byte) (*Plan, error) {
	p := new(Plan)
	err := msgpack.Unmarshal(data, p)
	if err == nil && p.Version != Version {
		err = ErrVersion
	}
	return p, err
}

// DecodeState decodes the outline of a state.
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
