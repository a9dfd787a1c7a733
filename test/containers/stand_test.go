// Package containers starts the three regions of deploy/compose in Docker as their page says, applies an example, and
// injects faults into the containers while people apply changes. It needs Docker and docker-compose, and nothing from a
// registry.
package containers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/disk"
)

var (
	docker = flag.Bool("docker", false, "start containers; port 8443 must be free")
	faults = flag.Int("faults", 3, "how many faults of each kind")
	seed   = flag.Uint64("seed", 1, "of the faults")
	cut    = flag.Duration("cut", 30*time.Second, "how long the network of a region is away")
)

// stand is the deployment under test: a copy of deploy/compose with passwords of its own.
type stand struct {
	*testing.T
	root string // of the repository
	dir  string // of the copy
	// cloud and record are where the test providers keep objects and record calls; all workers have both.
	cloud, record string
	project       string
	override      string // a file that changes compose.yaml for the tests; empty for none
	// disks are the small disks of some containers, by the name of the service.
	disks map[string]*disk.Volume

	token  string
	client *client.Client
	http   *http.Client
}

// command executes a program, and returns its output.
func (s *stand) command(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "COMPOSE_PROJECT_NAME="+s.project, "PORT=8443",
		"COMPOSE_FILE=compose.yaml"+s.override)
	out, err := c.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// must executes a program that must succeed.
func (s *stand) must(name string, args ...string) string {
	s.Helper()
	out, err := s.command(s.Context(), filepath.Join(s.dir, "compose"), name, args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// newStand builds the images, and copies what a user has in deploy. Everything of it is removed with the test.
func newStand(t *testing.T) *stand {
	t.Helper()
	if !*docker {
		t.Skip("without -docker: make containers runs it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{T: t, root: root, dir: t.TempDir(), project: fmt.Sprintf("millipede-test-%d", os.Getpid()),
		disks: map[string]*disk.Volume{}}
	s.cloud, s.record = filepath.Join(s.dir, "fleet", "cloud"), filepath.Join(s.dir, "fleet", "record")
	for _, folder := range []string{"compose", "nats", "prometheus", "grafana"} {
		theirs := copied{os.DirFS(filepath.Join(root, "deploy", folder))}
		if err := os.CopyFS(filepath.Join(s.dir, folder), theirs); err != nil {
			t.Fatal(err)
		}
	}
	for _, script := range []string{"compose/start"} { // CopyFS keeps no more of a mode than whether it can be executed
		if err := os.Chmod(filepath.Join(s.dir, script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	made, err := build()
	if err != nil {
		t.Fatal(err)
	}
	for program, tag := range made.images {
		t.Setenv(strings.ToUpper(program)+"_IMAGE", tag)
	}
	t.Cleanup(s.remove)
	return s
}

// built is what all tests need.
type built struct {
	dir       string
	images    map[string]string // the tags in Docker, by program
	providers string            // the mirror of the test providers
}

// build builds the images and the test providers, once, and loads the images into Docker.
var build = sync.OnceValues(func() (b built, err error) {
	if b.dir, err = os.MkdirTemp("", "millipede-containers-"); err != nil {
		return b, err
	}
	b.images, b.providers = map[string]string{}, filepath.Join(b.dir, "providers")
	images := filepath.Join(b.dir, "images")
	said, err := command("go", "-C", "../../deploy/images", "run", ".", "-out", images, "-platforms",
		"linux/"+runtime.GOARCH, "millipede-coordinator", "millipede-worker", "millipede-nats")
	if err != nil {
		return b, err
	}
	for line := range strings.Lines(said) {
		tag, _, _ := strings.Cut(line, " ")
		name, _, ok := strings.Cut(tag, ":")
		program, ours := strings.CutPrefix(name, "millipede-")
		if !ok || !ours {
			continue // the go command reports a download
		}
		if _, err := command("docker", "load", "-q", "-i", filepath.Join(images, name+"_linux_"+runtime.GOARCH+
			".tar")); err != nil {
			return b, err
		}
		b.images[program] = tag
	}
	if len(b.images) != 3 {
		return b, fmt.Errorf("not three images were made:\n%s", said)
	}
	// The user of the containers is another one, and the images have no libraries.
	_, err = command("env", "CGO_ENABLED=0", "go", "-C", "../providers", "run", "./cmd/mirror", "-out", b.providers)
	return b, errors.Join(err, os.Chmod(b.dir, 0o755)) //nolint:gosec // for that user
})

func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *docker {
		if b, _ := build(); b.dir != "" {
			_ = os.RemoveAll(b.dir) // a temporary directory
		}
	}
	os.Exit(code)
}

// copied is the part of a folder that belongs to the project: not what a trial has left there.
type copied struct{ fs.FS }

func (c copied) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(c.FS, name)
	var out []fs.DirEntry
	for _, e := range all {
		if e.Name() != ".env" && e.Name() != "client" && e.Name() != ".terraform" {
			out = append(out, e)
		}
	}
	return out, err
}

// remove removes all containers, networks and volumes. A failed test shows what the containers said.
func (s *stand) remove() {
	dir, ctx := filepath.Join(s.dir, "compose"), context.WithoutCancel(s.Context())
	if s.Failed() {
		if out, err := s.command(ctx, dir, "docker-compose", "logs", "--no-color", "--tail=60"); err == nil {
			s.Logf("the containers said:\n%s", out)
		}
	}
	for _, name := range []string{"nats-1", "nats-2", "nats-3", "service", "worker-eu", "worker-us", "worker-ap"} {
		_, _ = s.command(ctx, dir, "docker", "unpause", s.container(name)) // most are not paused
	}
	if _, err := s.command(ctx, dir, "docker-compose", "down", "-v", "-t", "3", "--remove-orphans"); err != nil {
		s.Error(err)
	}
	for name, d := range s.disks {
		if err := d.Close(); err != nil {
			s.Errorf("the disk of %s: %v", name, err)
		}
	}
}

// container returns the name of the container of a service.
func (s *stand) container(service string) string { return s.project + "_" + service + "_1" }

// start starts everything, with the command of the page.
func (s *stand) start() {
	s.Helper()
	s.Log(strings.TrimSpace(lastLine(s.must("./start"))))
	s.connect()
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// connect makes the clients of the service's API, from the files that the script has written.
func (s *stand) connect() {
	s.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(s.dir, "compose/client", name))
		if err != nil {
			s.Fatal(err)
		}
		return text
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read("ca.pem"))
	_, rest, _ := bytes.Cut(read("credentials.tfrc"), []byte(`token = "`))
	token, _, _ := bytes.Cut(rest, []byte(`"`))
	s.token = string(token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	s.Cleanup(transport.CloseIdleConnections)
	s.http = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	var err error
	if s.client, err = client.NewClient(&client.Config{Address: "https://localhost:8443", Token: s.token,
		HTTPClient: s.http}); err != nil {
		s.Fatal(err)
	}
}

// withFleet adds the test providers to the containers, and small disks to some, where this process may mount.
func (s *stand) withFleet() {
	s.Helper()
	made, err := build()
	if err != nil {
		s.Fatal(err)
	}
	mirror := made.providers
	// The containers' user is another one.
	err = errors.Join(os.MkdirAll(s.cloud, 0o777), os.WriteFile(s.record, nil, 0o666), os.Chmod(s.cloud, 0o777),
		os.Chmod(s.record, 0o666), os.Chmod(filepath.Dir(s.cloud), 0o777), os.Chmod(s.dir, 0o755))
	for at := filepath.Dir(s.dir); err == nil && at != filepath.Dir(at) && at != os.TempDir(); at = filepath.Dir(at) {
		err = os.Chmod(at, 0o755)
	}
	if err != nil {
		s.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("services:\n")
	for service, size := range map[string]int{"service": 256 << 20, "nats-3": 192 << 20, "worker-eu": 160 << 20,
		"worker-us": 0, "worker-ap": 0} {
		fmt.Fprintf(&text, "  %s:\n    volumes:\n", service)
		if service != "nats-3" {
			fmt.Fprintf(&text, "      - %[1]s:%[1]s\n      - %[2]s:%[2]s:ro\n", filepath.Dir(s.cloud), mirror)
		}
		if v := s.small(service, size); v != "" {
			fmt.Fprintf(&text, "      - %s:/var/lib/millipede\n", v)
		}
		if service == "service" {
			fmt.Fprintf(&text, "    environment:\n      TF_CLI_CONFIG_FILE: %s/cli.tfrc\n", mirror)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "compose/override.yaml"), []byte(text.String()), 0o600); err != nil {
		s.Fatal(err)
	}
	s.override = ":override.yaml"
}

// small mounts a small disk for a container, and returns its directory; "" if there is none.
func (s *stand) small(service string, size int) string {
	s.Helper()
	if size == 0 {
		return ""
	}
	dir := filepath.Join(s.dir, "disk-"+service)
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.Fatal(err)
	}
	v, err := disk.Mount(dir, size)
	if errors.Is(err, disk.ErrUnsupported) {
		return ""
	}
	if err == nil {
		s.disks[service] = v
		err = os.Chown(dir, 65532, 65532)
	}
	if err != nil {
		s.Fatal(err)
	}
	return dir
}
