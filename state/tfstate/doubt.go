package tfstate

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// extension is Millipede's addition to a file, under the key "millipede". OpenTofu ignores it when it reads a file
// and omits it when it writes one.
type extension struct {
	InDoubt []doubt `json:"in_doubt"`
}

// doubt is an object whose last operation has an unknown outcome. An object that had been read before is also among
// the resources, as it was before the operation.
type doubt struct {
	Address   string          `json:"address"`
	Deposed   string          `json:"deposed,omitempty"`
	Operation string          `json:"operation"`
	Run       string          `json:"run"`
	Attempt   string          `json:"attempt"`
	Worker    string          `json:"worker,omitempty"`
	Pool      string          `json:"pool,omitempty"`
	Started   time.Time       `json:"started"`
	Reason    string          `json:"reason,omitempty"`
	Sent      json.RawMessage `json:"sent,omitempty"`
	Before    string          `json:"before,omitempty"` // ready, tainted
	Answer    *answer         `json:"answer,omitempty"`
	New       *newObject      `json:"new,omitempty"`
}

// answer is the readable part of a provider's answer that the state cannot store.
type answer struct {
	Known   json.RawMessage `json:"known,omitempty"`
	Private []byte          `json:"private,omitempty"`
	Raw     []byte          `json:"raw,omitempty"`
}

// newObject describes an object that was never read.
type newObject struct {
	Provider            string   `json:"provider"`
	SchemaVersion       int64    `json:"schema_version"`
	Dependencies        []string `json:"dependencies,omitempty"`
	CreateBeforeDestroy bool     `json:"create_before_destroy,omitempty"`
	SkipDestroy         bool     `json:"skip_destroy,omitempty"`
}

var statusNames = map[state.Status]string{state.Ready: "ready", state.Tainted: tainted}

// extension writes the doubts, if there are any.
func (e *encoder) extension(s *state.State) {
	var doubts []doubt
	for _, a := range s.Doubted() {
		i := s.Instance(a)
		add := func(deposed state.DeposedKey, o *state.Object) {
			if o != nil && o.Status == state.InDoubt && o.Doubt != nil {
				doubts = append(doubts, writtenDoubt(a, deposed, o, s.ProviderOf(a)))
			}
		}
		add(state.CurrentObject, i.Current)
		for _, deposed := range sortedKeys(i.Deposed) {
			add(deposed, i.Deposed[deposed])
		}
	}
	if len(doubts) > 0 {
		e.text(`,"millipede":`).value(extension{doubts})
	}
}

func writtenDoubt(a addr.Instance, deposed state.DeposedKey, o *state.Object, provider addr.ProviderInstance) doubt {
	d := doubt{
		Address: a.String(), Deposed: string(deposed), Operation: o.Doubt.Operation, Run: o.Doubt.Run,
		Attempt: o.Doubt.Attempt,
		Worker:  o.Doubt.Worker, Pool: o.Doubt.Pool, Started: o.Doubt.Started, Reason: o.Doubt.Reason,
		Sent:   o.Doubt.Sent,
		Before: statusNames[o.Doubt.Before],
	}
	if a := o.Doubt.Answer; a != nil {
		d.Answer = &answer{Known: a.Known, Private: a.Private, Raw: a.Raw}
	}
	if neverSeen(o) {
		d.New = &newObject{
			Provider: provider.String(), SchemaVersion: o.SchemaVersion,
			CreateBeforeDestroy: o.CreateBeforeDestroy, SkipDestroy: o.SkipDestroy,
		}
		d.New.Dependencies = slices.Collect(o.Dependencies.Texts())
	}
	return d
}

// doubts restores the doubts. Doubts about objects that no longer exist have been resolved by their removal.
func (r *reader) doubts(x *extension) {
	if x == nil {
		return
	}
	for _, d := range x.InDoubt {
		a, diags := addr.ParseInstance(d.Address)
		r.diags = r.diags.Append(diags)
		if diags.HasErrors() {
			continue
		}
		deposed := state.DeposedKey(d.Deposed)
		known := r.s.Object(a, deposed)
		provider := r.s.ProviderOf(a)
		var o state.Object
		switch {
		case known != nil:
			o = *known
		case d.New != nil:
			o = state.Object{
				SchemaVersion: d.New.SchemaVersion, CreateBeforeDestroy: d.New.CreateBeforeDestroy,
				SkipDestroy:  d.New.SkipDestroy,
				Dependencies: r.addresses(d.New.Dependencies),
			}
			if provider, diags = addr.ParseProviderInstance(d.New.Provider); diags.HasErrors() {
				r.diags = r.diags.Append(diags)
				continue
			}
		default:
			continue
		}
		o.Status = state.InDoubt
		o.Doubt = &state.Doubt{
			Run: d.Run, Attempt: d.Attempt, Worker: d.Worker, Pool: d.Pool, Operation: d.Operation, Started: d.Started,
			Reason: d.Reason,
		}
		if !isNull(d.Sent) {
			o.Doubt.Sent = appendCompact(nil, d.Sent)
		}
		if d.Answer != nil {
			o.Doubt.Answer = &state.Answer{Private: d.Answer.Private, Raw: d.Answer.Raw}
			if !isNull(d.Answer.Known) {
				o.Doubt.Answer.Known = appendCompact(nil, d.Answer.Known)
			}
		}
		for status, name := range statusNames {
			if name == d.Before {
				o.Doubt.Before = status
			}
		}
		r.s.Apply(state.SetObject{Addr: a, Deposed: deposed, Provider: provider, Object: &o})
	}
}

// addresses parses dependencies.
func (r *reader) addresses(texts []string) *state.Dependencies {
	var list []state.Dependency
	for _, text := range texts {
		a, ok := r.known[text]
		if !ok {
			abs, diags := addr.ParseAbsResource(text)
			if diags.HasErrors() {
				r.diags = r.diags.Append(diag.Errors("Invalid dependency in state",
					fmt.Sprintf("%q is not the address of a resource: %s", text, diags.Err()), nil))
				continue
			}
			a = state.DependOn(abs.Config())
			r.known[text] = a
		}
		list = append(list, a)
	}
	return r.universe.Set(slices.Values(list))
}
