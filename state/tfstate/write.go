package tfstate

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Form is the layout of the text.
type Form bool

const (
	// Compact is everything on one line: for `state pull`, and most backends.
	Compact Form = false
	// Indented is one value per line: for files beside a configuration.
	Indented Form = true
)

// Write writes a state as version 4, ending with a line feed (two if it is indented, as in OpenTofu). version is
// the version of OpenTofu that is recorded as the writer. The memory use does not depend on the size of the state.
// The error is a list of diagnostics if the state cannot be represented; then a part may have been written.
func Write(w io.Writer, s *state.State, version string, form Form) error {
	out := bufio.NewWriterSize(w, 64<<10)
	e := encoder{out: out}
	if form == Indented {
		e.out = &indenter{w: out}
	}
	e.state(s, version)
	if form == Indented && e.err == nil {
		e.err = out.WriteByte('\n')
	}
	if e.err == nil {
		e.err = out.Flush()
	}
	return e.err
}

// WriteWithSets is Write in the compact form, with the numbers of sets instead of lists of dependencies: for plans,
// which store the sets once. Other engines cannot read it.
func WriteWithSets(w io.Writer, s *state.State, version string, sets *state.Sets) error {
	e := encoder{out: w, sets: sets}
	e.state(s, version)
	return e.err
}

func (e *encoder) state(s *state.State, version string) {
	e.text(`{"version":4,"terraform_version":`).string(version)
	e.text(`,"serial":`).uint(s.Serial).text(`,"lineage":`).string(s.Lineage)
	e.outputs(s.Outputs)
	e.resources(s)
	e.checks(s.Checks)
	e.extension(s)
	e.text("}\n")
	e.flush()
}

// encoder collects compact JSON and writes it in pieces. After the first error it does nothing.
type encoder struct {
	out io.Writer
	buf []byte
	err error

	deps     *state.Dependencies // the last written set: instances share sets
	depsText []byte
	sets     *state.Sets // collects the sets, which are written as numbers; nil: they are written as lists

	// last has the texts of the resources in the last version, and next gets those of this one. Both are nil without
	// Texts.
	last, next map[addr.AbsResource]*resourceText
}

func (e *encoder) text(s string) *encoder      { e.buf = append(e.buf, s...); return e }
func (e *encoder) string(s string) *encoder    { e.buf = appendString(e.buf, s); return e }
func (e *encoder) uint(n uint64) *encoder      { e.buf = strconv.AppendUint(e.buf, n, 10); return e }
func (e *encoder) int(n int64) *encoder        { e.buf = strconv.AppendInt(e.buf, n, 10); return e }
func (e *encoder) compact(raw []byte) *encoder { e.buf = appendCompact(e.buf, raw); return e }

// value writes a small value.
func (e *encoder) value(v any) {
	raw, err := json.Marshal(v)
	e.compact(raw).fail(err)
}

func (e *encoder) fail(err error) {
	if e.err == nil && err != nil {
		e.err = err
	}
}

func (e *encoder) flush() {
	if e.err == nil {
		_, e.err = e.out.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

func (e *encoder) outputs(outputs map[string]*state.Output) {
	e.text(`,"outputs":{`)
	for i, name := range slices.Sorted(maps.Keys(outputs)) {
		o := outputs[name]
		typ, err := ctyjson.MarshalType(o.Value.Type())
		var value []byte
		if err == nil {
			value, err = coding.EncodeJSON(o.Value, o.Value.Type())
		}
		if err != nil {
			e.fail(diag.Errors("Failed to serialize output value in state",
				fmt.Sprintf("The value of output %q cannot be written: %s.", name, err), nil).Err())
			return
		}
		if i > 0 {
			e.text(",")
		}
		e.string(name).text(`:{"value":`).compact(value).text(`,"type":`).compact(typ)
		if o.Sensitive {
			e.text(`,"sensitive":true`)
		}
		if o.Deprecated != "" {
			e.text(`,"deprecated":`).string(o.Deprecated)
		}
		e.text("}")
		e.flush()
	}
	e.text("}")
}

func (e *encoder) resources(s *state.State) {
	e.text(`,"resources":[`)
	first := true
	for _, abs := range inFileOrder(s) {
		r := s.Resources[abs]
		if abs.Resource.Mode == addr.Ephemeral || !anyRead(r) {
			continue
		}
		if !first {
			e.text(",")
		}
		first = false
		e.flush()
		if !e.remembered(abs, r) {
			e.resource(abs, r)
		}
	}
	e.text("]")
}

func (e *encoder) resource(abs addr.AbsResource, r *state.Resource) {
	objects := objectsOf(r)
	e.text("{")
	if !abs.Module.IsRoot() {
		e.text(`"module":`).string(abs.Module.String()).text(",")
	}
	e.text(`"mode":`).string(abs.Resource.Mode.String())
	e.text(`,"type":`).string(abs.Resource.Type)
	e.text(`,"name":`).string(abs.Resource.Name)
	keyed := slices.ContainsFunc(objects, func(o object) bool { return o.instance.ProviderKey != addr.NoKey })
	if !keyed {
		e.text(`,"provider":`).string(r.Provider.String())
	}
	e.text(`,"instances":[`)
	if e.next != nil {
		e.objectsOnce(abs, r, objects, keyed)
		return
	}
	for i, o := range objects {
		if i > 0 {
			e.text(",")
		}
		e.entry(abs, r, o, keyed)
		e.flush()
	}
	e.text("]}")
}

// entry writes an entry of "instances".
func (e *encoder) entry(abs addr.AbsResource, r *state.Resource, o object, keyed bool) {
	provider := ""
	if keyed {
		provider = instanceProvider(r, o.instance).String()
	}
	if err := e.object(o, provider); err != nil {
		e.fail(diag.Errors("Failed to serialize resource instance in state", err.Error(), nil).WithAddress(
			abs.Instance(o.key).String()).Err())
	}
}

// instanceProvider returns the provider instance in the format's form: modules without keys.
func instanceProvider(r *state.Resource, i *state.Instance) addr.ProviderInstance {
	return r.Provider.Instance(r.Provider.Module.Unkeyed(), i.ProviderKey)
}

func (e *encoder) object(in object, provider string) (err error) {
	o := in.object
	e.text("{")
	if n, ok := in.key.Int(); ok {
		e.text(`"index_key":`).int(int64(n)).text(",")
	} else if s, ok := in.key.Str(); ok {
		e.text(`"index_key":`).string(s).text(",")
	}
	if statusOf(o) == state.Tainted {
		e.text(`"status":"tainted",`)
	}
	if in.deposed != state.CurrentObject {
		e.text(`"deposed":`).string(string(in.deposed)).text(",")
	}
	if provider != "" {
		e.text(`"provider":`).string(provider).text(",")
	}
	e.text(`"schema_version":`).int(o.SchemaVersion)
	if o.Attrs != nil {
		e.text(`,"attributes":`).compact(o.Attrs)
	}
	if len(o.Flatmap) > 0 {
		e.text(`,"attributes_flat":`).value(o.Flatmap)
	}
	e.text(`,"sensitive_attributes":`)
	if e.buf, err = appendPaths(e.buf, o.Sensitive); err != nil {
		return err
	}
	if len(o.Private) > 0 {
		e.text(`,"private":"`)
		e.buf = base64.StdEncoding.AppendEncode(e.buf, o.Private)
		e.text(`"`)
	}
	if o.Dependencies.Len() > 0 {
		e.text(`,"dependencies":`).dependencies(o.Dependencies)
	}
	if o.CreateBeforeDestroy {
		e.text(`,"create_before_destroy":true`)
	}
	if o.SkipDestroy {
		e.text(`,"skip_destroy":true`)
	}
	if o.Identity != nil {
		e.text(`,"identity":`).compact(o.Identity).text(`,"identity_schema_version":`).int(o.IdentityVersion)
	}
	e.text("}")
	return nil
}

func (e *encoder) dependencies(set *state.Dependencies) {
	if e.sets != nil {
		e.int(int64(e.sets.Number(set)))
		return
	}
	if e.deps != set {
		e.deps, e.depsText = set, append(e.depsText[:0], '[')
		for text := range set.Texts() {
			if len(e.depsText) > 1 {
				e.depsText = append(e.depsText, ',')
			}
			e.depsText = appendString(e.depsText, text)
		}
		e.depsText = append(e.depsText, ']')
	}
	e.buf = append(e.buf, e.depsText...)
}

func (e *encoder) checks(checks []state.CheckResult) {
	e.text(`,"check_results":`)
	if len(checks) == 0 {
		e.text("null")
		return
	}
	out := make([]checkV4, len(checks))
	for i, c := range checks {
		out[i] = checkV4{Kind: c.Kind, Config: c.Config, Status: string(c.Status)}
		for _, k := range checkKinds {
			if k.model == c.Kind {
				out[i].Kind = k.format
			}
		}
		for _, o := range c.Objects {
			out[i].Objects = append(out[i].Objects, checkObjectV4{o.Address, string(o.Status), o.Failures})
		}
	}
	e.value(out)
}

// object is one entry of "instances".
type object struct {
	key      addr.Key
	deposed  state.DeposedKey
	instance *state.Instance
	object   *state.Object
}

// anyRead reports whether an object of a resource has been read.
func anyRead(r *state.Resource) bool {
	for _, i := range r.Instances {
		if i.Current != nil && !neverSeen(i.Current) {
			return true
		}
		for _, o := range i.Deposed {
			if !neverSeen(o) {
				return true
			}
		}
	}
	return false
}

// objectsOf returns the objects of a resource that have been read, in OpenTofu's order: by key, then the current
// object before the deposed ones.
func objectsOf(r *state.Resource) []object {
	objects := make([]object, 0, len(r.Instances))
	add := func(key addr.Key, deposed state.DeposedKey, i *state.Instance, o *state.Object) {
		if o != nil && !neverSeen(o) {
			objects = append(objects, object{key, deposed, i, o})
		}
	}
	for key, i := range r.Instances {
		add(key, state.CurrentObject, i, i.Current)
		for deposed, o := range i.Deposed {
			add(key, deposed, i, o)
		}
	}
	slices.SortFunc(objects, func(a, b object) int {
		switch {
		case a.key.Less(b.key):
			return -1
		case b.key.Less(a.key):
			return 1
		}
		return cmp.Compare(a.deposed, b.deposed)
	})
	return objects
}

// inFileOrder returns the resources in OpenTofu's order in files: each part by its text.
func inFileOrder(s *state.State) []addr.AbsResource {
	return slices.SortedFunc(maps.Keys(s.Resources), func(a, b addr.AbsResource) int {
		return cmp.Or(
			cmp.Compare(a.Module.String(), b.Module.String()),
			cmp.Compare(a.Resource.Mode.String(), b.Resource.Mode.String()),
			cmp.Compare(a.Resource.Type, b.Resource.Type),
			cmp.Compare(a.Resource.Name, b.Resource.Name),
		)
	})
}
