package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// errNoSnapshot: the source is in the directory of snapshots only, and that has none of it.
var errNoSnapshot = errors.New("no snapshot")

// sources finds the source code of suites and providers.
type sources struct {
	// snapshots is a directory with a Git repository for each NAME of a suite, bare or not; empty for none.
	snapshots string
	// dir is the directory into which the content of repositories is unpacked.
	dir string
}

// at returns a directory with the source code of a module's version, or of a commit of a snapshot.
func (s sources) at(ctx context.Context, name, module, version, commit string) (string, error) {
	if module != "" {
		return downloaded(ctx, module, version)
	}
	repository := filepath.Join(s.snapshots, name)
	if _, err := os.Stat(repository); s.snapshots == "" || err != nil {
		return "", fmt.Errorf("%w of %s", errNoSnapshot, name)
	}
	dir := filepath.Join(s.dir, name+"@"+commit)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	archive := filepath.Join(s.dir, name+"@"+commit+".tar")
	if _, err := output(ctx, repository, "git", "archive", "--output="+archive, commit); err != nil {
		return "", err
	}
	_, err := output(ctx, dir, "tar", "-xf", archive)
	return dir, err
}

// downloaded returns the directory of a module in the module cache.
func downloaded(ctx context.Context, module, version string) (string, error) {
	text, err := output(ctx, "", "go", "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return "", err
	}
	var found struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	return found.Dir, nil
}

// mirror builds released providers, NAME@VERSION, into a filesystem mirror, and returns a CLI configuration file that
// installs from there alone. Versions without a source are left out, and named.
func (s sources) mirror(ctx context.Context, installs []string) (file string, missing []string, err error) {
	hosts := filepath.Join(s.dir, "mirror")
	for _, each := range installs {
		name, version, _ := strings.Cut(each, "@")
		within := filepath.Join("hashicorp", name, version, runtime.GOOS+"_"+runtime.GOARCH)
		platform := filepath.Join(hosts, "registry.opentofu.org", within)
		if err := linked(platform, filepath.Join(hosts, "registry.terraform.io", within)); err != nil {
			return "", nil, err
		}
		binary := filepath.Join(platform, "terraform-provider-"+name+"_v"+version)
		if _, err := os.Stat(binary); err == nil {
			continue
		}
		module := ""
		if each == "time@0.14.2" { // the only one that is a Go module by its tags
			module = "github.com/hashicorp/terraform-provider-time"
		}
		source, err := s.at(ctx, "terraform-provider-"+name, module, "v"+version, "v"+version)
		if errors.Is(err, errNoSnapshot) {
			missing = append(missing, each)
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if _, err := output(ctx, source, "go", "build", "-mod=mod", "-o", binary, "."); err != nil {
			return "", nil, err
		}
	}
	if err := os.MkdirAll(hosts, 0o755); err != nil {
		return "", nil, err
	}
	file = filepath.Join(s.dir, "cli.tfrc")
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", hosts)
	return file, missing, os.WriteFile(file, []byte(text), 0o600)
}

// linked links a package under the name of the other registry: of the directories in a mirror, only a package may be a
// link.
func linked(to, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(to, name); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// output executes a command, and returns its standard output.
func output(ctx context.Context, dir string, command ...string) (string, error) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = dir
	var problems strings.Builder
	c.Stderr = &problems
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s in %q: %w: %s", strings.Join(command, " "), dir, err, problems.String())
	}
	return string(text), nil
}
