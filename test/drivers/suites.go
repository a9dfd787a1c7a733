// Package drivers runs the test suites of programs that drive the command line: terraform-exec,
// terraform-plugin-testing, and the acceptance tests of providers. It changes nothing in them.
package drivers

// suite is a published test suite whose tests execute a binary that they take for terraform.
type suite struct {
	name     string
	module   string // its Go module
	version  string // in the Go module proxy; empty: the suite is in a snapshot only
	commit   string // of the snapshot
	packages []string
	// installs are the released providers, NAME@VERSION, that the tests install before they attach their own.
	installs []string
	// floor is the number of tests that pass, subtests included. More is welcome: raise it then.
	floor int
	// known are tests that fail with OpenTofu as well, and why. Their subtests need not be named.
	known map[string]string
}

// suites are the suites that are run. The versions are fixed, so that the floors are exact.
var suites = []suite{
	{name: "terraform-exec", module: "github.com/hashicorp/terraform-exec", version: "v0.25.2",
		packages: []string{"./tfexec/internal/e2etest"},
		installs: []string{"null@3.0.0", "null@3.1.0", "random@3.1.3"}, floor: 129,
		known: because(map[string][]string{
			"it wants the other registry as the host of providers": {"TestProvidersSchema", "TestShow", "TestShowBigInt",
				"TestShowFloat64", "TestShowPlanFileBigInt", "TestShowPlanFileFloat64", "TestShowStateFileBigInt",
				"TestShowStateFileFloat64", "TestStateMv"},
			"it asks a registry":              {"TestProvidersLock", "TestProvidersMirror", "TestProvidersMirror_lockFileFalse"},
			"it wants the graph of Terraform": {"TestGraph"},
			"required_version in a file of the kind .tf is not about OpenTofu": {"TestTFVersionMismatch"},
		}, "e2etest.")},
	{name: "terraform-plugin-testing", module: "github.com/hashicorp/terraform-plugin-testing", version: "v1.16.0",
		packages: []string{"./..."},
		installs: []string{"time@0.14.2", "random@3.2.0", "random@3.5.1", "null@3.1.0", "null@3.1.1"}},
	{name: "terraform-provider-time", module: "github.com/hashicorp/terraform-provider-time", version: "v0.14.2",
		packages: []string{"./internal/provider"}, installs: []string{"time@0.8.0"}, floor: 53,
		known: because(map[string][]string{
			"an object that is created triggers a replacement, too": {"TestAccTimeRotating_LifecycleReplaceTriggeredBy"},
		}, "provider.")},
	{name: "terraform-provider-random", commit: "ad788e233bb42be5ecad3ba8f43de0d9d9dc7185",
		packages: []string{"./internal/provider"},
		installs: []string{"random@2.2.1", "random@3.1.3", "random@3.2.0", "random@3.3.2", "random@3.4.2"}},
	{name: "terraform-provider-null", commit: "620826048cda8fee5b6de9ead03950f2abd6e883",
		packages: []string{"./internal/provider"}, installs: []string{"null@3.1.1"}, floor: 25},
	{name: "terraform-provider-local", commit: "d480f231e2bcdf7dade9844c87663a70fac7e5e6",
		packages: []string{"./internal/provider"}, installs: []string{"local@2.2.3"}, floor: 42},
	{name: "terraform-provider-tls", commit: "d72d90e1b47b7cb5ce6863f528af3154963d61b7",
		packages: []string{"./internal/provider"}, installs: []string{"tls@3.1.0", "tls@3.4.0", "tls@4.1.0", "tls@4.2.0"}},
	{name: "terraform-provider-corner", commit: "0b39e8b76d2b1e6ba7666ec6aefd139506774091",
		packages: []string{"./..."}, installs: []string{"random@3.5.1", "time@0.14.2"}},
}

// because returns the reasons by test.
func because(tests map[string][]string, prefix string) map[string]string {
	out := map[string]string{}
	for reason, names := range tests {
		for _, name := range names {
			out[prefix+name] = reason
		}
	}
	return out
}
