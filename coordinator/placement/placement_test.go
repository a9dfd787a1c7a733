package placement_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/wire"
)

const rules = `
edges       = "resource"
refresh     = "changed"
parallelism = 20

pool "frankfurt" {
  providers       = ["hashicorp/aws"]
  provider_config = { region = "eu-*" }
}

pool "network" {
  modules = ["module.net", "module.net.**"]
}

pool "slow" {
  resource_types = ["aws_{db,rds}_*"]
}

limit "all-aws" {
  max       = 50
  providers = ["registry.opentofu.org/hashicorp/*"]
}

limit "account" {
  max = 5
  key = "provider_config"
  providers = ["hashicorp/aws"]
}

limit "each-pool" {
  max   = 30
  key   = "pool"
  pools = ["frank*"]
}
`

func parse(t *testing.T, text string) *placement.Rules {
	t.Helper()
	r, diags := placement.Parse([]byte(text), "millipede.hcl")
	if len(diags) > 0 {
		t.Fatal(diags.Err())
	}
	return r
}

func vertex(source, resourceType, module, region string) program.Placement {
	p, _ := addr.ParseProviderSource(source)
	v := program.Placement{ResourceType: resourceType, ProviderConfig: map[string]string{}}
	v.Provider.Provider = p
	if module != "" {
		v.Module, _ = addr.ParseModuleInstance(module)
	}
	if region != "" {
		v.ProviderConfig["region"] = region
		v.ProviderRegion = region
	}
	return v
}

func TestTheFirstPoolRuleThatMatchesWins(t *testing.T) {
	r := parse(t, rules)
	live := func(pool string) bool { return pool == "us-east-1" }
	for claim, c := range map[string]struct {
		vertex program.Placement
		want   string
	}{
		"all parts of a rule must match": {vertex("hashicorp/aws", "aws_vpc", "", "eu-west-1"),
			"frankfurt"},
		"a provider of another region does not match": {vertex("hashicorp/aws", "aws_vpc", "", "ap-south-1"),
			"default"},
		"another provider of the region does not": {vertex("hashicorp/google", "google_x", "", "eu-west-1"),
			"default"},
		"a module matches by its path": {vertex("hashicorp/null", "null_resource", "module.net", ""),
			"network"},
		"keys of module instances do not matter": {vertex("hashicorp/null", "null_resource", `module.net["a"]`,
			""), "network"},
		"two stars match what is below": {vertex("hashicorp/null", "null_resource",
			"module.net.module.x", ""), "network"},
		"a name that only begins so does not": {vertex("hashicorp/null", "null_resource", "module.network",
			""), "default"},
		"the first of two rules counts": {vertex("hashicorp/aws", "aws_db_instance", "module.net", ""),
			"network"},
		"alternatives match": {vertex("hashicorp/aws", "aws_rds_cluster", "", ""), "slow"},
		"without a rule a region with workers is used": {vertex("hashicorp/aws", "aws_vpc", "", "us-east-1"),
			"us-east-1"},
	} {
		if got, _ := r.Place(c.vertex, live); got != c.want {
			t.Errorf("%s: placed in %s, want %s", claim, got, c.want)
		}
	}
}

func TestTheRegionOfTheResourceCountsBeforeThatOfTheProvider(t *testing.T) {
	v := vertex("hashicorp/aws", "aws_vpc", "", "us-east-1")
	v.Region = "eu-west-1"
	everywhere := func(string) bool { return true }
	var none *placement.Rules
	if got, limits := none.Place(v, everywhere); got != "eu-west-1" || limits != nil {
		t.Errorf("placed in %s under %v", got, limits)
	}
	if got, _ := none.Place(v, func(pool string) bool { return pool == "us-east-1" }); got != "us-east-1" {
		t.Errorf("placed in %s", got)
	}
}

func TestLimitsCoverWhatTheyMatchNarrowFirst(t *testing.T) {
	r := parse(t, rules)
	live := func(string) bool { return false }
	_, limits := r.Place(vertex("hashicorp/aws", "aws_vpc", "", "eu-west-1"), live)
	if len(limits) != 3 || limits[0].Slots != 5 || limits[1] != (wire.Limit{Name: "each-pool-frankfurt", Slots: 30}) ||
		limits[2] != (wire.Limit{Name: "all-aws", Slots: 50}) {
		t.Errorf("%v", limits)
	}
	if !strings.HasPrefix(limits[0].Name, "account-aws-") {
		t.Errorf("the name of the limit of the configuration is %s", limits[0].Name)
	}
	_, other := r.Place(vertex("hashicorp/aws", "aws_vpc", "", "eu-north-1"), live)
	if other[0].Name == limits[0].Name {
		t.Errorf("two configurations share the limit %s", other[0].Name)
	}
	_, same := r.Place(vertex("hashicorp/aws", "aws_instance", "module.x", "eu-west-1"), live)
	if same[0].Name != limits[0].Name {
		t.Errorf("one configuration has two limits, %s and %s", same[0].Name, limits[0].Name)
	}
}

func TestTheFileSaysEdgesAndRefreshAndParallelism(t *testing.T) {
	r := parse(t, rules)
	if r.Edges != placement.ResourceEdges || r.Parallelism != 20 || !r.RefreshesChanged() {
		t.Errorf("edges %s, parallelism %d, refresh %s", r.Edges, r.Parallelism, r.Refresh)
	}
	if r := parse(t, ""); !reflect.DeepEqual(r, &placement.Rules{Edges: placement.InstanceEdges,
		Refresh: placement.RefreshAll}) {
		t.Errorf("an empty file gives %+v", r)
	}
}

func TestTheFileAllowsDeferral(t *testing.T) {
	if r := parse(t, "allow_deferral = true\n"); !r.AllowsDeferral() {
		t.Error("a file that allows deferral does not")
	}
	if r := parse(t, "allow_deferral = false\n"); r.AllowsDeferral() || (*placement.Rules)(nil).AllowsDeferral() {
		t.Error("deferral is allowed without being asked for")
	}
}

func TestTheFileNamesTheServer(t *testing.T) {
	r := parse(t, "nats {\n  url   = \"tls://nats:4222\"\n  creds = \"me.creds\"\n  ca    = \"ca.pem\"\n}\n")
	if want := (placement.NATS{URL: "tls://nats:4222", Credentials: "me.creds", CA: "ca.pem"}); r.NATS == nil ||
		*r.NATS != want {
		t.Errorf("got %+v", r.NATS)
	}
	if r := parse(t, "nats {}\n"); r.NATS == nil || r.NATS.URL != "" {
		t.Errorf("an empty block gives %+v", r.NATS)
	}
}

func TestMistakesAreReportedWhereTheyAre(t *testing.T) {
	for text, want := range map[string]string{
		"pool {}\n":                                                "1: Missing name for pool",
		"pool \"x\" {\n}\n":                                        "1: Pool without a rule",
		"limit \"pool/eu\" {\n  max = 2\n}\n":                      "1: Invalid name of a limit",
		"pool \"x\" {\n  regions = []\n}\n":                        "2: Unsupported argument",
		"pool \"a b\" {\n providers = [\"*\"]\n}\n":                "1: Invalid pool name",
		"pool \"x\" {\n  providers = [\"[\"]\n}\n":                 "2: Invalid pattern",
		"pool \"x\" {\n  providers = []\n}\n":                      "2: Invalid value",
		"pool \"x\" {\n  providers = [null]\n}\n":                  "2: Invalid value",
		"pool \"x\" {\n  provider_config = 3\n}\n":                 "2: Invalid value",
		"limit \"x\" {\n}\n":                                       "1: Missing required argument",
		"limit \"x\" {\n  max = 0\n}\n":                            "2: Invalid value",
		"limit \"x\" {\n  max = 1.5\n}\n":                          "2: Invalid value",
		"limit \"x\" {\n  max = 1\n  key = \"a\"\n}\n":             "3: Invalid value",
		"limit \"default\" {\n  max = 1\n}\n":                      "1: Reserved limit name",
		"limit \"x\" {\n max = 1\n}\nlimit \"x\" {\n max = 2\n}\n": "4: Duplicate limit",
		"nats {\n  password = \"x\"\n}\n":                          "2: Unsupported argument",
		"nats {\n  url = \"nats://me:pw@host\"\n}\n":               "2: Password in a file that is shared",
		"nats {}\nnats {}\n":                                       "2: Duplicate nats",
		"edges = \"both\"\n":                                       "1: Invalid value",
		"refresh = \"none\"\n":                                     "1: Invalid value",
		"parallelism = var.x\n":                                    "1: Variables not allowed",
		"parallelism = \"lots\"\n":                                 "1: Invalid value",
		"worker \"x\" {}\n":                                        "1: Unsupported block type",
		"pool \"x\" {\n  providers":                                "2: Argument or block definition required",
	} {
		r, diags := placement.Parse([]byte(text), "millipede.hcl")
		if r != nil || len(diags) == 0 {
			t.Errorf("%q: no error", text)
			continue
		}
		line, summary, _ := strings.Cut(want, ": ")
		d := diags[0]
		if d.Summary != summary || d.Subject == nil || line != string(rune('0'+d.Subject.Start.Line)) {
			t.Errorf("%q: %s at %v, want %s", text, d.Summary, d.Subject, want)
		}
	}
}

// The bounds of parallelism were checked twice, here and for the option, with different messages.
func TestANumberOfSlotsIsCheckedAsTheOptionIs(t *testing.T) {
	for text, want := range map[string]string{
		"3": "", "1000000": "", "0": "1000000, and not 0", "-1": "1000000, and not -1",
		"1000001": "1000000, and not 1000001", "1.5": "must be a whole number.", "1e30": "must be a whole number.",
	} {
		r, diags := placement.Parse([]byte("parallelism = "+text+"\n"), "millipede.hcl")
		switch {
		case want == "" && (diags.HasErrors() || strconv.Itoa(r.Slots(0)) != text):
			t.Errorf("%s: %v", text, diags.Err())
		case want != "" && (!diags.HasErrors() || !strings.Contains(diags[0].Detail, want)):
			t.Errorf("the error for %s is: %v, want %q", text, diags.Err(), want)
		}
	}
}

func TestALongKeyMakesAShortNameOfItsOwn(t *testing.T) {
	r := parse(t, "limit \"m\" {\n  max = 1\n  key = \"module\"\n}\n")
	name := func(module string) string {
		_, limits := r.Place(vertex("hashicorp/null", "x", module, ""), func(string) bool { return false })
		return limits[0].Name
	}
	long := "module." + strings.Repeat("a", 100)
	a, b := name(long+".module.b"), name(long+".module.c")
	if a == b || len(a) > 60 {
		t.Errorf("%s and %s", a, b)
	}
	if got := name("module.b"); got != "m-module.b" {
		t.Errorf("%s", got)
	}
}

func TestTheFileNamesVariablesThatTravelAndNoneThatMustNot(t *testing.T) {
	r := parse(t, `environment = ["AWS_*", "HTTPS_PROXY"]`)
	env := environ.Variables{"AWS_PROFILE=a", "HTTPS_PROXY=p", "HOME=/", "TF_VAR_x=1", "NATS_PASSWORD=x"}
	if got := env.Selected(r.Environment); !slices.Equal(got, environ.Variables{"AWS_PROFILE=a", "HTTPS_PROXY=p"}) {
		t.Errorf("the variables that are sent are %q", got)
	}
	if got := env.Selected([]string{"*"}); !slices.Equal(got, environ.Variables{"AWS_PROFILE=a", "HOME=/",
		"HTTPS_PROXY=p"}) {
		t.Errorf("with the pattern for everything, the variables that are sent are %q", got)
	}
	for text, want := range map[string]string{
		`environment = ["TF_VAR_x"]`:            "Variable that cannot travel",
		`environment = ["MILLIPEDE_NATS"]`:      "Variable that cannot travel",
		`environment = ["NATS_PASSWORD"]`:       "Variable that cannot travel",
		`environment = ["A=b"]`:                 "Invalid name of a variable",
		`environment = [""]`:                    "Invalid name of a variable",
		`environment = { AWS_PROFILE = "dev" }`: "Invalid value",
	} {
		_, diags := placement.Parse([]byte(text), "millipede.hcl")
		if len(diags) != 1 || diags[0].Summary != want || diags[0].Subject == nil {
			t.Errorf("%s: %v", text, diags.Err())
		}
	}
}

func TestTheFileSaysHowLongAnOperationInDoubtMayStillBeRunning(t *testing.T) {
	if got := (*placement.Rules)(nil).Term(); got != 24*time.Hour {
		t.Errorf("without a file: %s", got)
	}
	if got := parse(t, `doubt_term = "90m"`).Term(); got != 90*time.Minute {
		t.Errorf("it is %s", got)
	}
	for text, want := range map[string]string{`doubt_term = "soon"`: "Invalid duration",
		`doubt_term = "5s"`: "Invalid duration", `doubt_term = ["1h"]`: "Invalid value"} {
		if _, diags := placement.Parse([]byte(text), "millipede.hcl"); len(diags) != 1 || diags[0].Summary != want {
			t.Errorf("%s: %v", text, diags.Err())
		}
	}
}

func TestALimitOfOnePoolIsNotShared(t *testing.T) {
	r := parse(t, "limit \"a\" {\n  max = 1\n  key = \"pool\"\n}\nlimit \"b\" {\n  max = 1\n  pools = [\"eu\"]\n}\n"+
		"limit \"c\" {\n  max = 1\n  pools = [\"eu*\"]\n}\nlimit \"d\" {\n  max = 1\n  pools = [\"eu\"]\n"+
		"  key = \"resource_type\"\n}\nlimit \"e\" {\n  max = 1\n  pools = [\"eu\", \"us\"]\n}\n")
	for limit, want := range map[string]bool{"default": false, "pool/eu": true, "a-eu": true, "b": true, "c": false,
		"d-x": true, "e": false} {
		if r.OfOnePool(limit) != want {
			t.Errorf("the limit %q is of one pool: %t", limit, !want)
		}
	}
	if (*placement.Rules)(nil).OfOnePool("default") {
		t.Error("without a file, the limit of all operations is of one pool")
	}
}
