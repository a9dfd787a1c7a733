package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/millipede-iac/millipede/provider/tfplugin5"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// roleVariable makes this test binary a plugin that behaves as its value says.
const roleVariable = "MILLIPEDE_TEST_PLUGIN"

// ownStderr is the standard error of the process, even after go-plugin has replaced os.Stderr with a pipe.
var ownStderr = os.Stderr

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// play is the main function of a plugin process.
func play(role string) {
	fmt.Fprintf(os.Stderr, "this is a plugin that will %s\n", role)
	switch role {
	case "serve 5":
		serve(5, served{tfplugin5: true})
	case "serve 6":
		serve(6, served{})
	case "speak version 7":
		serve(7, served{})
	case "crash when it starts":
		panic("no good")
	case "hang in the handshake":
		select {}
	case "print nonsense":
		fmt.Println("hello, world")
	case "leave a child behind":
		// The child keeps the pipes of its parent open, and the parent never completes the handshake.
		child, err := os.StartProcess(os.Args[0], os.Args, &os.ProcAttr{
			Env:   []string{roleVariable + "=outlive its parent"},
			Files: []*os.File{nil, os.Stdout, os.Stderr},
		})
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(os.Stderr, "child %d\n", child.Pid)
		os.Exit(3)
	case "outlive its parent":
		<-time.After(time.Minute) // the test kills it; this is for a test that fails before
	case "host a plugin":
		hostOne()
	}
}

func serve(version int, s served) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{version: {service: s}},
		GRPCServer:       goplugin.DefaultGRPCServer,
	})
}

// served is the server side of a plugin.
type served struct {
	goplugin.NetRPCUnsupportedPlugin
	tfplugin5 bool
}

func (s served) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	if s.tfplugin5 {
		tfplugin5.RegisterProviderServer(server, &server5{})
	} else {
		tfplugin6.RegisterProviderServer(server, &server6{})
	}
	return nil
}

func (served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin is no host")
}

// server6 has no types; it reports its process ID, environment and directory as a diagnostic of validation, and dies
// when it is configured.
type server6 struct {
	tfplugin6.UnimplementedProviderServer
}

func (*server6) GetProviderSchema(context.Context, *tfplugin6.GetProviderSchema_Request) (
	*tfplugin6.GetProviderSchema_Response, error) {
	return &tfplugin6.GetProviderSchema_Response{Provider: &tfplugin6.Schema{Block: &tfplugin6.Schema_Block{}}}, nil
}

func (*server6) ValidateProviderConfig(context.Context, *tfplugin6.ValidateProviderConfig_Request) (
	*tfplugin6.ValidateProviderConfig_Response, error) {
	dir, err := os.Getwd()
	return &tfplugin6.ValidateProviderConfig_Response{Diagnostics: []*tfplugin6.Diagnostic{{
		Severity: tfplugin6.Diagnostic_WARNING,
		Summary:  fmt.Sprint(os.Getpid()),
		Detail:   os.Getenv("MILLIPEDE_TEST_COLOUR") + " in " + dir,
	}}}, err
}

func (*server6) ConfigureProvider(_ context.Context, r *tfplugin6.ConfigureProvider_Request) (
	*tfplugin6.ConfigureProvider_Response, error) {
	if strings.HasPrefix(r.TerraformVersion, "crash") {
		fmt.Fprintln(ownStderr, "it will hurt")
		go panic("configured to death")
		select {}
	}
	return &tfplugin6.ConfigureProvider_Response{}, nil
}

func (*server6) StopProvider(context.Context, *tfplugin6.StopProvider_Request) (*tfplugin6.StopProvider_Response,
	error) {
	return &tfplugin6.StopProvider_Response{}, nil
}

type server5 struct {
	tfplugin5.UnimplementedProviderServer
}

func (*server5) GetSchema(context.Context, *tfplugin5.GetProviderSchema_Request) (*tfplugin5.GetProviderSchema_Response,
	error) {
	return &tfplugin5.GetProviderSchema_Response{Provider: &tfplugin5.Schema{Block: &tfplugin5.Schema_Block{}}}, nil
}

// playing returns the package whose plugin plays a role.
func playing(t *testing.T, role string) Package {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Package{Source: "example.com/test/thing", Version: "1.2.3", Executable: self,
		Env: []string{roleVariable + "=" + role}}
}
