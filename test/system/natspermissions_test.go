package system

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// guarded returns a site whose NATS server uses TLS, requires a client certificate and a password, and restricts what
// each user may publish and read.
func guarded(t *testing.T, configuration string) *site.Site {
	t.Helper()
	s := site.New(t, configuration)
	certificates, err := nats.MakeCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Guard = &certificates
	s.Server()
	return s
}

// These values may be found in certain places only.
const (
	plantedEphemeral = "ephemeral-5c1f0d7be2"
	plantedPlain     = "plain-93ab40cc17"
)

const secretive = `
terraform {
  required_providers {
    fleet = { source = "millipede/fleet" }
  }
}
variable "secret" {
  type      = string
  ephemeral = true
}
provider "fleet" {
  token = var.secret
}
resource "fleet_machine" "a" {
  count             = 3
  name              = "a-${count.index}"
  region            = "eu"
  labels            = { plain = "plain-93ab40cc17" }
  secret_wo         = var.secret
  secret_wo_version = 1
  provisioner "local-exec" {
    command     = "test \"$SECRET\" = ephemeral-5c1f0d7be2 || test -n \"$SECRET\""
    environment = { SECRET = var.secret }
  }
}
`

func TestOverAGuardedServerPoolsWorkAndNoSecretReachesADisk(t *testing.T) {
	t.Parallel()
	s := guarded(t, strings.ReplaceAll(secretive, `test \"$SECRET\" = `+plantedEphemeral+` || `, ""))
	s.Write("millipede.hcl", "pool \"eu\" {\n  providers = [\"millipede/*\"]\n}\n")
	worker := s.Worker("eu")
	s.Must("init", "-no-color")
	s.Must("plan", "-no-color", "-out=tfplan", "-var=secret="+plantedEphemeral)
	s.Must("apply", "-no-color", "-var=secret="+plantedEphemeral, "tfplan")
	if n := len(s.Objects()); n != 3 {
		t.Errorf("%d objects were created", n)
	}
	if workers := s.Must("workers", "list", "-no-color"); !strings.Contains(workers, worker.ID) {
		t.Errorf("the worker is not listed:\n%s", workers)
	}

	for _, place := range []struct {
		what, dir string
		plain     bool // whether values that are not secret are stored there unencrypted
	}{
		{"the state and the plan", s.Dir, true},
		{"JetStream", s.Store, false},
		{"the worker's directory", worker.Dir, false},
	} {
		files := filesIn(t, place.dir)
		if len(files) == 0 {
			t.Errorf("%s has no files in %s", place.what, place.dir)
		}
		if name := holding(files, plantedEphemeral); name != "" {
			t.Errorf("%s: the ephemeral value is in %s", place.what, name)
		}
		if name := holding(files, plantedPlain); (name != "") != (place.plain && name != "main.tf") {
			t.Errorf("%s: the value that is not secret was found in the file %q (empty: nowhere)", place.what, name)
		}
	}
}

// holding returns the name of a file that contains a text; it does not search the configuration.
func holding(files map[string][]byte, text string) string {
	for name, data := range files {
		if filepath.Base(name) != "main.tf" && bytes.Contains(data, []byte(text)) {
			return name
		}
	}
	return ""
}

// filesIn reads all files below a directory, and the files in archives, except for provider packages.
func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "packages" || d.Name() == "providers") {
			return errOr(err, fs.SkipDir)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files[path] = data
		if !bytes.HasPrefix(data, []byte("PK")) {
			return nil
		}
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		for _, member := range archive.File {
			r, err := member.Open()
			if err != nil {
				return err
			}
			if files[path+"/"+member.Name], err = io.ReadAll(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// A worker passed its whole environment to plugins and provisioners, so a provisioner "env" in any module showed the
// NATS password of its pool.
func TestAProvisionerDoesNotGetTheNATSCredentialsOfItsWorker(t *testing.T) {
	t.Parallel()
	const configuration = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = " +
		"\"env\"\n  }\n}\n"
	remote := guarded(t, configuration)
	worker := remote.NewWorker("eu")
	remote.Write("millipede.hcl", "pool \"eu\" {\n  modules = [\"**\"]\n}\n")
	command := worker.Command()
	if !slices.ContainsFunc(command.Env, func(v string) bool { return strings.HasPrefix(v, "NATS_PASSWORD=") }) {
		t.Fatal("the worker's password is not in its environment, so this test proves nothing")
	}
	worker.Start()
	// The variables that the worker removes from its environment stayed in /proc, where a provisioner of root read them.
	seen, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", worker.PID()))
	if err == nil && (strings.Contains(string(seen), "NATS_PASSWORD=") || !strings.Contains(string(seen), "PATH=")) {
		t.Errorf("/proc shows the environment of the worker: %q", seen)
	}
	remote.Must("init", "-no-color")
	embedded := site.New(t, configuration)
	embedded.Env = []string{"MILLIPEDE_NATS_PASSWORD=unused"} // the embedded worker does not need it
	embedded.Must("init", "-no-color")
	for name, s := range map[string]*site.Site{"a worker elsewhere": remote, "the embedded worker": embedded} {
		text := s.Must("apply", "-no-color", "-auto-approve")
		if !strings.Contains(text, "PATH=") {
			t.Errorf("%s: the command's output is not shown:\n%s", name, text)
		}
		for _, variable := range []string{"MILLIPEDE_NATS", "NATS_PASSWORD=", "NATS_USER=", "NATS_KEY="} {
			if strings.Contains(text, "(local-exec): "+variable) {
				t.Errorf("%s: the environment of the provisioner has %s", name, variable)
			}
		}
	}
}

func TestAWorkerWithoutPermissionForItsPoolNamesTheMissingPermission(t *testing.T) {
	t.Parallel()
	s := guarded(t, "")
	c := s.NewWorker("eu").Command()
	c.Args[slices.Index(c.Args, "-pool=eu")] = "-pool=us"
	p := site.Started(t, "worker", c)
	if code := site.Exit(t, p); code != 1 || !strings.Contains(p.Output(), "does not permit") ||
		!strings.Contains(p.Output(), "TASKS-us.pool-us") {
		t.Errorf("exit status %d:\n%s", code, p.Output())
	}
}

func TestOnlyTheOwnerCanReadFilesWithSecrets(t *testing.T) {
	t.Parallel()
	s := site.New(t, secretive)
	s.Must("init", "-no-color")
	s.Must("plan", "-no-color", "-out=tfplan", "-var=secret=x")
	s.Must("apply", "-no-color", "-var=secret=x", "tfplan")
	remote := guarded(t, secretive)
	remote.Write("millipede.hcl", "pool \"eu\" {\n  providers = [\"millipede/*\"]\n}\n")
	worker := remote.Worker("eu")
	remote.Must("init", "-no-color")
	remote.Must("apply", "-no-color", "-auto-approve", "-var=secret=x")
	for _, dir := range []string{filepath.Join(s.Dir, ".millipede"), filepath.Join(remote.Dir, ".millipede"),
		worker.Dir} {
		checkPrivate(t, dir)
	}
	for _, name := range []string{"tfplan"} {
		if info, err := os.Stat(filepath.Join(s.Dir, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// checkPrivate checks that only the owner can read the files below a directory, because of their own modes or because
// of the mode of a directory above them.
func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "packages" { // public provider packages
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if info.Mode().Perm()&0o077 == 0 {
			if d.IsDir() && path != dir { // nobody else can enter it
				return fs.SkipDir
			}
			return nil
		}
		if !d.IsDir() {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 2 {
		t.Errorf("%d files in %s: %v", seen, dir, err)
	}
}
