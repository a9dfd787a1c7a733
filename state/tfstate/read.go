package tfstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	goversion "github.com/hashicorp/go-version"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Read reads a state of any version of the format. An empty file contains no state: then the state is nil, and so
// is the list.
func Read(r io.Reader) (*state.State, diag.List) {
	src, err := bounds.ReadAll(r, "the state", bounds.State)
	if err != nil {
		return nil, diag.Errors("Failed to read state file", fmt.Sprintf("The state file could not be read: %s.", err),
			nil)
	}
	return Parse(src)
}

// Parse is Read for text that is in memory.
func Parse(src []byte) (*state.State, diag.List) {
	if len(src) == 0 {
		return nil, nil
	}
	if bytes.HasPrefix(src, []byte("tfstate")) {
		return nil, diag.Errors(unsupportedFormat,
			"The file has the binary format of Terraform before 0.7. Upgrade it with Terraform 0.6.16 first.", nil)
	}
	// Nearly every file has version 4; then the text is parsed once.
	var f fileV4
	err := json.Unmarshal(src, &f)
	if err == nil && f.Version != nil && *f.Version == 4 {
		return fromV4(&f, nil)
	}
	version, diags := versionOf(src)
	if diags.HasErrors() {
		return nil, diags
	}
	switch version {
	case 1, 2, 3:
		return parseLegacy(src, version)
	case 4:
		return nil, structureErrors(err)
	case 0:
		return nil, diag.Errors(unsupportedFormat,
			"The file is JSON with the version number zero, which no state format ever had: it is not a state.", nil)
	}
	detail := fmt.Sprintf("The state file uses format version %d; this program reads up to version 4.", version)
	if by := writerOf(src); by != "" {
		detail += fmt.Sprintf(" OpenTofu %s has written it: use that version or a newer one.", by)
	} else {
		detail += " A newer version of OpenTofu may have written it: use that one."
	}
	return nil, diag.Errors(unsupportedFormat, detail, nil)
}

// ReadWithSets reads the result of WriteWithSets, or of Write, with the sets by number.
func ReadWithSets(src []byte, sets []*state.Dependencies) (*state.State, diag.List) {
	var f fileV4
	if err := json.Unmarshal(src, &f); err != nil {
		return nil, structureErrors(err)
	}
	if f.Version == nil || *f.Version != 4 {
		return nil, structureErrors(errors.New("its version is not 4"))
	}
	return fromV4(&f, sets)
}

// versionOf finds the format's version.
func versionOf(src []byte) (uint64, diag.List) {
	var sniff struct {
		Version    *uint64 `json:"version"`
		Encryption string  `json:"encryption_version"`
	}
	err := json.Unmarshal(src, &sniff)
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return 0, diag.Errors(unsupportedFormat,
			fmt.Sprintf("The state file could not be parsed as JSON: syntax error at byte offset %d.", syntax.Offset),
			nil)
	case errors.As(err, &typ) && typ.Field == "version":
		return 0, diag.Errors(unsupportedFormat,
			fmt.Sprintf("The version in the state file is %s. A positive whole number is required.", typ.Value), nil)
	case err != nil:
		return 0, diag.Errors(unsupportedFormat, "The state file could not be parsed as JSON: it is not an object.",
			nil)
	case sniff.Version == nil && sniff.Encryption != "":
		return 0, diag.Errors(unsupportedFormat,
			"This state file is encrypted and can not be read without an encryption configuration: add the "+
				"\"encryption\" block that it was written with.", nil)
	case sniff.Version == nil:
		return 0, diag.Errors(unsupportedFormat,
			`The state file does not have a "version" attribute, which is required to identify the format version.`,
			nil)
	}
	return *sniff.Version, nil
}

// writerOf finds the version of OpenTofu that wrote the file, if it looks like one.
func writerOf(src []byte) string {
	var sniff struct {
		Version string `json:"terraform_version"`
	}
	if json.Unmarshal(src, &sniff) != nil {
		return ""
	}
	if _, err := goversion.NewVersion(sniff.Version); err != nil {
		return ""
	}
	return sniff.Version
}

// structureErrors reports that a file does not have the structure of a state.
func structureErrors(err error) diag.List {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) && typ.Field != "" {
		return diag.Errors(invalidFormat, fmt.Sprintf("The state file field %q has invalid value %s", typ.Field,
			typ.Value), nil)
	}
	return diag.Errors(invalidFormat, fmt.Sprintf("The state file does not conform to the expected JSON data "+
		"structure: %s.", err), nil)
}

// fromV4 makes a state from a file. Parts with problems are left out.
func fromV4(f *fileV4, sets []*state.Dependencies) (*state.State, diag.List) {
	r := reader{s: state.Empty(), sets: sets, known: map[string]state.Dependency{},
		lists: map[string]*state.Dependencies{}, universe: state.NewUniverse()}
	r.s.Lineage, r.s.Serial, r.s.EngineVersion = f.Lineage, f.Serial, f.TerraformVersion
	if f.TerraformVersion != "" {
		if _, err := goversion.NewVersion(f.TerraformVersion); err != nil {
			r.fail("Invalid OpenTofu version string",
				"The state file says that OpenTofu %q has written it, which is not a version.", f.TerraformVersion)
		}
	}
	for i := range f.Resources {
		r.resource(&f.Resources[i])
	}
	for _, name := range slices.Sorted(maps.Keys(f.Outputs)) {
		r.output(name, f.Outputs[name])
	}
	for _, c := range f.CheckResults {
		r.check(c)
	}
	r.doubts(f.Millipede)
	return r.s, r.diags
}

// reader makes a state, part by part.
type reader struct {
	s     *state.State
	diags diag.List
	sets  []*state.Dependencies          // by number; see WriteWithSets
	known map[string]state.Dependency    // dependencies that were parsed
	lists map[string]*state.Dependencies // and whole lists of them, by their JSON: instances of a resource share them
	// universe is the universe of all sets.
	universe *state.Universe
}

func (r *reader) fail(summary, format string, args ...any) {
	r.diags = r.diags.Append(failure(summary, fmt.Sprintf(format, args...)))
}

// wrongProvider reports the problems of the text that names the provider of a resource. They have a place in that text,
// which nobody can look up; the resource and the text say more.
func (r *reader) wrongProvider(of addr.AbsResource, text string, problems diag.List) {
	for _, d := range problems {
		r.fail(d.Summary, "The provider of %s is %q. %s", of, text, d.Detail)
	}
}

func (r *reader) resource(in *resourceV4) {
	mode, ok := modes[in.Mode]
	res := addr.Resource{Mode: mode, Type: in.Type, Name: in.Name}
	if !ok {
		r.fail("Invalid resource mode in state", "The state has a resource with mode %q (%q %q), which cannot be in "+
			"a state.", in.Mode, in.Type, in.Name)
		return
	}
	module := addr.RootInstance
	if in.Module != "" {
		var diags diag.List
		module, diags = addr.ParseModuleInstance(in.Module)
		r.diags = r.diags.Append(diags)
		if diags.HasErrors() {
			return
		}
	}
	abs := res.Absolute(module)
	var provider addr.ProviderConfig
	if in.Provider != "" {
		var diags diag.List
		provider, diags = addr.ParseProviderConfig(in.Provider)
		if r.wrongProvider(abs, in.Provider, diags); diags.HasErrors() {
			return
		}
	}
	perInstance := ""
	for i := range in.Instances {
		inst := &in.Instances[i]
		p := provider.Instance(provider.Module.Unkeyed(), addr.NoKey)
		switch {
		case inst.Provider == "" && in.Provider == "":
			r.fail("Provider field missing state", "%s has no provider, neither for the resource nor for its "+
				"instances.", abs)
			return
		case inst.Provider != "":
			if in.Provider != "" {
				r.diags = r.diags.Append(diag.New(diag.Warning, "Provider field conflict in state",
					fmt.Sprintf("%s has the provider %s, and an instance with the provider %s.", abs, in.Provider,
						inst.Provider), nil))
			}
			var diags diag.List
			p, diags = addr.ParseProviderInstance(inst.Provider)
			if r.wrongProvider(abs, inst.Provider, diags); diags.HasErrors() {
				continue
			}
			config := p.Config().String()
			if perInstance != "" && perInstance != config {
				r.fail("Provider instance field conflict in state",
					"%s has instances with different providers: %s and %s.", abs, perInstance, config)
				return
			}
			perInstance = config
		}
		r.instance(abs, inst, p)
	}
}

func (r *reader) instance(abs addr.AbsResource, in *instanceV4, provider addr.ProviderInstance) {
	key, ok := readKey(in.IndexKey)
	if !ok {
		r.fail(invalidInstance, "%s has an instance with the key %s, which is neither a whole number nor a string.",
			abs, in.IndexKey)
		return
	}
	a := abs.Instance(key)
	o := &state.Object{
		Status: state.Ready, SchemaVersion: in.SchemaVersion,
		CreateBeforeDestroy: in.CreateBeforeDestroy, SkipDestroy: in.SkipDestroy,
	}
	switch {
	case in.Status == tainted:
		o.Status = state.Tainted
	case in.Status != "":
		r.fail(invalidInstance, "%s has the status %q, which is not known.", a, in.Status)
		return
	}
	switch {
	case !isNull(in.Attributes):
		o.Attrs = appendCompact(make([]byte, 0, len(in.Attributes)), in.Attributes)
	case in.AttributesFlat != nil:
		o.Flatmap = in.AttributesFlat
	default:
		o.Attrs = []byte("{}")
	}
	var diags diag.List
	o.Sensitive, diags = readPaths(in.SensitiveAttributes)
	r.diags = r.diags.Append(diags.WithAddress(a.String()))
	if diags.HasErrors() {
		return
	}
	if len(in.Private) > 0 {
		o.Private = in.Private
	}
	if !isNull(in.Identity) {
		o.Identity = appendCompact(nil, in.Identity)
		o.IdentityVersion = in.IdentityVersion
	}
	o.Dependencies = r.dependencies(in.Dependencies)

	deposed := state.DeposedKey(in.Deposed)
	switch {
	case deposed != state.CurrentObject && len(deposed) != 8:
		r.fail(invalidInstance, "%s has an object with the deposed key %q, which does not have eight characters.", a,
			deposed)
	case r.s.Object(a, deposed) != nil && deposed != state.CurrentObject:
		r.fail(duplicateInstance, "%s has the deposed object %q several times.", a, deposed)
	case r.s.Object(a, deposed) != nil:
		r.fail(duplicateInstance, "%s is in the state several times.", a)
	default:
		r.s.Apply(state.SetObject{Addr: a, Deposed: deposed, Provider: provider, Object: o})
		// The format identifies provider instances only by their keys.
		r.s.Instance(a).ProviderModule = addr.RootInstance
	}
}

// readKey reads an instance key: null, a number or a string.
func readKey(raw json.RawMessage) (addr.Key, bool) {
	if isNull(raw) {
		return addr.NoKey, true
	}
	if raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return addr.StringKey(s), err == nil
	}
	if n, err := strconv.Atoi(string(raw)); err == nil {
		return addr.IntKey(n), true
	}
	f, err := strconv.ParseFloat(string(raw), 64) // 1e3 and 1.0 are whole too
	return addr.IntKey(int(f)), err == nil && f == float64(int(f))
}

// dependencies reads a list of addresses, or the number of a set if there are sets. Equal lists are the same set.
func (r *reader) dependencies(raw json.RawMessage) *state.Dependencies {
	if isNull(raw) {
		return nil
	}
	if r.sets != nil && raw[0] != '[' {
		n, err := strconv.Atoi(string(raw))
		if err != nil || n < 0 || n >= len(r.sets) {
			r.fail("Invalid dependency in state", "%s is not the number of a set of dependencies.", raw)
			return nil
		}
		return r.sets[n]
	}
	if list, ok := r.lists[string(raw)]; ok {
		return list
	}
	var texts []string
	if err := json.Unmarshal(raw, &texts); err != nil {
		r.diags = r.diags.Append(structureErrors(err))
		return nil
	}
	list := r.addresses(texts)
	r.lists[string(raw)] = list
	return list
}

func (r *reader) output(name string, in outputV4) {
	typ, err := coding.UnmarshalType(in.Type)
	if err != nil {
		r.fail("Invalid output value type in state", "The type of output %q cannot be read: %s.", name, err)
		return
	}
	if len(in.Value) == 0 {
		r.fail("Invalid output value saved in state", "The output %q has no value.", name)
		return
	}
	value, err := coding.DecodeJSON(in.Value, typ)
	if err == nil {
		err = checkNumbers(value)
	}
	if err != nil {
		r.fail("Invalid output value saved in state", "The value of output %q cannot be read: %s.", name, err)
		return
	}
	r.s.Outputs[name] = &state.Output{Value: value, Sensitive: in.Sensitive, Deprecated: in.Deprecated}
}

// check decodes check results. Kinds that a later version may have added are ignored, as in OpenTofu.
func (r *reader) check(in checkV4) {
	for _, k := range checkKinds {
		if k.format != in.Kind {
			continue
		}
		c := state.CheckResult{Kind: k.model, Config: in.Config, Status: checkStatus(in.Status)}
		for _, o := range in.Objects {
			c.Objects = append(c.Objects, state.CheckObject{Address: o.Address, Status: checkStatus(o.Status),
				Failures: o.Failures})
		}
		r.s.Checks = append(r.s.Checks, c)
	}
}

func checkStatus(text string) state.CheckStatus {
	switch s := state.CheckStatus(text); s {
	case state.CheckPass, state.CheckFail, state.CheckError:
		return s
	}
	return state.CheckUnknown
}

func sortedKeys[V any](m map[state.DeposedKey]V) []state.DeposedKey {
	return slices.Sorted(maps.Keys(m))
}
