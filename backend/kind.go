package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind is a kind of backend: its arguments, and how it is opened. A Kind is immutable.
type Kind struct {
	Name string
	// Schema has the arguments and nested blocks. A nested attribute is an attribute of an object type with
	// optional attributes; the schema's Nested objects are not used here. Required arguments may come from the
	// block, from -backend-config, or from the environment.
	Schema *schema.Block
	// Env maps arguments to the environment variables that are used as fallbacks; the first non-empty one is used.
	// They are read when the backend is opened, and are never recorded. An attribute of a nested attribute is
	// written "endpoints.s3".
	Env map[string][]string
	// Defaults are the values of arguments that neither the configuration nor the environment sets.
	Defaults map[string]cty.Value
	// Conflicts are pairs of arguments. A configuration may set at most one argument of each pair.
	Conflicts [][2]string
	// Located names the arguments that say where the states are, without credentials; "endpoints.s3" is an attribute of a
	// nested attribute. Nil means all arguments that are not sensitive. Address replaces it where arguments must be
	// interpreted: it returns where the state of a workspace is. It asks nobody, and cannot fail: it is also called
	// with arguments that Open would refuse.
	Located []string
	Address func(p Place, args Arguments, workspace string) string
	// Open opens the backend. It checks rules that the schema cannot express; diagnostics about an argument have its path
	// (Arguments.Problem). It may use the network, within ctx.
	Open func(ctx context.Context, p Place, args Arguments) (Backend, diag.List)
}

// Arguments are the arguments of a backend. Those that Kind.Open gets are known and complete.
type Arguments = arguments.Arguments

func (k *Kind) spec() arguments.Spec {
	return arguments.Spec{
		Subject: fmt.Sprintf("the backend %q", k.Name), Schema: k.Schema, Env: k.Env, Defaults: k.Defaults,
		Conflicts: k.Conflicts,
	}
}

// Type returns the type of a complete configuration: an object with all arguments and nested blocks of the kind.
func (k *Kind) Type() cty.Type { return k.spec().Type() }

// Decode converts the value of a block, or of a map of arguments, to the schema's types. Arguments that are not set
// are null. Missing required arguments are not reported, because the environment may set them.
func (k *Kind) Decode(config cty.Value) (Arguments, diag.List) { return k.spec().Decode(config) }

// Recorded returns all arguments of the kind's block, as init records them: null if they are not set, and empty for
// repeated blocks if there are none.
func (k *Kind) Recorded(a Arguments) cty.Value {
	values := a.Recorded(k).AsValueMap()
	for name, block := range k.Schema.Blocks {
		ty := values[name].Type()
		switch {
		case !values[name].IsNull():
		case block.Nesting == schema.NestingSet:
			values[name] = cty.SetValEmpty(ty.ElementType())
		case block.Nesting == schema.NestingList && ty.IsListType():
			values[name] = cty.ListValEmpty(ty.ElementType())
		}
	}
	return cty.ObjectVal(values)
}

// Kinds is a list of kinds of backends.
type Kinds []*Kind

// Place is the environment in which backends are opened. Zero fields mean the default.
type Place struct {
	// Kinds are the available kinds; default: those of this package.
	Kinds Kinds
	// Dir is the directory to which relative paths refer; default: the working directory.
	Dir string
	// Files are the files that the local backend may read; nil is all of them. Otherwise it only reads.
	Files *reach.Files
	// Environ is the environment of the operation, which is passed to programs that a backend starts; default:
	// none.
	Environ environ.Variables
	// Env returns the value of an environment variable, empty if it is not set; default: from Environ.
	Env func(name string) string
	// UserAgent identifies the client to servers; default "Millipede".
	UserAgent string
	// Memory contains the snapshots of inmem backends; default: a new one for each.
	Memory *Memory
	// Now returns the current time; default time.Now.
	Now func() time.Time
	// LockCheck is the interval of checks whether a lock is still held, for backends without notification; default
	// 20 s.
	LockCheck time.Duration
	// Pause is the first pause before a request to an unavailable service is retried; the default depends on the
	// kind.
	Pause time.Duration
	// Hosts finds the services of hosts, for the backends that are such services; nil for none.
	Hosts Hosts
	// EngineVersion is the version of OpenTofu that is recorded as the writer of snapshots. AnyVersion makes
	// services accept them independently of the version of a workspace.
	EngineVersion string
	AnyVersion    bool
	// Tell shows a message to the user during the operation; may be nil.
	Tell func(text string)
}

// Hosts discovers services of hosts.
type Hosts interface {
	// Find returns the URL of a service of a host, such as "tfe.v2". It ends with a slash.
	Find(ctx context.Context, host, service string) (*url.URL, error)
	// Token returns the user's token for a host; empty if there is none.
	Token(ctx context.Context, host string) (string, error)
	// HTTP returns a client with the proxies and the certificates of the operation.
	HTTP() *http.Client
}

// The kinds of this package.
var (
	localKind = &Kind{
		Name: "local",
		Schema: &schema.Block{Attributes: map[string]*schema.Attribute{
			"path":          {Type: cty.String, Optional: true},
			"workspace_dir": {Type: cty.String, Optional: true},
		}},
		Address: localAddress,
		Open:    openLocal,
	}
	inmemKind = &Kind{
		Name:    "inmem",
		Located: []string{},
		Schema:  &schema.Block{Attributes: map[string]*schema.Attribute{"lock_id": {Type: cty.String, Optional: true}}},
		Open:    openInmem,
	}
)

// Own returns the kinds of this package, which need no library: local and inmem.
func Own() Kinds { return Kinds{localKind, inmemKind} }

// Cloud is the kind of the cloud block.
const Cloud = "cloud"

// removed are backends that OpenTofu has removed, with advice.
var removed = map[string]string{
	"artifactory": "Its users have moved to the backend \"http\", or to the backends of a cloud.",
	"azure":       "It is called \"azurerm\" now: change the label of the block.",
	"etcd":        "Its users have moved to the backends \"consul\", \"kubernetes\" or \"pg\".",
	"etcdv3":      "Its users have moved to the backends \"consul\", \"kubernetes\" or \"pg\".",
	"manta":       "Its users have moved to the backends of other clouds.",
	"swift":       "Its users have moved to the backend \"s3\", whose interface many installations of Swift have.",
}

// ErrUnsupported is the Extra of diagnostics about an unknown backend.
var ErrUnsupported = errors.New("unsupported backend type")

// unsupported returns the diagnostic about an unknown backend.
func unsupported(detail string) diag.List {
	d := diag.New(diag.Error, "Unsupported backend type", detail, nil)
	d.Extra = ErrUnsupported
	return diag.List{d}
}

// Find returns the kind with a name, or diagnostics if there is none. They have no source range.
func (ks Kinds) Find(name string) (*Kind, diag.List) {
	for _, k := range ks {
		if k.Name == name {
			return k, nil
		}
	}
	if hint, ok := removed[name]; ok {
		return nil, unsupported(fmt.Sprintf("The backend %q was removed from OpenTofu. %s", name, hint))
	}
	return nil, unsupported(fmt.Sprintf("There is no backend type named %q; there are %s.", name, ks.names()))
}

func (ks Kinds) names() string {
	var names []string
	for _, k := range ks {
		if k.Name != Cloud { // it has its own block type
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func (p Place) withDefaults() Place {
	if p.Kinds == nil {
		p.Kinds = Own()
	}
	if p.Env == nil {
		p.Env = p.Environ.Get
	}
	if p.UserAgent == "" {
		p.UserAgent = "Millipede"
	}
	if p.Memory == nil {
		p.Memory = NewMemory()
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	return p
}

// Check returns the errors in a backend's name and arguments that can be found without opening it. Unknown values are
// accepted, and so are missing arguments that the environment may set.
func (p Place) Check(typ string, config cty.Value) diag.List {
	k, diags := p.withDefaults().Kinds.Find(typ)
	if diags.HasErrors() {
		return diags
	}
	args, diags := k.Decode(config)
	if diags.HasErrors() {
		return diags
	}
	for _, name := range slices.Sorted(maps.Keys(k.Schema.Attributes)) {
		if k.Schema.Attributes[name].Required && len(k.Env[name]) == 0 && !args.Given(name) && args.Known(name) {
			diags = diags.Append(missing(name, nil))
		}
	}
	return diags
}

// Address returns where a backend has the state of a workspace, as text that is the same in every process, whatever
// the credentials are. It uses no network. The environment and the defaults complete the arguments, as in Open.
func (p Place) Address(typ string, config cty.Value, workspace string) (string, diag.List) {
	p = p.withDefaults()
	k, diags := p.Kinds.Find(typ)
	if diags.HasErrors() {
		return "", diags
	}
	args, diags := k.Decode(config)
	if diags.HasErrors() {
		return "", diags
	}
	args, diags = k.spec().Complete(args, p.Env)
	if diags.HasErrors() {
		return "", diags
	}
	if k.Address != nil {
		return k.Address(p, args, workspace), nil
	}
	return k.located(args), nil
}

// located returns the arguments that say where the states are.
func (k *Kind) located(args Arguments) string {
	names := k.Located
	if names == nil {
		for name := range k.Type().AttributeTypes() {
			if a := k.Schema.Attributes[name]; a == nil || !a.Sensitive {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	all := args.Recorded(k)
	var out []string
	for _, name := range names {
		outer, inner, nested := strings.Cut(name, ".")
		v := all.GetAttr(outer)
		if nested && !v.IsNull() {
			v = v.GetAttr(inner)
		}
		if v.IsNull() || !v.IsWhollyKnown() {
			continue
		}
		if v.Type() == cty.String {
			out = append(out, name+"="+v.AsString())
			continue
		}
		text, err := ctyjson.Marshal(v, v.Type())
		if err != nil {
			panic(fmt.Sprintf("the argument %s of the backend %q has no JSON form: %s", name, k.Name, err))
		}
		out = append(out, name+"="+string(text))
	}
	return strings.Join(out, " ")
}

// Open opens a backend. config is the value of its block or map: an object or a map, or null for no arguments. The
// diagnostics have no source range; those about an argument have its path.
func (p Place) Open(ctx context.Context, typ string, config cty.Value) (Backend, diag.List) {
	p = p.withDefaults()
	k, diags := p.Kinds.Find(typ)
	if diags.HasErrors() {
		return nil, diags
	}
	args, diags := k.Decode(config)
	if diags.HasErrors() {
		return nil, diags
	}
	if !args.WhollyKnown() {
		return nil, diag.Errors("Invalid backend configuration",
			fmt.Sprintf("The configuration of the backend %q is not known yet.", typ), nil)
	}
	args, more := k.spec().Complete(args, p.Env)
	diags = diags.Append(more)
	for _, name := range slices.Sorted(maps.Keys(k.Schema.Attributes)) {
		if k.Schema.Attributes[name].Required && !args.Set(name) {
			diags = diags.Append(missing(name, k.Env[name]))
		}
	}
	if diags.HasErrors() {
		return nil, diags
	}
	b, more := k.Open(ctx, p, args)
	return b, diags.Append(more)
}

func missing(name string, env []string) *diag.Diagnostic {
	detail := fmt.Sprintf("The attribute %q is required by the backend. Set it in the block, or with "+
		"-backend-config=%s=VALUE", name, name)
	if len(env) > 0 {
		detail += ", or in the environment as " + strings.Join(env, " or ")
	}
	return arguments.Problem(cty.GetAttrPath(name), "Missing required argument", detail+".")
}

// Environment returns the operation's environment for clients of services.
func (p Place) Environment() cloud.Environment {
	return cloud.Environment{Dir: p.Dir, Environ: p.Environ, Env: p.Env, UserAgent: p.UserAgent}
}

// Path returns the path of a file: relative ones refer to the directory of the place.
func (p Place) Path(name string) string { return p.Environment().Path(name) }

// Transport returns a new HTTP transport with the proxies and the file of certificate authorities of the
// operation's environment. The caller closes its idle connections.
func (p Place) Transport() *http.Transport { return p.Environment().Transport() }
