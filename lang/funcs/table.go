// Package funcs is the table of the language's functions.
//
// It knows nothing of references, scopes or configuration files: it hands the evaluator a map to put into an
// hcl.EvalContext. What a library already does (go-cty's stdlib, go-cty-yaml, go-cidr, doublestar) is taken from there;
// the files of this package, one per family, hold only what differs or is missing.
//
// Functions that providers define are not in the table. The evaluator asks the provider for its functions and merges
// them under "provider::NAME::FUNCTION" (or "provider::NAME::ALIAS::FUNCTION") into the map that [Table] returns; that
// map belongs to the caller. The templates of templatefile and templatestring render with this package's functions
// only, so a template never needs a provider.
package funcs

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/environ"
)

// Options says where, when and for whom the functions of one table work.
type Options struct {
	// BaseDir is what relative paths start from; empty is the current directory.
	BaseDir string
	// Env is the environment of the operation: it names the home directory.
	Env environ.Variables
	// PlanTimestamp is what plantimestamp() returns. While it is zero the function returns an unknown string, which is
	// right for validation.
	PlanTimestamp time.Time
	// Pure defers what gives another result at each call (timestamp, uuid, bcrypt): the result is unknown. For
	// planning.
	Pure bool
	// Now is the clock of timestamp(); nil is the system's.
	Now func() time.Time
	// Console adds type(), and takes plantimestamp() away: there is no plan that it could name.
	Console bool
	// TemplateDepth is how many templates may be nested in each other; zero is 1024.
	TemplateDepth int
}

// Table returns the functions by name, each under its plain name and again under "core::" and that name.
//
// The caller owns the map. The functions in it can be called by several goroutines at once.
func Table(o Options) map[string]function.Function {
	shared := maps.Clone(timeless())
	shared.add(filesystem(directory{o.BaseDir, o.Env}))
	if o.Console {
		shared.add(console())
	} else {
		shared.add(planned(o.PlanTimestamp))
	}
	if now := o.Now; now != nil {
		shared.add(impure(now, o.Pure))
	} else {
		shared.add(impure(time.Now, o.Pure))
	}

	table := maps.Clone(shared)
	table.add(newRenderer(directory{o.BaseDir, o.Env}, o.TemplateDepth, shared).functions())
	return table
}

// Names returns the plain names of all functions that can be called outside the console, sorted.
func Names() []string { return slices.Clone(names()) }

var names = sync.OnceValue(func() []string {
	var out []string
	for name := range Table(Options{}) {
		if _, gone := retired[name]; !gone && !strings.Contains(name, "::") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
})

// timeless holds every function that no option changes, ready to be cloned.
var timeless = sync.OnceValue(func() table {
	t := make(table)
	for _, f := range []family{
		numeric(), text(), collections(), sets(), conversions(), encodings(), digests(), dates(),
		networks(), sensitivity(),
		fallbacks(), paths(), failing(),
	} {
		t.add(f)
	}
	return t
})

// builtin is one function with the description that tools show to users.
type builtin struct {
	fn  function.Function
	doc string
}

// family is a group of functions by plain name.
type family map[string]builtin

// table is functions by plain and by qualified name.
type table map[string]function.Function

// add puts the described functions of f into t under both of their names.
func (t table) add(f family) {
	for name, b := range f {
		fn := describe(b)
		t[name] = fn
		t["core::"+name] = fn
	}
}

// describe gives a function its description and keeps those of its parameters.
func describe(b builtin) function.Function {
	var params []string
	for _, p := range b.fn.Params() {
		params = append(params, p.Description)
	}
	if p := b.fn.VarParam(); p != nil {
		params = append(params, p.Description)
	}
	return b.fn.WithNewDescriptions(b.doc, params)
}

// returning builds a function whose result always has type ty and is never null.
func returning(ty cty.Type, impl function.ImplFunc, params ...function.Parameter) function.Function {
	return function.New(&function.Spec{
		Params:       params,
		Type:         function.StaticReturnType(ty),
		RefineResult: notNull,
		Impl:         impl,
	})
}

// notNull lets `f(unknown) == null` be false already while planning.
func notNull(b *cty.RefinementBuilder) *cty.RefinementBuilder { return b.NotNull() }

// plain is a parameter whose marks go-cty takes off before the call, and puts onto the result.
func plain(name string, ty cty.Type) function.Parameter {
	return function.Parameter{Name: name, Type: ty}
}

// withMarks is a parameter whose marks the function sees, so that its errors can hide what is secret.
func withMarks(name string, ty cty.Type) function.Parameter {
	return function.Parameter{Name: name, Type: ty, AllowMarked: true}
}

// anything is a parameter that takes every value as it is: null, unknown, untyped or marked.
func anything(name string) function.Parameter {
	return function.Parameter{
		Name: name, Type: cty.DynamicPseudoType,
		AllowNull: true, AllowUnknown: true, AllowDynamicType: true, AllowMarked: true,
	}
}
