// Package legacy is a test provider on terraform-plugin-sdk: an item with all that the old type system allows.
//
// It is served over plugin protocol 5. The README of the module lists its resources.
package legacy

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// site has the data that a configured provider passes to its resources.
type site struct {
	stage  *act.Stage
	region string
}

// New returns the provider. Its calls before it is configured are on the given stage.
func New(env act.Env, before *act.Stage) *schema.Provider {
	return &schema.Provider{
		Schema: map[string]*schema.Schema{
			"region": {Type: schema.TypeString, Optional: true, Default: "legacy-1", Description: "Region of items " +
				"that name none. The region `nowhere` is refused.",
				ValidateFunc: func(v any, key string) (warnings []string, errs []error) {
					if v == "nowhere" {
						errs = append(errs, errors.New(`there is no region "nowhere"`))
					}
					return nil, errs
				},
			},
			"record": {Type: schema.TypeString, Optional: true, Description: "Path of the record, by default " +
				"`FLEET_RECORD` of the environment.",
				DefaultFunc: func() (any, error) { return env.Record, nil }},
			"cloud": {Type: schema.TypeString, Optional: true, Description: "Directory of the cloud, by default " +
				"`FLEET_CLOUD` of the environment.",
				DefaultFunc: func() (any, error) { return env.Cloud, nil }},
			"old_region": {Type: schema.TypeString, Optional: true, Deprecated: "Use region instead."},
			"endpoints": {Type: schema.TypeList, Optional: true, MaxItems: 1,
				Elem: &schema.Resource{Schema: map[string]*schema.Schema{
					"api": {Type: schema.TypeString, Optional: true},
				}}},
		},
		ResourcesMap:   map[string]*schema.Resource{"legacy_item": item()},
		DataSourcesMap: map[string]*schema.Resource{"legacy_lookup": lookup()},
		ConfigureContextFunc: func(ctx context.Context, d *schema.ResourceData) (any, diag.Diagnostics) {
			configured := env
			configured.Record, configured.Cloud = d.Get("record").(string), d.Get("cloud").(string)
			s := &site{stage: before, region: d.Get("region").(string)}
			if configured != env {
				stage, err := configured.Open("legacy", rand.Reader)
				if err != nil {
					return nil, diag.FromErr(err)
				}
				s.stage = stage
			}
			e := record.Entry{Op: record.Configure, Region: s.region}
			return s, diag.FromErr(s.stage.Do(ctx, e, act.Script{}, nothing))
		},
	}
}

// nothing is the effect of calls that only ask.
func nothing(*record.Entry) error { return nil }

// Serve serves the provider until its client goes.
func Serve(env act.Env) error {
	before, err := env.Open("legacy", rand.Reader)
	if err != nil {
		return err
	}
	err = tf5server.Serve("registry.opentofu.org/millipede/legacy",
		func() tfprotov5.ProviderServer { return Server(env, before) })
	return errors.Join(err, before.Log.Close())
}

// Server returns the provider as a server of protocol 5.
func Server(env act.Env, before *act.Stage) tfprotov5.ProviderServer {
	return &server{ProviderServer: New(env, before).GRPCProvider(), stage: before}
}

// server records that the provider was asked to stop, which the SDK does not report.
type server struct {
	tfprotov5.ProviderServer
	stage *act.Stage
}

func (s *server) StopProvider(ctx context.Context, req *tfprotov5.StopProviderRequest) (
	resp *tfprotov5.StopProviderResponse, err error) {
	recorded := s.stage.Do(ctx, record.Entry{Op: record.Stop}, act.Script{}, func(*record.Entry) error {
		resp, err = s.ProviderServer.StopProvider(ctx, req)
		return err
	})
	return resp, recorded
}
