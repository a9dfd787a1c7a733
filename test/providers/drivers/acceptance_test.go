package drivers_test

import (
	"crypto/rand"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/fleet"
	"github.com/millipede-iac/millipede/test/providers/legacy"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// environment is a cloud and a record of a test's own.
func environment(t *testing.T) act.Env {
	return act.Env{Record: filepath.Join(t.TempDir(), "record"), Cloud: t.TempDir()}
}

// served6 and served5 serve the provider in this process: the coordinator attaches to it.
func served6(env act.Env) map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"fleet": func() (tfprotov6.ProviderServer, error) {
			f, err := fleet.New("fleet", true, env)
			if err != nil {
				return nil, err
			}
			return f.Server6(), nil
		},
		"echo": echoprovider.NewProviderServer(),
	}
}

func served5(env act.Env) map[string]func() (tfprotov5.ProviderServer, error) {
	return map[string]func() (tfprotov5.ProviderServer, error){
		"fleet5": func() (tfprotov5.ProviderServer, error) {
			f, err := fleet.New("fleet5", false, env)
			if err != nil {
				return nil, err
			}
			return f.Server5(), nil
		},
		"legacy": func() (tfprotov5.ProviderServer, error) {
			stage, err := env.Open("legacy", rand.Reader)
			if err != nil {
				return nil, err
			}
			return legacy.New(env, stage).GRPCProvider(), nil
		},
	}
}

// life is a machine's: made, changed in place, replaced, refreshed, imported, destroyed.
func life(kind string) []resource.TestStep {
	at := kind + ".a"
	action := func(a plancheck.ResourceActionType) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(at, a)}}
	}
	text := func(rest string) string { return "resource \"" + kind + "\" \"a\" {\n  name = \"a\"\n" + rest + "}\n" }
	return []resource.TestStep{
		{Config: text(""), ConfigPlanChecks: action(plancheck.ResourceActionCreate),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(at, tfjsonpath.New("size"), knownvalue.StringExact("small")),
				statecheck.ExpectKnownValue(at, tfjsonpath.New("id"), knownvalue.NotNull()),
				statecheck.ExpectSensitiveValue(at, tfjsonpath.New("password")),
			}},
		{Config: text("  size = \"large\"\n"), ConfigPlanChecks: action(plancheck.ResourceActionUpdate)},
		{Config: text("  size = \"large\"\n  image = \"new\"\n"),
			ConfigPlanChecks: action(plancheck.ResourceActionReplace)},
		{RefreshState: true},
		{ResourceName: at, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"password"}},
		{ResourceName: at, ImportState: true, ImportStateKind: resource.ImportBlockWithID},
		{Config: text("  size = \"huge\"\n  image = \"new\"\n  fail_on = [\"update\"]\n"),
			ExpectError: regexp.MustCompile(`(?i)fail`)},
	}
}

func TestTheLifeOfAMachineOverProtocol6(t *testing.T) {
	env := environment(t)
	resource.UnitTest(t, resource.TestCase{ProtoV6ProviderFactories: served6(env), Steps: life("fleet_machine")})
	destroyed(t, env)
}

func TestTheLifeOfAMachineOverProtocol5(t *testing.T) {
	env := environment(t)
	resource.UnitTest(t, resource.TestCase{ProtoV5ProviderFactories: served5(env), Steps: life("fleet5_machine")})
	destroyed(t, env)
}

// destroyed checks that the last step left nothing in the cloud.
func destroyed(t *testing.T, env act.Env) {
	t.Helper()
	r, err := record.ReadFile(env.Record)
	must(t, err)
	if made, gone := r.Count(record.Create), r.Count(record.Delete); made == 0 || made != gone {
		t.Errorf("%d creations, %d deletions", made, gone)
	}
}

func TestALegacyItemIsKeptAsItsProviderMangledIt(t *testing.T) {
	resource.UnitTest(t, resource.TestCase{
		ProtoV5ProviderFactories: served5(environment(t)),
		Steps: []resource.TestStep{{
			Config: "resource \"legacy_item\" \"a\" {\n  name = \"a\"\n}\n",
			Check:  resource.TestCheckResourceAttrSet("legacy_item.a", "id"),
		}},
	})
}

// A token that must be renewed every fifth of a second, in a provider's configuration, is renewed while a machine takes
// its time.
func TestATokenIsRenewedWhileItIsOpen(t *testing.T) {
	env := environment(t)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: served6(env),
		Steps: []resource.TestStep{{
			Config: `
ephemeral "fleet_token" "t" {
  name     = "t"
  renew_ms = 200
}

resource "fleet_machine" "slow" {
  name      = "slow"
  create_ms = 1500
}

provider "echo" {
  data = { token = ephemeral.fleet_token.t.token, after = fleet_machine.slow.id }
}

resource "echo" "e" {}
`,
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue("echo.e", tfjsonpath.New("data").AtMapKey("token"),
					knownvalue.StringRegexp(regexp.MustCompile("^token-"))),
			},
		}},
	})
	r, err := record.ReadFile(env.Record)
	must(t, err)
	if opened, renewed, closed := r.Count(record.Open), r.Count(record.Renew), r.Count(record.Close); opened == 0 ||
		renewed < 3 || closed != opened {
		t.Errorf("opened %d times, renewed %d times, closed %d times", opened, renewed, closed)
	}
}
