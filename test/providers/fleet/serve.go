package fleet

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// address is the provider's source; the framework prints it for debuggers.
func address(name string) string { return "registry.opentofu.org/millipede/" + name }

// Serve serves the provider over plugin protocol 6 until its client goes.
func Serve(name string, env act.Env) error {
	f, err := New(name, true, env)
	if err != nil {
		return err
	}
	return errors.Join(tf6server.Serve(address(name), f.Server6), f.before.Log.Close())
}

// Serve5 serves the provider over plugin protocol 5 until its client goes.
func Serve5(name string, env act.Env) error {
	f, err := New(name, false, env)
	if err != nil {
		return err
	}
	return errors.Join(tf5server.Serve(address(name), f.Server5), f.before.Log.Close())
}

// Server6 returns the provider as a server of protocol 6.
func (f *Fleet) Server6() tfprotov6.ProviderServer {
	return &server6{framework6: providerserver.NewProtocol6(f)().(framework6), stage: f.before}
}

// Server5 returns the provider as a server of protocol 5.
func (f *Fleet) Server5() tfprotov5.ProviderServer {
	return &server5{framework5: providerserver.NewProtocol5(f)().(framework5), stage: f.before}
}

// framework6 and framework5 are all calls that servers of the framework answer.
type (
	framework6 interface {
		tfprotov6.ProviderServer
		tfprotov6.ListResourceServer
		tfprotov6.ActionServer
	}
	framework5 interface {
		tfprotov5.ProviderServer
		tfprotov5.ListResourceServer
		tfprotov5.ActionServer
	}
)

// server6 records that the provider was asked to stop, which the framework does not report.
type server6 struct {
	framework6
	stage *act.Stage
}

func (s *server6) StopProvider(ctx context.Context, req *tfprotov6.StopProviderRequest) (
	resp *tfprotov6.StopProviderResponse, err error) {
	recorded := s.stage.Do(ctx, record.Entry{Op: record.Stop}, act.Script{}, func(*record.Entry) error {
		resp, err = s.framework6.StopProvider(ctx, req)
		return err
	})
	return resp, recorded
}

// server5 is server6 for protocol 5.
type server5 struct {
	framework5
	stage *act.Stage
}

func (s *server5) StopProvider(ctx context.Context, req *tfprotov5.StopProviderRequest) (
	resp *tfprotov5.StopProviderResponse, err error) {
	recorded := s.stage.Do(ctx, record.Entry{Op: record.Stop}, act.Script{}, func(*record.Entry) error {
		resp, err = s.framework5.StopProvider(ctx, req)
		return err
	})
	return resp, recorded
}
