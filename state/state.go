// Package state models the state: resource instance objects, outputs, check results; and the changes from one state
// to the next.
//
// It does no I/O: state/bolt stores it, state/tfstate implements the exchange format, state/journal records the
// events of a run. An Object is immutable once it is in a State; changes replace it as a whole.
package state

import (
	"iter"
	"maps"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
)

// Status is the status of an object.
type Status byte

const (
	// Ready objects are complete.
	Ready Status = 'R'
	// Tainted objects exist but must be replaced.
	Tainted Status = 'T'
	// InDoubt objects are the subject of an operation with an unknown outcome, which Object.Doubt describes.
	InDoubt Status = 'D'
)

// Object is one remote object as last read. Immutable.
type Object struct {
	Status        Status
	SchemaVersion int64
	// Attrs is the JSON of the value by the schema of SchemaVersion; Flatmap is the form of engines before 0.12,
	// which is kept until the object is upgraded. Exactly one is set, except for an object in doubt that was never
	// read, which has neither.
	Attrs   []byte
	Flatmap map[string]string
	// Sensitive are the paths of values that configuration (not only the schema) made sensitive.
	Sensitive []cty.Path
	// Private is the provider's opaque private data.
	Private []byte
	// Identity is the JSON of the identity object; nil if there is none.
	Identity        []byte
	IdentityVersion int64
	// Dependencies are the resources that this object must outlive; nil for none.
	Dependencies        *Dependencies
	CreateBeforeDestroy bool
	// SkipDestroy records lifecycle.destroy = false.
	SkipDestroy bool
	Doubt       *Doubt
}

// BeforeDoubt returns the object before the operation in doubt, or o itself if it is not in doubt. If the object
// did not exist, because the operation was to create it, the result has no attributes.
func (o *Object) BeforeDoubt() *Object {
	if o == nil || o.Status != InDoubt {
		return o
	}
	was := *o
	was.Status, was.Doubt = Ready, nil
	if o.Doubt != nil && o.Doubt.Before != 0 {
		was.Status = o.Doubt.Before
	}
	return &was
}

// Doubt describes an operation with an unknown outcome.
type Doubt struct {
	Run       string    `json:"run"`
	Attempt   string    `json:"attempt"`
	Worker    string    `json:"worker,omitempty"`
	Pool      string    `json:"pool,omitempty"`
	Operation string    `json:"operation"` // create, update or delete
	Started   time.Time `json:"started"`
	Reason    string    `json:"reason,omitempty"`
	// Sent is the JSON of the planned object in the request, without sensitive values.
	Sent []byte `json:"sent,omitempty"`
	// Before is the status of the object before the operation.
	Before Status `json:"before,omitempty"`
	// Answer is the readable part of the provider's answer, if there was one that cannot be stored.
	Answer *Answer `json:"answer,omitempty"`
}

// Answer is the readable part of an object in a provider's answer that the state cannot store.
type Answer struct {
	// Known is the JSON of those of its attributes that could be decoded and may be shown.
	Known []byte `json:"known,omitempty"`
	// Private is the provider's private data of the object.
	Private []byte `json:"private,omitempty"`
	// Raw is the beginning of the encoded object as received; it may contain secrets.
	Raw []byte `json:"raw,omitempty"`
}

// DeposedKey identifies a deposed object of an instance: eight hex digits. The empty key means the current object.
type DeposedKey string

// CurrentObject is the key of the current object.
const CurrentObject DeposedKey = ""

// Instance is the content of the state for one resource instance. Immutable once it is in a State: changes replace
// it.
type Instance struct {
	Current *Object
	Deposed map[DeposedKey]*Object
	// ProviderKey is the key of the provider configuration's instance (for_each on a provider block).
	ProviderKey addr.Key
	// ProviderModule is the module instance of the provider configuration.
	ProviderModule addr.ModuleInstance
}

// Resource is the content of the state for a resource in one module instance. It is modified only by changes of its
// State.
type Resource struct {
	Provider  addr.ProviderConfig
	Instances map[addr.Key]*Instance
	// shared is set if several states share it: it is copied before it is modified.
	shared atomic.Bool
}

// Output is a root module output value.
type Output struct {
	// Value is unmarked; Sensitive says whether it is sensitive.
	Value      cty.Value
	Sensitive  bool
	Deprecated string
}

// CheckStatus is the outcome of a check.
type CheckStatus string

// The outcomes, in the words of the state format.
const (
	CheckUnknown CheckStatus = "unknown"
	CheckPass    CheckStatus = "pass"
	CheckFail    CheckStatus = "fail"
	CheckError   CheckStatus = "error"
)

// DeposedKeys returns the keys of the deposed objects, sorted.
func (i *Instance) DeposedKeys() []DeposedKey { return slices.Sorted(maps.Keys(i.Deposed)) }

// CheckResult is the aggregate outcome of the conditions of one object (all its instances).
type CheckResult struct {
	Kind    string        `json:"kind"`   // resource, output_value, check, input_variable
	Config  string        `json:"config"` // static address
	Status  CheckStatus   `json:"status"`
	Objects []CheckObject `json:"objects,omitempty"`
}

// CheckObject is the outcome for one instance.
type CheckObject struct {
	Address  string      `json:"address"`
	Status   CheckStatus `json:"status"`
	Failures []string    `json:"failures,omitempty"`
}

// State is the state of one workspace. Not safe for concurrent use while it is modified.
type State struct {
	// Lineage identifies the history to which Serial belongs. Empty in a state that was never stored.
	Lineage       string
	Serial        uint64
	EngineVersion string
	Resources     map[addr.AbsResource]*Resource
	Outputs       map[string]*Output
	Checks        []CheckResult
}

// Empty returns an empty state.
func Empty() *State {
	return &State{Resources: map[addr.AbsResource]*Resource{}, Outputs: map[string]*Output{}}
}

// IsEmpty reports whether there is neither a resource nor an output.
func (s *State) IsEmpty() bool { return len(s.Resources) == 0 && len(s.Outputs) == 0 }

// Instance returns an instance, or nil.
func (s *State) Instance(a addr.Instance) *Instance {
	r := s.Resources[a.Abs()]
	if r == nil {
		return nil
	}
	return r.Instances[a.Key]
}

// Object returns the current or a deposed object, or nil.
func (s *State) Object(a addr.Instance, key DeposedKey) *Object {
	i := s.Instance(a)
	if i == nil {
		return nil
	}
	if key == CurrentObject {
		return i.Current
	}
	return i.Deposed[key]
}

// ProviderOf returns the provider instance of an instance's objects.
func (s *State) ProviderOf(a addr.Instance) addr.ProviderInstance {
	r := s.Resources[a.Abs()]
	if r == nil {
		return addr.ProviderInstance{}
	}
	p := r.Provider.Instance(r.Provider.Module.Unkeyed(), addr.NoKey)
	if i := r.Instances[a.Key]; i != nil {
		p.Key = i.ProviderKey
		if !i.ProviderModule.IsRoot() {
			p.Module = i.ProviderModule
		}
	}
	return p
}

// Addrs returns the addresses of all instances, sorted as OpenTofu lists them.
func (s *State) Addrs() []addr.Instance {
	n := 0
	for _, r := range s.Resources {
		n += len(r.Instances)
	}
	out := make([]addr.Instance, 0, n)
	for _, r := range s.SortedResources() {
		keys := make([]addr.Key, 0, len(s.Resources[r].Instances))
		for k := range s.Resources[r].Instances {
			keys = append(keys, k)
		}
		sort.Slice(keys, func(i, j int) bool { return keys[i].Less(keys[j]) })
		for _, k := range keys {
			out = append(out, r.Instance(k))
		}
	}
	return out
}

// SortedResources returns the addresses of the resources, sorted as OpenTofu lists them.
func (s *State) SortedResources() []addr.AbsResource {
	out := make([]addr.AbsResource, 0, len(s.Resources))
	for a := range s.Resources {
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Less(out[j]) })
	return out
}

// Doubts yields the operations in doubt, in no particular order.
func (s *State) Doubts() iter.Seq[*Doubt] {
	return func(yield func(*Doubt) bool) {
		for _, r := range s.Resources {
			for _, i := range r.Instances {
				if o := i.Current; o != nil && o.Status == InDoubt && o.Doubt != nil && !yield(o.Doubt) {
					return
				}
				for _, o := range i.Deposed {
					if o.Status == InDoubt && o.Doubt != nil && !yield(o.Doubt) {
						return
					}
				}
			}
		}
	}
}

// Doubted returns the instances that have an object in doubt, in order. Mostly there are none, so only these are
// sorted.
func (s *State) Doubted() []addr.Instance {
	var out []addr.Instance
	for abs, r := range s.Resources {
		for k, i := range r.Instances {
			doubted := i.Current != nil && i.Current.Status == InDoubt
			for _, o := range i.Deposed {
				doubted = doubted || o.Status == InDoubt
			}
			if doubted {
				out = append(out, abs.Instance(k))
			}
		}
	}
	return addr.SortedInstances(out)
}

// Clone returns a copy; either can be modified without affecting the other. Resources are shared until they are
// modified: the cost is proportional to the number of resources, and that of the first change of one to its
// instances.
func (s *State) Clone() *State {
	c := *s
	c.Resources, c.Outputs, c.Checks = maps.Clone(s.Resources), maps.Clone(s.Outputs), slices.Clone(s.Checks)
	if c.Resources == nil {
		c.Resources = map[addr.AbsResource]*Resource{}
	}
	if c.Outputs == nil {
		c.Outputs = map[string]*Output{}
	}
	for _, r := range c.Resources {
		r.shared.Store(true)
	}
	return &c
}

// Own returns a resource that no other state shares, adding it if necessary, for code that builds a state piece by
// piece. Other code uses Apply.
func (s *State) Own(a addr.AbsResource) *Resource {
	r := s.own(a)
	if r == nil {
		r = &Resource{Instances: map[addr.Key]*Instance{}}
		s.Resources[a] = r
	}
	return r
}

// own is Own without adding; it returns nil if there is none.
func (s *State) own(a addr.AbsResource) *Resource {
	r := s.Resources[a]
	if r != nil && r.shared.Load() {
		r = &Resource{Provider: r.Provider, Instances: maps.Clone(r.Instances)}
		s.Resources[a] = r
	}
	return r
}
