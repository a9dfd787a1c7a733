package bolt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// The data of a workspace is one bucket; the first byte of a key is its kind.
const (
	checksKind   = 'c' // all check results
	instanceKind = 'i' // address of an instance -> record
	outputKind   = 'o' // name of an output -> storedOutput
	resourceKind = 'r' // address of a resource -> its provider configuration
)

type storedOutput struct {
	Type       json.RawMessage `json:"type"`
	Value      json.RawMessage `json:"value"`
	Sensitive  bool            `json:"sensitive,omitempty"`
	Deprecated string          `json:"deprecated,omitempty"`
}

func keyOf(kind byte, name string) []byte {
	return append(append(make([]byte, 0, 1+len(name)), kind), name...)
}

// apply makes a change.
func (e *edit) apply(c state.Change) error {
	switch c := c.(type) {
	case state.SetObject:
		return e.setObject(c)
	case state.SetOutput:
		if c.Output == nil {
			return e.put(keyOf(outputKind, c.Name), nil)
		}
		return e.putOutput(c.Name, c.Output)
	case state.SetChecks:
		return e.setChecks(c)
	case state.MergeChecks:
		return e.mergeChecks(c)
	case state.MoveInstance:
		return e.move(c)
	}
	panic(fmt.Sprintf("bolt: a change of unknown type %T", c))
}

func (e *edit) setObject(c state.SetObject) error {
	key := keyOf(instanceKind, c.Addr.String())
	var rec record
	old, err := e.w.data.get(key)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Addr, err)
	}
	if old != nil {
		if rec, err = decodeRecord(old); err != nil {
			return fmt.Errorf("%s: %w", c.Addr, err)
		}
	} else if c.Object == nil {
		return nil
	}
	abs := c.Addr.Abs()
	if c.Object == nil {
		rec.set(c.Deposed, nil)
		if len(rec.objects) == 0 {
			return e.removeInstance(key, abs)
		}
		return e.put(key, rec.encode())
	}
	data, err := e.names.encodeObject(e.tx, c.Object)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Addr, err)
	}
	rec.key, rec.module = c.Provider.Key, c.Provider.Module.String()
	rec.set(c.Deposed, data)
	if err := e.replaceOne(key, old, rec.encode()); err != nil {
		return err
	}
	provider := c.Provider.Config()
	if e.placed == abs && e.provider == provider {
		return nil
	}
	if err := e.put(keyOf(resourceKind, abs.String()), []byte(provider.String())); err != nil {
		return err
	}
	e.placed, e.provider = abs, provider
	return nil
}

// removeInstance removes a record, and its resource with the last one.
func (e *edit) removeInstance(key []byte, abs addr.AbsResource) error {
	if err := e.put(key, nil); err != nil {
		return err
	}
	single := keyOf(instanceKind, abs.String())
	keyed := append(bytes.Clone(single), '[')
	if next, _ := e.w.data.b.Cursor().Seek(keyed); bytes.HasPrefix(next, keyed) || e.w.data.has(single) {
		return nil
	}
	e.placed = addr.AbsResource{}
	return e.put(keyOf(resourceKind, abs.String()), nil)
}

func (e *edit) move(c state.MoveInstance) error {
	from, to := keyOf(instanceKind, c.From.String()), keyOf(instanceKind, c.To.String())
	rec, err := e.w.data.get(from)
	if err != nil {
		return fmt.Errorf("%s: %w", c.From, err)
	}
	if rec == nil {
		panic("bolt: nothing to move at " + c.From.String())
	}
	if e.w.data.has(to) {
		panic("bolt: cannot move to " + c.To.String() + ", it is occupied")
	}
	toResource := keyOf(resourceKind, c.To.Abs().String())
	if !e.w.data.has(toResource) {
		provider, err := e.w.data.get(keyOf(resourceKind, c.From.Abs().String()))
		if err != nil {
			return fmt.Errorf("%s: %w", c.From, err)
		}
		if err := e.put(toResource, bytes.Clone(provider)); err != nil {
			return err
		}
	}
	if err := e.put(to, bytes.Clone(rec)); err != nil {
		return err
	}
	return e.removeInstance(from, c.From.Abs())
}

func (e *edit) putOutput(name string, o *state.Output) error {
	data, err := encodeOutput(o)
	if err != nil {
		return fmt.Errorf("output %q: %w", name, err)
	}
	return e.put(keyOf(outputKind, name), data)
}

func encodeOutput(o *state.Output) ([]byte, error) {
	typ, err := ctyjson.MarshalType(o.Value.Type())
	if err != nil {
		return nil, err
	}
	value, err := coding.EncodeJSON(o.Value, o.Value.Type())
	if err != nil {
		return nil, err
	}
	return json.Marshal(storedOutput{typ, value, o.Sensitive, o.Deprecated})
}

func decodeOutput(data []byte) (*state.Output, error) {
	var in storedOutput
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	typ, err := coding.UnmarshalType(in.Type)
	if err != nil {
		return nil, err
	}
	value, err := coding.DecodeJSON(in.Value, typ)
	return &state.Output{Value: value, Sensitive: in.Sensitive, Deprecated: in.Deprecated}, err
}

func (e *edit) putChecks(checks []state.CheckResult) error {
	if len(checks) == 0 {
		return e.put([]byte{checksKind}, nil)
	}
	data, err := json.Marshal(checks)
	if err != nil {
		return err
	}
	return e.put([]byte{checksKind}, data)
}

// entry is a key of the data with the function that encodes its content.
type entry struct {
	key     []byte
	content func() ([]byte, error)
}

// entries returns the keys of a whole state, sorted: bbolt keeps the keys that are put into a bucket in one
// transaction in one list, where insertion in the middle moves all later ones.
func (e *edit) entries(s *state.State) []entry {
	var all []entry
	for abs, r := range s.Resources {
		all = append(all, entry{keyOf(resourceKind, abs.String()), func() ([]byte, error) {
			return []byte(r.Provider.String()), nil
		}})
		for k, i := range r.Instances {
			at := abs.Instance(k)
			all = append(all, entry{keyOf(instanceKind, at.String()), func() ([]byte, error) {
				rec := record{key: i.ProviderKey, module: i.ProviderModule.String()}
				err := e.encodeInto(&rec, state.CurrentObject, i.Current)
				for deposed, o := range i.Deposed {
					err = errors.Join(err, e.encodeInto(&rec, deposed, o))
				}
				if err != nil {
					return nil, fmt.Errorf("%s: %w", at, err)
				}
				return rec.encode(), nil
			}})
		}
	}
	for name, o := range s.Outputs {
		all = append(all, entry{keyOf(outputKind, name), func() ([]byte, error) {
			data, err := encodeOutput(o)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", name, err)
			}
			return data, nil
		}})
	}
	if len(s.Checks) > 0 {
		all = append(all, entry{[]byte{checksKind}, func() ([]byte, error) { return json.Marshal(s.Checks) }})
	}
	slices.SortFunc(all, func(x, y entry) int { return bytes.Compare(x.key, y.key) })
	return all
}

// replace stores the content of a whole state.
func (e *edit) replace(s *state.State) error {
	all := e.entries(s)
	kept := make(map[string]bool, len(all))
	for _, x := range all {
		kept[string(x.key)] = true
		content, err := x.content()
		if err == nil {
			err = e.put(x.key, content)
		}
		if err != nil {
			return err
		}
	}

	var gone [][]byte
	c := e.w.data.b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if !kept[string(k)] {
			gone = append(gone, bytes.Clone(k))
		}
	}
	for _, k := range gone {
		if err := e.put(k, nil); err != nil {
			return err
		}
	}
	return nil
}

func (e *edit) encodeInto(rec *record, deposed state.DeposedKey, o *state.Object) error {
	if o == nil {
		return nil
	}
	data, err := e.names.encodeObject(e.tx, o)
	rec.set(deposed, data)
	return err
}

// builder builds a state from data, key by key.
type builder struct {
	r         *reader
	s         *state.State
	providers map[string]addr.ProviderConfig
	modules   map[string]addr.ModuleInstance
}

func newBuilder(r *reader, s *state.State) *builder {
	return &builder{r, s, map[string]addr.ProviderConfig{}, map[string]addr.ModuleInstance{"": addr.RootInstance}}
}

// put replaces the part of the state for a key by the given content; nil removes it.
func (b *builder) put(key, value []byte) error {
	if value != nil {
		return b.add(key, value)
	}
	name := string(key[1:])
	switch key[0] {
	case checksKind:
		b.s.Checks = nil
		return nil
	case outputKind:
		delete(b.s.Outputs, name)
		return nil
	}
	a, diags := addr.ParseInstance(name)
	if diags.HasErrors() {
		return diags.Err()
	}
	switch {
	case key[0] == resourceKind:
		delete(b.s.Resources, a.Abs())
	case b.s.Instance(a) != nil:
		delete(b.s.Own(a.Abs()).Instances, a.Key)
	}
	return nil
}

// add adds one key of the data and its content.
func (b *builder) add(key, value []byte) error {
	name := string(key[1:])
	var err error
	switch key[0] {
	case checksKind:
		b.s.Checks = nil
		err = json.Unmarshal(value, &b.s.Checks)
	case outputKind:
		b.s.Outputs[name], err = decodeOutput(value)
	case resourceKind:
		err = b.addResource(name, string(value))
	case instanceKind:
		err = b.addInstance(name, value)
	default:
		err = errors.New("of unknown kind")
	}
	if err != nil {
		return fmt.Errorf("the content of %q: %w", key, err)
	}
	return nil
}

func (b *builder) addResource(name, provider string) error {
	a, diags := addr.ParseInstance(name)
	if diags.HasErrors() {
		return diags.Err()
	}
	config, ok := b.providers[provider]
	if !ok {
		if config, diags = addr.ParseProviderConfig(provider); diags.HasErrors() {
			return diags.Err()
		}
		b.providers[provider] = config
	}
	b.s.Own(a.Abs()).Provider = config
	return nil
}

func (b *builder) addInstance(name string, value []byte) error {
	a, diags := addr.ParseInstance(name)
	if diags.HasErrors() {
		return diags.Err()
	}
	rec, err := decodeRecord(value)
	if err != nil {
		return err
	}
	module, ok := b.modules[rec.module]
	if !ok {
		if module, diags = addr.ParseModuleInstance(rec.module); diags.HasErrors() {
			return diags.Err()
		}
		b.modules[rec.module] = module
	}
	i := &state.Instance{ProviderKey: rec.key, ProviderModule: module}
	for _, encoded := range rec.objects {
		o, err := b.r.decodeObject(encoded.data)
		switch {
		case err != nil:
			return err
		case encoded.deposed == state.CurrentObject:
			i.Current = o
		case i.Deposed == nil:
			i.Deposed = map[state.DeposedKey]*state.Object{encoded.deposed: o}
		default:
			i.Deposed[encoded.deposed] = o
		}
	}
	b.s.Own(a.Abs()).Instances[a.Key] = i
	return nil
}
