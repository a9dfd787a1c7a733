// Package drivers_test drives the built coordinator as the ecosystem's own tools do: terraform-exec runs its commands,
// terraform-plugin-testing runs acceptance tests of the test providers with it. Both believe it to be terraform.
package drivers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// binary is the coordinator; mirror is a CLI configuration with which init installs the provider fleet.
var binary, mirror string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "drivers")
	if err != nil {
		return 0, err
	}
	defer func() {
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
	}()
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	binary = filepath.Join(dir, "coordinator"+suffix)
	if err := build(filepath.Join("..", "..", ".."), binary, "./cmd/coordinator"); err != nil {
		return 0, err
	}
	platform := filepath.Join(dir, "mirror", "registry.opentofu.org", "millipede", "fleet", "1.0.0",
		runtime.GOOS+"_"+runtime.GOARCH)
	if err := build(filepath.Join(".."), filepath.Join(platform, "terraform-provider-fleet_v1.0.0"+suffix),
		"./cmd/terraform-provider-fleet"); err != nil {
		return 0, err
	}
	mirror = filepath.Join(dir, "cli.tfrc")
	config := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n",
		filepath.Join(dir, "mirror"))
	if err := os.WriteFile(mirror, []byte(config), 0o600); err != nil {
		return 0, err
	}
	// Nothing of the machine's own gets in: neither a configuration nor a server.
	for name, value := range map[string]string{
		"TF_CLI_CONFIG_FILE": mirror, "MILLIPEDE_NATS": "", "TF_REATTACH_PROVIDERS": "", "FLEET_RECORD": "",
		"FLEET_CLOUD":           "",
		"TF_ACC_TERRAFORM_PATH": binary, "TF_ACC_PROVIDER_HOST": "registry.opentofu.org", "CHECKPOINT_DISABLE": "1",
	} {
		if err := os.Setenv(name, value); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// build builds a main package of the module in dir.
func build(dir, out, pkg string) error {
	command := exec.Command("go", "build", "-o", out, pkg)
	command.Dir, command.Stderr = dir, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("building %s: %w", pkg, err)
	}
	return nil
}
