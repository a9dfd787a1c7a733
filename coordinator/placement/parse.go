package placement

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/hashicorp/hcl/v2"
	"github.com/nats-io/nkeys"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
	"github.com/millipede-iac/millipede/wire"
)

// FileName is the name of the file with the rules, in the working directory.
const FileName = "millipede.hcl"

var fileSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{{Name: "edges"}, {Name: "refresh"}, {Name: "parallelism"}, {Name: "environment"},
		{Name: "schemas"}, {Name: "doubt_term"}, {Name: "allow_deferral"}},
	Blocks: []hcl.BlockHeaderSchema{{Type: "pool", LabelNames: []string{"name"}},
		{Type: "limit", LabelNames: []string{"name"}}, {Type: "workers", LabelNames: []string{"pool"}}, {Type: "nats"}},
}

var matcherAttributes = []hcl.AttributeSchema{{Name: "providers"}, {Name: "provider_config"}, {Name: "resource_types"},
	{Name: "modules"}}

var (
	poolSchema    = &hcl.BodySchema{Attributes: matcherAttributes}
	workersSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "nkeys", Required: true}}}
	limitSchema   = &hcl.BodySchema{Attributes: append([]hcl.AttributeSchema{{Name: "max", Required: true},
		{Name: "key"}, {Name: "pools"}}, matcherAttributes...)}
)

// Parse parses the rules. They are nil if there are errors.
func Parse(src []byte, filename string) (*Rules, diag.List) {
	f, problems := syntax.ParseConfig(src, filename, hcl.InitialPos)
	p := parser{diags: diag.List{}.Append(problems)}
	if problems.HasErrors() {
		return nil, p.diags
	}
	content, problems := f.Body.Content(fileSchema)
	p.diags = p.diags.Append(problems)
	r := &Rules{Edges: InstanceEdges, Refresh: RefreshAll}
	if a := content.Attributes["edges"]; a != nil {
		r.Edges = p.choice(a, InstanceEdges, ResourceEdges)
	}
	if a := content.Attributes["refresh"]; a != nil {
		r.Refresh = p.choice(a, RefreshAll, RefreshChanged)
	}
	if a := content.Attributes["parallelism"]; a != nil {
		r.Parallelism = p.count(a)
	}
	if a := content.Attributes["allow_deferral"]; a != nil {
		r.Deferral = p.flag(a)
	}
	if a := content.Attributes["schemas"]; a != nil {
		r.Schemas = p.poolName(a)
	}
	if a := content.Attributes["doubt_term"]; a != nil {
		r.DoubtTerm = p.term(a)
	}
	declared := map[[2]string]*hcl.Range{}
	if a := content.Attributes["environment"]; a != nil {
		r.Environment = p.variables(a)
	}
	for _, b := range content.Blocks {
		if b.Type == "nats" {
			if r.NATS != nil {
				p.fail("Duplicate nats", "The server is named in another nats block already.", &b.DefRange)
			}
			r.NATS = p.nats(b)
			continue
		}
		id := [2]string{b.Type, b.Labels[0]}
		if first := declared[id]; first != nil {
			p.fail("Duplicate "+b.Type, fmt.Sprintf("The %s %q is already declared at %s.", b.Type, b.Labels[0], first),
				&b.DefRange)
			continue
		}
		declared[id] = &b.DefRange
		p.name(b)
		switch b.Type {
		case "pool":
			r.Pools = append(r.Pools, p.pool(b))
		case "workers":
			if r.Workers == nil {
				r.Workers = map[string][]string{}
			}
			r.Workers[b.Labels[0]] = p.workers(b)
		default:
			r.Limits = append(r.Limits, p.limit(b))
		}
	}
	if p.diags.HasErrors() {
		return nil, p.diags
	}
	// The order is the same for all coordinators: permits are acquired in this order, so no two runs can wait for
	// each other.
	slices.SortFunc(r.Limits, func(a, b Limit) int {
		return cmp.Or(cmp.Compare(a.Max, b.Max),
			cmp.Compare(a.Name, b.Name))
	})
	return r, p.diags
}

// parser collects the problems of a file.
type parser struct{ diags diag.List }

func (p *parser) fail(summary, detail string, at *hcl.Range) {
	p.diags = p.diags.Append(diag.New(diag.Error, summary, detail, at))
}

func (p *parser) name(b *hcl.Block) {
	name, at := b.Labels[0], &b.LabelRanges[0]
	switch {
	case !named(name):
		p.fail("Invalid "+b.Type+" name", "A name must not be empty, and must not contain spaces.", at)
	case b.Type == "limit" && name == "default":
		p.fail("Reserved limit name", "The limit \"default\" covers everything; the attribute parallelism, or the "+
			"option -parallelism, sets its size.", at)
	}
}

// poolName decodes the name of a pool.
func (p *parser) poolName(a *hcl.Attribute) string {
	v, ok := p.value(a, cty.String, "the name of a pool")
	if !ok {
		return ""
	}
	if !named(v.AsString()) {
		p.fail("Invalid pool name", fmt.Sprintf("The argument %q names a pool: it must not be empty, and must not "+
			"contain spaces.", a.Name), a.Expr.Range().Ptr())
	}
	return v.AsString()
}

// term reads how long something may last.
func (p *parser) term(a *hcl.Attribute) time.Duration {
	v, ok := p.value(a, cty.String, "a duration, such as \"2h\"")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(v.AsString())
	if err != nil || d < time.Minute {
		p.fail("Invalid duration", fmt.Sprintf("The argument %q must be a duration of at least a minute, such as \"2h\".",
			a.Name), a.Expr.Range().Ptr())
	}
	return d
}

// named reports whether a text can be a name.
func named(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' })
}

func (p *parser) nats(b *hcl.Block) *NATS {
	n := new(NATS)
	fields := map[string]*string{
		"url": &n.URL, "creds": &n.Credentials, "nkey": &n.NKey, "user": &n.User, "ca": &n.CA,
		"cert": &n.Certificate, "key": &n.Key,
	}
	var schema hcl.BodySchema
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	content, problems := b.Body.Content(&schema)
	p.diags = p.diags.Append(problems)
	for name, a := range content.Attributes {
		if v, ok := p.value(a, cty.String, "a string"); ok {
			*fields[name] = v.AsString()
		}
	}
	if _, rest, ok := strings.Cut(n.URL, "://"); ok && strings.Contains(rest, ":") && strings.Contains(rest, "@") {
		p.fail("Password in a file that is shared", "The URL holds a password. Leave it out, and set "+
			"MILLIPEDE_NATS_PASSWORD where the coordinator runs, or use credentials or an nkey.",
			content.Attributes["url"].Expr.Range().Ptr())
	}
	return n
}

// workers decodes the workers of a pool that the operator has confirmed. If the list is empty, no worker gets the
// pool's keys.
func (p *parser) workers(b *hcl.Block) []string {
	content, problems := b.Body.Content(workersSchema)
	p.diags = p.diags.Append(problems)
	a := content.Attributes["nkeys"]
	if a == nil {
		return nil
	}
	v, ok := p.value(a, cty.List(cty.String), "a list of public nkeys of users")
	if !ok {
		return nil
	}
	list := []string{}
	for _, e := range v.AsValueSlice() {
		if e.IsNull() || !nkeys.IsValidPublicUserKey(e.AsString()) {
			p.fail("Invalid nkey", "Each worker is named by the public nkey of its NATS user: 56 characters that "+
				"begin with U. \"nk -gen user -pubout\" makes one, and nk -inkey FILE -pubout shows that of a seed.",
				a.Expr.Range().Ptr())
			continue
		}
		list = append(list, e.AsString())
	}
	return list
}

func (p *parser) pool(b *hcl.Block) Pool {
	content, problems := b.Body.Content(poolSchema)
	p.diags = p.diags.Append(problems)
	pool := Pool{Name: b.Labels[0], Matcher: p.matcher(content)}
	if !problems.HasErrors() && len(content.Attributes) == 0 {
		p.fail("Pool without a rule", fmt.Sprintf("The block does not select anything for the pool %q. It needs at least "+
			"one of the arguments providers, provider_config, resource_types and modules; providers = [\"**\"] is "+
			"everything.", pool.Name), &b.DefRange)
	}
	return pool
}

func (p *parser) limit(b *hcl.Block) Limit {
	content, problems := b.Body.Content(limitSchema)
	p.diags = p.diags.Append(problems)
	l := Limit{Name: b.Labels[0], Matcher: p.matcher(content)}
	if _, place := wire.LimitedPool(l.Name); place {
		p.fail("Invalid name of a limit", fmt.Sprintf("The name %q is that of the places in a pool, which follow the "+
			"slots of its workers. Choose another one.", l.Name), &b.DefRange)
	}
	if a := content.Attributes["max"]; a != nil {
		l.Max = int(p.count(a))
	}
	if a := content.Attributes["key"]; a != nil {
		l.Key = p.choice(a, slices.Sorted(maps.Keys(keys))...)
	}
	l.Pools = p.globs(content.Attributes["pools"], "")
	return l
}

func (p *parser) matcher(content *hcl.BodyContent) Matcher {
	as := content.Attributes
	return Matcher{
		Providers: p.globs(as["providers"], ""), ResourceTypes: p.globs(as["resource_types"], ""),
		Modules: p.globs(as["modules"], "."), Config: p.table(as["provider_config"]),
	}
}

// value evaluates an attribute to a type. There are no variables and functions.
func (p *parser) value(a *hcl.Attribute, want cty.Type, what string) (cty.Value, bool) {
	v, problems := a.Expr.Value(nil)
	p.diags = p.diags.Append(problems)
	if problems.HasErrors() {
		return v, false
	}
	got, err := syntax.Convert(v, want)
	if err != nil || got.IsNull() || !got.IsWhollyKnown() {
		p.fail("Invalid value", fmt.Sprintf("The argument %q must be %s.", a.Name, what), a.Expr.Range().Ptr())
		return got, false
	}
	return got, true
}

// count reads a number of slots.
func (p *parser) count(a *hcl.Attribute) (slots Parallelism) {
	const what = "a whole number"
	v, ok := p.value(a, cty.Number, what)
	if !ok {
		return 0
	}
	err := errors.New("must be " + what)
	if n, accuracy := v.AsBigFloat().Int64(); accuracy == big.Exact {
		slots, err = NewParallelism(n)
	}
	if err != nil {
		p.fail("Invalid value", fmt.Sprintf("The argument %q %s.", a.Name, err), a.Expr.Range().Ptr())
	}
	return slots
}

// flag decodes true or false.
func (p *parser) flag(a *hcl.Attribute) bool {
	v, ok := p.value(a, cty.Bool, "true or false")
	return ok && v.True()
}

// choice decodes one of several words.
func (p *parser) choice(a *hcl.Attribute, words ...string) string {
	what := "one of \"" + strings.Join(words, "\", \"") + "\""
	v, ok := p.value(a, cty.String, what)
	if ok && !slices.Contains(words, v.AsString()) {
		p.fail("Invalid value", fmt.Sprintf("The argument %q must be %s.", a.Name, what), a.Expr.Range().Ptr())
		ok = false
	}
	if !ok {
		return ""
	}
	return v.AsString()
}

// globs decodes a list of patterns, in which a separator other than the slash is replaced by a slash.
func (p *parser) globs(a *hcl.Attribute, separator string) []string {
	if a == nil {
		return nil
	}
	v, ok := p.value(a, cty.List(cty.String), "a list of patterns")
	if !ok {
		return nil
	}
	if v.LengthInt() == 0 {
		p.fail("Invalid value", fmt.Sprintf("The list %q is empty, so nothing could match it. Leave it out to match "+
			"everything.", a.Name), a.Expr.Range().Ptr())
	}
	var out []string
	for _, e := range v.AsValueSlice() {
		if pattern, ok := p.glob(a, e); ok {
			if separator != "" {
				pattern = strings.ReplaceAll(pattern, separator, "/")
			}
			out = append(out, pattern)
		}
	}
	return out
}

// variables decodes the names of environment variables, in which * matches any text.
func (p *parser) variables(a *hcl.Attribute) []string {
	v, ok := p.value(a, cty.List(cty.String), "a list of names of environment variables")
	if !ok {
		return nil
	}
	var out []string
	for _, e := range v.AsValueSlice() {
		switch {
		case e.IsNull() || e.AsString() == "" || strings.ContainsAny(e.AsString(), "=?[]{}\\/ "):
			p.fail("Invalid name of a variable", "Each entry is the name of an environment variable, in which * "+
				"stands for any text: AWS_PROFILE, or AWS_*.", a.Expr.Range().Ptr())
		case environ.Private(e.AsString()):
			p.fail("Variable that cannot travel", fmt.Sprintf("%s concerns the coordinator alone, or is its access "+
				"to other services, so it is not given to workers. "+
				"A provider takes values from its provider block; a provisioner, from its argument environment.",
				e.AsString()), a.Expr.Range().Ptr())
		default:
			out = append(out, e.AsString())
		}
	}
	return out
}

// table reads an object of patterns.
func (p *parser) table(a *hcl.Attribute) map[string]string {
	if a == nil {
		return nil
	}
	v, ok := p.value(a, cty.Map(cty.String), "an object of patterns")
	if !ok {
		return nil
	}
	out := map[string]string{}
	for name, e := range v.AsValueMap() {
		if pattern, ok := p.glob(a, e); ok {
			out[name] = pattern
		}
	}
	return out
}

func (p *parser) glob(a *hcl.Attribute, v cty.Value) (string, bool) {
	if v.IsNull() {
		p.fail("Invalid value", fmt.Sprintf("The argument %q must not hold null.", a.Name), a.Expr.Range().Ptr())
		return "", false
	}
	if !doublestar.ValidatePattern(v.AsString()) {
		p.fail("Invalid pattern", fmt.Sprintf("%q is not a pattern. * stands for any text without a separator, ** "+
			"for any text, ? for one character, [a-z] for one of some, {a,b} for one of some texts.", v.AsString()),
			a.Expr.Range().Ptr())
		return "", false
	}
	return v.AsString(), true
}
