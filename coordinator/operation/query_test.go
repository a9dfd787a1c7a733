package operation_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/querying"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// catalogue has the objects of the type fake_listed, which can be listed by the beginnings of their names.
type catalogue struct {
	names []string
	// each is called, if it is not nil, before an object is listed.
	each func(ctx context.Context, name string) error

	mu           sync.Mutex // guards the rest
	running, top int        // lists at a time
	limits       []int64    // that were asked for
}

var (
	listedIdentity = schema.Object{Nesting: schema.NestingSingle, Attributes: map[string]*schema.Attribute{
		"name": {Type: cty.String, Required: true}}}
	listedConfig = schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"prefix": {Type: cty.String, Optional: true}}}}
)

// with adds the type to the schemas of the cloud.
func (l *catalogue) with(s *provider.Schemas) *provider.Schemas {
	out := *s
	out.Managed = map[string]schema.Schema{"fake_thing": thing, "fake_listed": thing}
	out.Identities = map[string]schema.Identity{"fake_listed": {Version: 2, Body: &listedIdentity}}
	out.Lists = map[string]schema.Schema{"fake_listed": listedConfig}
	return &out
}

// ValidateListConfig refuses the prefix "invalid".
func (c *cloud) ValidateListConfig(_ context.Context, r provider.ListRequest) diag.List {
	if p := r.Config.GetAttr("prefix"); p.IsKnown() && !p.IsNull() && p.AsString() == "invalid" {
		return diag.List{{Severity: diag.Error, Summary: "Invalid prefix", Path: cty.GetAttrPath("prefix")}}
	}
	return nil
}

// ListResource lists the objects whose names begin with the prefix.
func (c *cloud) ListResource(ctx context.Context, r provider.ListRequest, found func(provider.Listed) error) diag.List {
	l := c.lists
	l.mu.Lock()
	l.limits = append(l.limits, r.Limit)
	l.running++
	l.top = max(l.top, l.running)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
	}()
	prefix := ""
	if p := r.Config.GetAttr("prefix"); !p.IsNull() {
		prefix = p.AsString()
	}
	n := int64(0)
	for _, name := range l.names {
		if !strings.HasPrefix(name, prefix) || n == r.Limit {
			continue
		}
		n++
		if l.each != nil {
			if err := l.each(ctx, name); err != nil {
				return diag.Errors(err.Error(), "", nil)
			}
		}
		one := provider.Listed{DisplayName: "Object " + name,
			Identity: cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(name)}), Object: cty.NilVal}
		if r.IncludeObject {
			one.Object = cty.ObjectVal(map[string]cty.Value{
				"id": cty.StringVal("id-" + name), "name": cty.StringVal(name), "size": cty.NumberIntVal(n),
				"note": cty.NullVal(cty.String), "secret": cty.StringVal("hidden"),
			})
		}
		if found(one) != nil {
			return nil
		}
	}
	return nil
}

// finds collects what a query finds, by list.
type finds struct {
	mu    sync.Mutex
	names map[string][]string
	ended map[string]int64 // totals
	at    func(name string)
}

func (f *finds) Begun(*querying.List) {}

func (f *finds) Found(l *querying.List, o *querying.Object) {
	name := o.Identity.GetAttr("name").AsString()
	f.mu.Lock()
	f.names[l.Addr.String()] = append(f.names[l.Addr.String()], name)
	f.mu.Unlock()
	if f.at != nil {
		f.at(name)
	}
}

func (f *finds) Ended(l *querying.List) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended[l.Addr.String()] = l.Total
}

// newCatalogue returns an estate whose provider has n objects to list, and a configuration with a query file.
func newCatalogue(t *testing.T, n int, query string) *estate {
	t.Helper()
	e := newEstate(t)
	e.cloud.lists = &catalogue{}
	for i := range n {
		e.cloud.lists.names = append(e.cloud.lists.names, fmt.Sprintf("o-%05d", i))
	}
	dir := t.TempDir()
	e.check(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(`resource "fake_thing" "t" { name = "t" }`), 0o600))
	e.check(os.WriteFile(filepath.Join(dir, "q.tfquery.hcl"), []byte(query), 0o600))
	tree, diags := config.NewLoader(config.OS{Base: dir}).LoadTree(config.TreeOptions{Locator: beside{}, Queries: true})
	e.clean(diags)
	e.session.Tree = tree
	return e
}

// query executes the query.
func (e *estate) query(prior *state.State, o operation.QueryOptions) (*finds, diag.List) {
	f, ok := o.Watcher.(*finds)
	if !ok {
		f = &finds{}
	}
	f.names, f.ended = map[string][]string{}, map[string]int64{}
	o.Watcher = f
	if prior == nil {
		prior = state.Empty()
	}
	_, diags := operation.Do(e.t.Context(), &e.session, "query",
		func(ctx context.Context, s *operation.Session) (struct{}, diag.List) {
			return struct{}{}, s.Query(ctx, prior, o)
		})
	return f, diags
}

const allListed = `
list "fake_listed" "all" {
  provider         = fake
  include_resource = true
  limit            = 5000
}
`

func TestAListOfManyPagesArrivesWholeAndInOrder(t *testing.T) {
	e := newCatalogue(t, 2300, allListed)
	f, diags := e.query(nil, operation.QueryOptions{})
	e.clean(diags)
	if got := f.names["list.fake_listed.all"]; !slices.Equal(got, e.cloud.lists.names) {
		t.Errorf("%d objects arrived, the first are %v", len(got), got[:min(3, len(got))])
	}
	if f.ended["list.fake_listed.all"] != 2300 {
		t.Errorf("the totals are %v", f.ended)
	}
}

// The answer to a call was lost, so the call was repeated, and listed from the beginning; and pages were delivered
// twice.
func TestAnObjectIsFoundOnceHoweverOftenItArrives(t *testing.T) {
	e := newCatalogue(t, 1200, allListed)
	var mu sync.Mutex
	listing, lost := false, false
	e.faults = func(op mem.Op) mem.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case op.Name == "TakeParts":
			listing = true
		case op.Name == "SendPart":
			return mem.Fault{Twice: true}
		case op.Name == "Call" && listing && !lost:
			lost = true
			return mem.Fault{After: wire.ErrLostCall}
		}
		return mem.Fault{}
	}
	f, diags := e.query(nil, operation.QueryOptions{})
	e.clean(diags)
	if n := len(e.cloud.lists.limits); n != 2 {
		t.Errorf("the objects were listed %d times, and not twice", n)
	}
	if got := f.names["list.fake_listed.all"]; !slices.Equal(got, e.cloud.lists.names) {
		t.Errorf("%d objects were found instead of 1200", len(got))
	}
}

// managedHere returns a state with some of the objects.
func managedHere(names ...string) *state.State {
	st := state.Empty()
	for i, name := range names {
		a := addr.Resource{Mode: addr.Managed, Type: "fake_listed", Name: fmt.Sprintf("r%d", i)}.
			Absolute(addr.RootInstance).Instance(addr.NoKey)
		o := &state.Object{Status: state.Ready, SchemaVersion: 1, Attrs: []byte(`{}`), IdentityVersion: 2,
			Identity: fmt.Appendf(nil, `{"name":%q}`, name)}
		if name == "" {
			o.Identity = nil
		}
		st.Apply(state.SetObject{Addr: a, Provider: fakeProvider(), Object: o})
	}
	return st
}

func fakeProvider() addr.ProviderInstance {
	return addr.ProviderConfig{Provider: addr.DefaultProvider("fake")}.Instance(addr.RootInstance, addr.NoKey)
}

func TestUnmanagedLeavesOutExactlyWhatTheStateHas(t *testing.T) {
	e := newCatalogue(t, 1000, allListed)
	var managed, foreign []string
	for i, name := range e.cloud.lists.names {
		if i%3 == 0 {
			managed = append(managed, name)
		} else {
			foreign = append(foreign, name)
		}
	}
	f, diags := e.query(managedHere(managed...), operation.QueryOptions{Unmanaged: true})
	e.clean(diags)
	if got := f.names["list.fake_listed.all"]; !slices.Equal(got, foreign) || len(diags) > 0 {
		t.Errorf("%d objects were found, %d are foreign; %v", len(got), len(foreign), diags)
	}
}

func TestTheLimitCountsForeignObjectsAlone(t *testing.T) {
	e := newCatalogue(t, 10, `list "fake_listed" "a" {
  provider = fake
  limit    = 3
}`)
	names := e.cloud.lists.names
	f, diags := e.query(managedHere(names[0], names[1], names[3]), operation.QueryOptions{Unmanaged: true})
	e.clean(diags)
	if got, want := f.names["list.fake_listed.a"], []string{names[2], names[4], names[5]}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestObjectsThatCannotBeComparedAreNamed(t *testing.T) {
	e := newCatalogue(t, 2, allListed)
	f, diags := e.query(managedHere("o-00000", ""), operation.QueryOptions{Unmanaged: true})
	e.clean(diags)
	if len(diags) != 1 || !strings.Contains(diags[0].Detail, "fake_listed.r1") ||
		!slices.Equal(f.names["list.fake_listed.all"], []string{"o-00001"}) {
		t.Errorf("found %v, and %v", f.names, diags)
	}
}

func TestAListRefersToTheResultsOfAnother(t *testing.T) {
	e := newCatalogue(t, 4, `
list "fake_listed" "first" {
  provider = fake
  limit    = 2
}
locals {
  names = [for o in list.fake_listed.first.data : o.identity.name]
}
list "fake_listed" "each" {
  provider = fake
  for_each = toset(local.names)
  config {
    prefix = each.key
  }
}
list "fake_listed" "named" {
  provider         = fake
  include_resource = true
  count            = length(list.fake_listed.each["o-00001"].data)
  config {
    prefix = list.fake_listed.each["o-00001"].data[count.index].display_name == "Object o-00001" ? "o-00003" : "none"
  }
}`)
	f, diags := e.query(nil, operation.QueryOptions{})
	e.clean(diags)
	want := map[string][]string{
		"list.fake_listed.first": {"o-00000", "o-00001"}, `list.fake_listed.each["o-00000"]`: {"o-00000"},
		`list.fake_listed.each["o-00001"]`: {"o-00001"}, "list.fake_listed.named[0]": {"o-00003"},
	}
	if d := cmp.Diff(want, f.names); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestMistakesInListBlocksAreReportedWithTheirPlaces(t *testing.T) {
	for sentence, c := range map[string]struct{ block, says, at string }{
		"an unknown argument":       {"config {\n nome = 1\n }", "Unsupported argument", "4"},
		"a refusal by the provider": {"config {\n prefix = \"invalid\"\n }", "Invalid prefix", "4"},
		"a limit of zero":           {"limit = 0", "Invalid limit", "3"},
		"a limit that is not whole": {"limit = 1.5", "Invalid limit", "3"},
		"a limit that is null":      {"limit = null", "Invalid limit argument", "3"},
		"a value that only an apply knows": {"config {\n prefix = fake_thing.t.id\n }",
			"Value is not known in a query", "4"},
		"a list that does not exist": {"config {\n prefix = list.fake_listed.b.data[0]\n }",
			"Reference to undeclared resource", "4"},
		"an attribute that lists do not have": {"}\nlist \"fake_listed\" \"b\" {\n provider = fake\n" +
			" limit = list.fake_listed.a.objects", "Unsupported attribute", "6"},
		"a list of itself": {"config {\n prefix = list.fake_listed.a.data[0].identity.name\n }", "Self-referential block",
			"4"},
		"something else in place of a number": {"limit = []", "Incorrect value type", "3"},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newCatalogue(t, 1, "list \"fake_listed\" \"a\" {\n provider = fake\n "+c.block+"\n}")
			_, diags := e.query(nil, operation.QueryOptions{})
			if len(diags) != 1 || diags[0].Summary != c.says || diags[0].Subject == nil ||
				fmt.Sprint(diags[0].Subject.Start.Line) != c.at {
				t.Fatalf("got %v", diags)
			}
		})
	}
}

func TestAnInterruptEndsAListThatTakesLong(t *testing.T) {
	e := newCatalogue(t, 3, allListed)
	begun := make(chan struct{})
	e.cloud.lists.each = func(ctx context.Context, name string) error {
		if name != "o-00002" {
			return nil
		}
		close(begun)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	go func() {
		<-begun
		e.interrupt()
	}()
	f, diags := e.query(nil, operation.QueryOptions{})
	if len(diags) != 1 || diags[0].Summary != "Operation interrupted" {
		t.Errorf("got %v", diags)
	}
	if got := f.names["list.fake_listed.all"]; len(f.ended) > 0 || len(got) > 2 {
		t.Errorf("found %v, ended %v", got, f.ended)
	}
}

// A provider lists no faster than its objects are taken, so that none pile up anywhere.
func TestAListIsHeldBackWhileNobodyTakesItsObjects(t *testing.T) {
	e := newCatalogue(t, 20000, strings.Replace(allListed, "5000", "20000", 1))
	var mu sync.Mutex
	listed, most := 0, 0
	e.cloud.lists.each = func(context.Context, string) error {
		mu.Lock()
		defer mu.Unlock()
		listed++
		return nil
	}
	taken := 0
	f, diags := e.query(nil, operation.QueryOptions{Watcher: &finds{at: func(string) {
		mu.Lock()
		defer mu.Unlock()
		taken++
		most = max(most, listed-taken)
	}}})
	e.clean(diags)
	if len(f.names["list.fake_listed.all"]) != 20000 || most > 2000 {
		t.Errorf("%d objects were found; up to %d were listed and not taken", len(f.names["list.fake_listed.all"]), most)
	}
}

func TestListsRunUnderTheLimit(t *testing.T) {
	e := newCatalogue(t, 1, `list "fake_listed" "a" {
  provider = fake
  count    = 12
}`)
	e.session.Parallelism = 3
	e.cloud.lists.each = func(context.Context, string) error { return sleep.For(t.Context(), 20*time.Millisecond) }
	_, diags := e.query(nil, operation.QueryOptions{})
	e.clean(diags)
	if got := e.cloud.lists; len(got.limits) != 12 || got.top != 3 {
		t.Errorf("%d lists, up to %d at a time", len(got.limits), got.top)
	}
}

// inDoubt returns a state in which the creation of an object is in doubt.
func inDoubt(sent string, managed ...string) (*state.State, addr.Instance) {
	st := managedHere(managed...)
	at := addr.Resource{Mode: addr.Managed, Type: "fake_listed", Name: "new"}.Absolute(addr.RootInstance).
		Instance(addr.NoKey)
	st.Apply(state.SetObject{Addr: at, Provider: fakeProvider(), Object: &state.Object{Status: state.InDoubt,
		SchemaVersion: 1, Doubt: &state.Doubt{Operation: "create", Attempt: "a", Run: "r", Sent: []byte(sent)}}})
	return st, at
}

func TestADoubtAboutACreationIsLookedUp(t *testing.T) {
	e := newCatalogue(t, 1500, allListed)
	st, at := inDoubt(`{"id":null,"name":"o-01200","size":1201,"note":null,"secret":null}`, "o-00001")
	found, diags := e.session.Candidates(t.Context(), st, at)
	e.clean(diags)
	if len(found) != 1 || found[0].ID != "id-o-01200" || fmt.Sprint(found[0].Same) != "[name size]" ||
		len(found[0].Different) > 0 {
		t.Fatalf("found %+v", found)
	}

	// Less similar objects come after it, and managed ones not at all.
	st, at = inDoubt(`{"id":null,"name":"o-00003","size":2,"note":null,"secret":null}`, "o-00000")
	found, diags = e.session.Candidates(t.Context(), st, at)
	e.clean(diags)
	var names []string
	for _, c := range found {
		names = append(names, c.Identity.GetAttr("name").AsString())
	}
	if want := "[o-00001 o-00003]"; fmt.Sprint(names) != want || found[0].Different[0].Name != "name" {
		t.Errorf("found %v, want %s", names, want)
	}
}

func TestOnlyACreationThatCanBeFoundIsLookedUp(t *testing.T) {
	e := newCatalogue(t, 2, allListed)
	st, at := inDoubt(`{}`)
	for what, c := range map[string]struct {
		change func(o *state.Object)
		says   string
	}{
		"an update":       {func(o *state.Object) { o.Doubt.Operation = "update" }, "Not a creation"},
		"nothing sent":    {func(o *state.Object) { o.Doubt.Sent = nil }, "Nothing to compare with"},
		"nothing to find": {func(o *state.Object) { o.Status = state.Ready; o.Doubt = nil }, "Nothing is in doubt"},
	} {
		with := st.Clone()
		o := *with.Object(at, state.CurrentObject)
		d := *o.Doubt
		o.Doubt = &d
		c.change(&o)
		with.Apply(state.SetObject{Addr: at, Provider: fakeProvider(), Object: &o})
		if _, diags := e.session.Candidates(t.Context(), with, at); len(diags) != 1 || diags[0].Summary != c.says {
			t.Errorf("%s: %v", what, diags)
		}
	}
	thing := addr.Resource{Mode: addr.Managed, Type: "fake_thing", Name: "t"}.Absolute(addr.RootInstance).
		Instance(addr.NoKey)
	st.Apply(state.SetObject{Addr: thing, Provider: fakeProvider(), Object: &state.Object{Status: state.InDoubt,
		Doubt: &state.Doubt{Operation: "create", Sent: []byte(`{}`)}}})
	if _, diags := e.session.Candidates(t.Context(), st, thing); len(diags) != 1 ||
		diags[0].Summary != "Objects cannot be listed" {
		t.Errorf("a type that cannot be listed: %v", diags)
	}
}
