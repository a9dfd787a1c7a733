package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin5"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// lister6 is a plugin that lists things.
type lister6 struct {
	thing6
	list func(*tfplugin6.ListResource_Request, grpc.ServerStreamingServer[tfplugin6.ListResource_Event]) error
}

func (s *lister6) ListResource(r *tfplugin6.ListResource_Request,
	stream grpc.ServerStreamingServer[tfplugin6.ListResource_Event]) error {
	return s.list(r, stream)
}

var thingIdentity = cty.Object(map[string]cty.Type{"name": cty.String})

func newLister() *lister6 {
	s := &lister6{}
	s.schema = func(r *tfplugin6.GetProviderSchema_Response) {
		r.ListResourceSchemas = map[string]*tfplugin6.Schema{"thing": {Block: &tfplugin6.Schema_Block{
			Attributes: []*tfplugin6.Schema_Attribute{{Name: "prefix", Type: []byte(`"string"`), Optional: true}}}}}
	}
	s.identity = func() (*tfplugin6.GetResourceIdentitySchemas_Response, error) {
		return &tfplugin6.GetResourceIdentitySchemas_Response{IdentitySchemas: map[string]*tfplugin6.ResourceIdentitySchema{
			"thing": {IdentityAttributes: []*tfplugin6.ResourceIdentitySchema_IdentityAttribute{
				{Name: "name", Type: []byte(`"string"`), RequiredForImport: true}}},
		}}, nil
	}
	return s
}

func identityOf(t *testing.T, name string) *tfplugin6.ResourceIdentityData {
	t.Helper()
	return &tfplugin6.ResourceIdentityData{IdentityData: packed(t,
		cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(name)}), thingIdentity)}
}

func listRequest(limit int64, include bool) provider.ListRequest {
	return provider.ListRequest{TypeName: "thing", Limit: limit, IncludeObject: include,
		Config: cty.ObjectVal(map[string]cty.Value{"prefix": cty.StringVal("a")})}
}

func TestListedObjectsArriveOneByOne(t *testing.T) {
	s := newLister()
	s.list = func(r *tfplugin6.ListResource_Request,
		stream grpc.ServerStreamingServer[tfplugin6.ListResource_Event]) error {
		for i := range r.Limit {
			e := &tfplugin6.ListResource_Event{DisplayName: fmt.Sprint("thing ", i), Identity: identityOf(t, fmt.Sprint(i))}
			if r.IncludeResourceObject {
				e.ResourceObject = packed(t, thing(cty.StringVal("n"), cty.StringVal(fmt.Sprint(i))), thingType)
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		return nil
	}
	p := plugin6(t, s, Options{})
	for _, include := range []bool{false, true} {
		n := 0
		noProblems(t, p.ListResource(t.Context(), listRequest(3, include), func(o provider.Listed) error {
			noProblems(t, o.Diagnostics)
			if o.DisplayName != fmt.Sprint("thing ", n) || o.Identity.GetAttr("name").AsString() != fmt.Sprint(n) ||
				(o.Object != cty.NilVal) != include {
				t.Errorf("object %d is %+v", n, o)
			}
			n++
			return nil
		}))
		if n != 3 {
			t.Errorf("%d objects arrived", n)
		}
	}
}

// A plugin that went on beyond the limit, or after nobody wanted more, kept the call open for ever.
func TestAListEndsAtItsLimitAndWhenNobodyWantsMore(t *testing.T) {
	ended := make(chan error, 2)
	s := newLister()
	s.list = func(_ *tfplugin6.ListResource_Request,
		stream grpc.ServerStreamingServer[tfplugin6.ListResource_Event]) error {
		for i := 0; ; i++ {
			if err := stream.Send(&tfplugin6.ListResource_Event{Identity: identityOf(t, fmt.Sprint(i))}); err != nil {
				ended <- err
				return err
			}
		}
	}
	p := plugin6(t, s, Options{})
	n := 0
	noProblems(t, p.ListResource(t.Context(), listRequest(5, false), func(provider.Listed) error { n++; return nil }))
	<-ended
	noProblems(t, p.ListResource(t.Context(), listRequest(500, false), func(provider.Listed) error {
		n++
		return errors.New("enough")
	}))
	<-ended
	if n != 6 {
		t.Errorf("%d objects were passed on", n)
	}
}

func TestProblemsOfOneListedObjectDoNotEndTheList(t *testing.T) {
	s := newLister()
	s.list = func(_ *tfplugin6.ListResource_Request,
		stream grpc.ServerStreamingServer[tfplugin6.ListResource_Event]) error {
		for _, e := range []*tfplugin6.ListResource_Event{
			{Diagnostic: []*tfplugin6.Diagnostic{{Severity: tfplugin6.Diagnostic_ERROR, Summary: "gone"}}},
			{DisplayName: "no identity"},
			{Identity: &tfplugin6.ResourceIdentityData{IdentityData: packed(t, cty.True, cty.Bool)}},
			{Identity: identityOf(t, "good")},
		} {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		return nil
	}
	p := plugin6(t, s, Options{})
	var got []string
	noProblems(t, p.ListResource(t.Context(), listRequest(9, false), func(o provider.Listed) error {
		if o.Diagnostics.HasErrors() {
			got = append(got, o.Diagnostics[0].Summary)
		} else {
			got = append(got, o.Identity.GetAttr("name").AsString())
		}
		return nil
	}))
	if want := "[gone Invalid provider response Invalid provider response good]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestAListThatBreaksIsLost(t *testing.T) {
	s := newLister()
	s.list = func(*tfplugin6.ListResource_Request, grpc.ServerStreamingServer[tfplugin6.ListResource_Event]) error {
		return errors.New("broken")
	}
	diags := plugin6(t, s, Options{}).ListResource(t.Context(), listRequest(9, false),
		func(provider.Listed) error { return nil })
	d := onlyProblem(t, diags, "Plugin error")
	if _, lost := d.Extra.(*provider.Lost); !lost {
		t.Errorf("the problem has %+v", d.Extra)
	}
}

// lister5 is a plugin of version 5 that lists one thing.
type lister5 struct{ thing5 }

func (s *lister5) GetResourceIdentitySchemas(_ context.Context, _ *tfplugin5.GetResourceIdentitySchemas_Request) (
	*tfplugin5.GetResourceIdentitySchemas_Response, error) {
	return &tfplugin5.GetResourceIdentitySchemas_Response{IdentitySchemas: map[string]*tfplugin5.ResourceIdentitySchema{
		"thing": {IdentityAttributes: []*tfplugin5.ResourceIdentitySchema_IdentityAttribute{
			{Name: "name", Type: []byte(`"string"`), RequiredForImport: true}}},
	}}, nil
}

func (s *lister5) GetSchema(ctx context.Context, r *tfplugin5.GetProviderSchema_Request) (
	*tfplugin5.GetProviderSchema_Response, error) {
	resp, err := s.thing5.GetSchema(ctx, r)
	resp.ListResourceSchemas = map[string]*tfplugin5.Schema{"thing": {Block: &tfplugin5.Schema_Block{
		Attributes: []*tfplugin5.Schema_Attribute{{Name: "prefix", Type: []byte(`"string"`), Optional: true}}}}}
	return resp, err
}

func (s *lister5) ListResource(_ *tfplugin5.ListResource_Request,
	stream grpc.ServerStreamingServer[tfplugin5.ListResource_Event]) error {
	return stream.Send(&tfplugin5.ListResource_Event{DisplayName: "five",
		Identity: &tfplugin5.ResourceIdentityData{IdentityData: &tfplugin5.DynamicValue{Json: []byte(`{"name":"x"}`)}}})
}

// The embedded client sends calls of version 6 under the names of version 5, streams too.
func TestAPluginOfVersion5ListsObjects(t *testing.T) {
	var got []string
	noProblems(t, withoutWarnings(plugin5(t, &lister5{}, Options{}).ListResource(t.Context(), listRequest(9, false),
		func(o provider.Listed) error {
			noProblems(t, o.Diagnostics)
			got = append(got, o.DisplayName+" "+o.Identity.GetAttr("name").AsString())
			return nil
		})))
	if fmt.Sprint(got) != "[five x]" {
		t.Errorf("got %v", got)
	}
}

func withoutWarnings(l diag.List) (out diag.List) {
	for _, d := range l {
		if d.Severity == diag.Error {
			out = append(out, d)
		}
	}
	return out
}
