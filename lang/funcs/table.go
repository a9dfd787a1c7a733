// Package funcs is the table of the language's functions.
//
// It does not depend on references, scopes or configuration files: it provides a map for an hcl.EvalContext.
// Functions that libraries already have (go-cty's stdlib, go-cty-yaml, go-cidr, doublestar) are used from there;
// the files of this package, one per family, contain only what differs or is missing.
//
// Providers' functions are not in the table. The evaluator asks the provider for its functions and adds them as
// "provider::NAME::FUNCTION" (or "provider::NAME::ALIAS::FUNCTION") to the map that [Table] returns; that map
// belongs to the caller. The templates of templatefile and templatestring can call only this package's functions,
// so a template never needs a provider.
package funcs

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
)

// Options are the options of a table.
type Options struct {
	// BaseDir is the base of relative paths; empty is the current directory.
	BaseDir string
	// Env is the environment of the operation: it determines the home directory.
	Env environ.Variables
	// Files are the files that functions may read; nil is all of them.
	Files *reach.Files
	// PlanTimestamp is the result of plantimestamp(). If it is zero, as in validation, the function returns an
	// unknown string.
	PlanTimestamp time.Time
	// Pure makes the results of functions that differ at each call (timestamp, uuid, bcrypt) unknown, for planning.
	Pure bool
	// Now is the clock of timestamp(); nil is the system's.
	Now func() time.Time
	// Console adds type(), and removes plantimestamp(), since there is no plan.
	Console bool
	// TemplateDepth is the maximum depth of nested templates; zero is 1024.
	TemplateDepth int
}

// Table returns the functions by name, each under its plain name and also under "core::" and that name.
//
// The caller owns the map. The functions in it can be called concurrently.
func Table(o Options) map[string]function.Function {
	shared := maps.Clone(timeless())
	dir := directory{o.BaseDir, o.Env, o.Files}
	shared.add(filesystem(dir))
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
	table.add(newRenderer(dir, o.TemplateDepth, shared).functions())
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

// timeless contains the functions that do not depend on options, ready to be cloned.
var timeless = sync.OnceValue(func() table {
	t := make(table)
	for _, f := range []family{
		numeric(), text(), collections(), sets(), conversions(), encodings(), digests(), dates(),
		networks(), sensitivity(),
		fallbacks(), paths(), failing(), assumptions(),
	} {
		t.add(f)
	}
	return t
})

// builtin is one function with its description for users.
type builtin struct {
	fn  function.Function
	doc string
}

// family is a group of functions by plain name.
type family map[string]builtin

// table maps plain and qualified names to functions.
type table map[string]function.Function

// add adds the functions of f to t, with their descriptions, under both of their names.
func (t table) add(f family) {
	for name, b := range f {
		fn := describe(b)
		t[name] = fn
		t["core::"+name] = fn
	}
}

// describe sets the description of a function; those of its parameters are kept.
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

// notNull makes `f(unknown) == null` known to be false while planning.
func notNull(b *cty.RefinementBuilder) *cty.RefinementBuilder { return b.NotNull() }

// plain is a parameter whose marks go-cty removes before the call, and adds to the result.
func plain(name string, ty cty.Type) function.Parameter {
	return function.Parameter{Name: name, Type: ty}
}

// withMarks is a parameter whose marks the function receives, so that its errors can hide secrets.
func withMarks(name string, ty cty.Type) function.Parameter {
	return function.Parameter{Name: name, Type: ty, AllowMarked: true}
}

// anything is a parameter that accepts every value: null, unknown, untyped or marked.
func anything(name string) function.Parameter {
	return function.Parameter{
		Name: name, Type: cty.DynamicPseudoType,
		AllowNull: true, AllowUnknown: true, AllowDynamicType: true, AllowMarked: true,
	}
}
