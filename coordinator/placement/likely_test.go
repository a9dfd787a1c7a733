package placement_test

import (
	"testing"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/addr"
)

func TestALikelyPoolIsNeverAGuess(t *testing.T) {
	rules, diags := placement.Parse([]byte(`
pool "us" {
  providers       = ["hashicorp/aws"]
  provider_config = { profile = "us-*" }
}
pool "rest" {
  providers = ["hashicorp/aws"]
}
`), placement.FileName)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	aws, other := addr.DefaultProvider("aws"), addr.DefaultProvider("time")
	live := func(pool string) bool { return pool == "eu" }
	for name, c := range map[string]struct {
		rules    *placement.Rules
		provider addr.Provider
		at       program.Placement
		unknown  placement.Unknown
		pool     string
	}{
		"by a block": {rules, aws, program.Placement{ProviderConfig: map[string]string{"profile": "us-1"}},
			placement.Unknown{}, "us"},
		"a block may match": {rules, aws, program.Placement{},
			placement.Unknown{Config: map[string]bool{"profile": true}}, ""},
		"a block cannot match": {rules, other, program.Placement{},
			placement.Unknown{Config: map[string]bool{"profile": true}}, "default"},
		"by the region":           {nil, aws, program.Placement{Region: "eu"}, placement.Unknown{}, "eu"},
		"a region is not known":   {nil, aws, program.Placement{ProviderRegion: "eu"}, placement.Unknown{Region: true}, ""},
		"no worker in the region": {nil, aws, program.Placement{Region: "us"}, placement.Unknown{}, "default"},
		"the provider's region is not known": {nil, aws, program.Placement{},
			placement.Unknown{Config: map[string]bool{"region": true}}, ""},
	} {
		c.at.Provider = addr.ProviderInstance{Provider: c.provider}
		pool, ok := c.rules.Likely(c.at, c.unknown, live)
		if pool != c.pool || ok != (c.pool != "") {
			t.Errorf("%s: %q, %t", name, pool, ok)
		}
	}
}
