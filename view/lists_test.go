package view_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/querying"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

func someList() (*querying.List, *querying.Object) {
	at := addr.Resource{Mode: addr.List, Type: "a_b", Name: "c"}.Absolute(addr.RootInstance).Instance(addr.StringKey("eu"))
	l := &querying.List{Addr: at, Type: "a_b", Managed: &querying.Managed{IdentityVersion: 3}, Limit: 2, Total: 2, Left: 1,
		Input: cty.ObjectVal(map[string]cty.Value{"region": cty.StringVal("eu"),
			"key": cty.StringVal("hush").Mark(marks.Sensitive)})}
	return l, &querying.Object{Name: "The\nfirst", Identity: cty.ObjectVal(map[string]cty.Value{
		"id": cty.StringVal("x"), "legs": cty.NumberIntVal(6), "none": cty.NullVal(cty.String)}),
		Value: cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("n"),
			"password": cty.StringVal("secret").Mark(marks.Sensitive)}), Config: cty.NilVal}
}

func TestMessagesOfAListHaveTheFieldsThatProgramsRead(t *testing.T) {
	var out bytes.Buffer
	s := document.NewStream(document.StreamOptions{Out: &out, EngineVersion: "1.12.6",
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }})
	l, o := someList()
	s.ListStart(l)
	s.ListFound(l, o, "resource {}", "import {}")
	s.ListComplete(l)
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "\n") // without the version
	const head = `{"@level":"info","@message":"list.a_b.c[\"eu\"]: `
	const middle = `","@module":"tofu.ui","@timestamp":"2026-01-02T03:04:05.000000Z",`
	want := head + "Starting query..." + middle + `"list_start":{"address":"list.a_b.c[\"eu\"]","resource_type":"a_b",` +
		`"input_config":{"key":null,"region":"eu"}},"type":"list_start"}` + "\n" +
		head + "Result found" + middle + `"list_resource_found":{"address":"list.a_b.c[\"eu\"]","display_name":"The\nfirst",` +
		`"identity":{"id":"x","legs":6,"none":null},"identity_version":3,"resource_type":"a_b",` +
		`"resource_object":{"name":"n","password":null},"config":"resource {}","import_config":"import {}"},` +
		`"type":"list_resource_found"}` + "\n" +
		head + "List complete" + middle + `"list_complete":{"address":"list.a_b.c[\"eu\"]","resource_type":"a_b","total":2,` +
		`"millipede_managed":1},"type":"list_complete"}` + "\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestAListedObjectIsOneLine(t *testing.T) {
	l, o := someList()
	got := view.FoundText(l, o) + view.ListedText(l, view.TextOptions{})
	want := "list.a_b.c[\"eu\"]   id=x,legs=6   The first\n" +
		"list.a_b.c[\"eu\"]: 2 objects. 1 managed object was left out. There may be more: the limit is 2.\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestCandidatesShowWhatWasSentBesideWhatWasFound(t *testing.T) {
	at := addr.Resource{Mode: addr.Managed, Type: "a_b", Name: "c"}.Absolute(addr.RootInstance).Instance(addr.IntKey(1))
	_, o := someList()
	got := view.CandidatesText(at, []operation.Candidate{{ID: "i", Name: o.Name, Identity: o.Identity,
		Same: []string{"name", "region"}, Different: []operation.Difference{{Name: "tags",
			Sent: cty.ListVal([]cty.Value{cty.StringVal("a")}), Found: cty.NullVal(cty.List(cty.String))}}}}, view.TextOptions{})
	const want = `a_b.c[1] could be:

  id=x,legs=6   [id=i]   The first
    as sent:   name, region
    different: tags was sent as tolist([ "a", ]), found is tolist(null) /* of string */

This does not prove that the operation has made the object. Record the outcome with:
  runs resolve 'a_b.c[1]' -created=ID
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
