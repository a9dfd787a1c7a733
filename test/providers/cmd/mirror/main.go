// Command mirror builds the test providers into a folder that init can install them from.
//
// It writes OUT/mirror, a filesystem mirror, and OUT/cli.tfrc, a CLI configuration file that allows nothing but the
// mirror: set TF_CLI_CONFIG_FILE to it. It is run in its own module, with the go command on the path.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
)

// providers has the providers to build: the main package, the source without its host, the version.
var providers = []struct{ pkg, source, name, version string }{
	{"github.com/hashicorp/terraform-provider-time", "hashicorp/time", "time", "0.14.2"},
	{"./cmd/terraform-provider-fleet", "millipede/fleet", "fleet", "1.0.0"},
	{"./cmd/terraform-provider-fleet5", "millipede/fleet5", "fleet5", "1.0.0"},
	{"./cmd/terraform-provider-legacy", "millipede/legacy", "legacy", "1.0.0"},
	{"./cmd/terraform-provider-bulk", "millipede/bulk", "bulk", "1.0.0"},
	{"./cmd/terraform-provider-unruly", "millipede/unruly", "unruly", "1.0.0"},
}

func main() {
	out := flag.String("out", "", "the folder to write to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx, *out); err != nil {
		log.Fatal(err)
	}
}

// build writes the mirror and its configuration file. Binaries are replaced in one step, so that processes that run
// them go on.
func build(ctx context.Context, out string) error {
	if out == "" {
		return errors.New("the flag -out is missing")
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	mirror := filepath.Join(out, "mirror")
	for _, p := range providers {
		dir := filepath.Join(mirror, "registry.opentofu.org", filepath.FromSlash(p.source), p.version,
			runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		binary := filepath.Join(dir, "terraform-provider-"+p.name+"_v"+p.version+suffix)
		unfinished := filepath.Join(out, "unfinished-"+p.name)
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", unfinished, p.pkg)
		build.Stdout, build.Stderr = os.Stdout, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building %s: %w", p.source, err)
		}
		if err := os.Rename(unfinished, binary); err != nil {
			return err
		}
		fmt.Println(binary)
	}
	config := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	return os.WriteFile(filepath.Join(out, "cli.tfrc"), []byte(config), 0o644)
}
