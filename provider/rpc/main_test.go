package rpc

import (
	"context"
	"net"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/tfplugin5"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect serves, in this process, the service that register registers, and returns a connection to it.
func connect(t *testing.T, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.MaxSendMsgSize(1<<30), grpc.MaxRecvMsgSize(1<<30))
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error) {
			return listener.DialContext(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serving: %s", err)
		}
	})
	return conn
}

// plugin6 returns the provider of a server of version 6.
func plugin6(t *testing.T, server tfplugin6.ProviderServer, o Options) *Provider {
	t.Helper()
	o.Name = "example.com/test/thing"
	p, err := New(connect(t, func(s *grpc.Server) { tfplugin6.RegisterProviderServer(s, server) }), 6, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func plugin5(t *testing.T, server tfplugin5.ProviderServer, o Options) *Provider {
	t.Helper()
	o.Name = "example.com/test/thing"
	p, err := New(connect(t, func(s *grpc.Server) { tfplugin5.RegisterProviderServer(s, server) }), 5, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// thing6 is a plugin of version 6 with one type of each kind. The calls are functions, so that a test sets only those
// that it uses; a call that is not set is unimplemented.
type thing6 struct {
	tfplugin6.UnimplementedProviderServer
	schema func(*tfplugin6.GetProviderSchema_Response)
	asked  int
	read   func(*tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response, error)
	plan   func(*tfplugin6.PlanResourceChange_Request) (*tfplugin6.PlanResourceChange_Response, error)
	apply  func(context.Context, *tfplugin6.ApplyResourceChange_Request) (*tfplugin6.ApplyResourceChange_Response,
		error)
	imp      func(*tfplugin6.ImportResourceState_Request) (*tfplugin6.ImportResourceState_Response, error)
	upgrade  func(*tfplugin6.UpgradeResourceState_Request) (*tfplugin6.UpgradeResourceState_Response, error)
	validate func(*tfplugin6.ValidateResourceConfig_Request) (*tfplugin6.ValidateResourceConfig_Response, error)
	open     func(*tfplugin6.OpenEphemeralResource_Request) (*tfplugin6.OpenEphemeralResource_Response, error)
	call     func(*tfplugin6.CallFunction_Request) (*tfplugin6.CallFunction_Response, error)
	identity func() (*tfplugin6.GetResourceIdentitySchemas_Response, error)
}

func (s *thing6) GetProviderSchema(context.Context, *tfplugin6.GetProviderSchema_Request) (
	*tfplugin6.GetProviderSchema_Response, error) {
	s.asked++
	resp := thingSchema()
	if s.schema != nil {
		s.schema(resp)
	}
	return resp, nil
}

func (s *thing6) GetResourceIdentitySchemas(ctx context.Context, r *tfplugin6.GetResourceIdentitySchemas_Request) (
	*tfplugin6.GetResourceIdentitySchemas_Response, error) {
	if s.identity == nil {
		return s.UnimplementedProviderServer.GetResourceIdentitySchemas(ctx, r)
	}
	return s.identity()
}

func (s *thing6) ReadResource(_ context.Context, r *tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response,
	error) {
	return s.read(r)
}

func (s *thing6) PlanResourceChange(_ context.Context, r *tfplugin6.PlanResourceChange_Request) (
	*tfplugin6.PlanResourceChange_Response, error) {
	return s.plan(r)
}

func (s *thing6) ApplyResourceChange(ctx context.Context, r *tfplugin6.ApplyResourceChange_Request) (
	*tfplugin6.ApplyResourceChange_Response, error) {
	return s.apply(ctx, r)
}

func (s *thing6) ImportResourceState(_ context.Context, r *tfplugin6.ImportResourceState_Request) (
	*tfplugin6.ImportResourceState_Response, error) {
	return s.imp(r)
}

func (s *thing6) UpgradeResourceState(_ context.Context, r *tfplugin6.UpgradeResourceState_Request) (
	*tfplugin6.UpgradeResourceState_Response, error) {
	return s.upgrade(r)
}

func (s *thing6) ValidateResourceConfig(_ context.Context, r *tfplugin6.ValidateResourceConfig_Request) (
	*tfplugin6.ValidateResourceConfig_Response, error) {
	return s.validate(r)
}

func (s *thing6) OpenEphemeralResource(_ context.Context, r *tfplugin6.OpenEphemeralResource_Request) (
	*tfplugin6.OpenEphemeralResource_Response, error) {
	return s.open(r)
}

func (s *thing6) CallFunction(_ context.Context, r *tfplugin6.CallFunction_Request) (*tfplugin6.CallFunction_Response,
	error) {
	return s.call(r)
}

func thingSchema() *tfplugin6.GetProviderSchema_Response {
	thing := &tfplugin6.Schema{Version: 3, Block: &tfplugin6.Schema_Block{Attributes: []*tfplugin6.Schema_Attribute{
		{Name: "name", Type: []byte(`"string"`), Required: true},
		{Name: "id", Type: []byte(`"string"`), Computed: true},
		{Name: "secret", Type: []byte(`"string"`), Optional: true, WriteOnly: true},
	}}}
	return &tfplugin6.GetProviderSchema_Response{
		Provider:                 &tfplugin6.Schema{Block: &tfplugin6.Schema_Block{}},
		ResourceSchemas:          map[string]*tfplugin6.Schema{"thing": thing},
		DataSourceSchemas:        map[string]*tfplugin6.Schema{"thing": thing},
		EphemeralResourceSchemas: map[string]*tfplugin6.Schema{"thing": thing},
		Functions: map[string]*tfplugin6.Function{"join": {
			Parameters: []*tfplugin6.Function_Parameter{{Name: "by", Type: []byte(`"string"`)}},
			VariadicParameter: &tfplugin6.Function_Parameter{Name: "parts", Type: []byte(`"string"`),
				AllowNullValue: true},
			Return: &tfplugin6.Function_Return{Type: []byte(`"string"`)},
		}},
	}
}

var thingType = cty.Object(map[string]cty.Type{"name": cty.String, "id": cty.String, "secret": cty.String})

func thing(name, id cty.Value) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"name": name, "id": id, "secret": cty.NullVal(cty.String)})
}

func packed(t *testing.T, v cty.Value, ty cty.Type) *tfplugin6.DynamicValue {
	t.Helper()
	b, err := msgpack.Marshal(v, ty)
	if err != nil {
		t.Fatal(err)
	}
	return &tfplugin6.DynamicValue{Msgpack: b}
}

func noProblems(t *testing.T, diags diag.List) {
	t.Helper()
	for _, d := range diags {
		t.Errorf("unexpected %s: %s", d.Severity, d.Error())
	}
}

// onlyProblem returns the only diagnostic, with the summary that the test expects.
func onlyProblem(t *testing.T, diags diag.List, summary string) *diag.Diagnostic {
	t.Helper()
	if len(diags) != 1 {
		t.Fatalf("%d diagnostics instead of one: %v", len(diags), diags)
	}
	if diags[0].Summary != summary {
		t.Fatalf("the summary is %q, not %q (%s)", diags[0].Summary, summary, diags[0].Detail)
	}
	return diags[0]
}
