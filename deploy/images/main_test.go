package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var (
	docker = flag.Bool("docker", false, "load the images into Docker, and run them")
	fresh  = flag.Bool("fresh", false, "compile everything twice, each time with a cache of its own (ten minutes)")
)

// clone makes a checkout of HEAD in a new directory, and makes it the working directory.
func clone(t *testing.T) {
	t.Helper()
	root, err := output(t.Context(), "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.Command("git", "clone", "-q", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Chdir(dir)
}

// sums returns a digest for each file below a directory.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTwoBuildsInTwoDirectoriesAreIdentical(t *testing.T) {
	var all []map[string]string
	for range 2 {
		clone(t)
		if *fresh {
			t.Setenv("GOCACHE", t.TempDir())
		}
		out := t.TempDir()
		if err := run(t.Context(), []string{"-out", out}, t.Output()); err != nil {
			t.Fatal(err)
		}
		all = append(all, sums(t, out))
	}
	if len(all[0]) < 8 {
		t.Errorf("only %d files were written", len(all[0]))
	}
	for path, sum := range all[0] {
		if all[1][path] != sum {
			t.Errorf("%s differs between two builds", path)
		}
	}
	if len(all[1]) != len(all[0]) {
		t.Errorf("one build has %d files, the other one %d", len(all[0]), len(all[1]))
	}
}

// contents reads the files of an image.
func contents(t *testing.T, img v1.Image) (headers map[string]*tar.Header, files map[string][]byte) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	headers, files = map[string]*tar.Header{}, map[string][]byte{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for archive := tar.NewReader(r); ; {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if headers[h.Name] = h; h.Typeflag == tar.TypeReg {
				if files[h.Name], err = io.ReadAll(archive); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return headers, files
}

func TestAnImageHasOneStaticProgramAndNothingThatStartsAnother(t *testing.T) {
	out := t.TempDir()
	if err := run(t.Context(), []string{"-out", out}, t.Output()); err != nil {
		t.Fatal(err)
	}
	most := map[string]int{"coordinator": 60e6, "worker": 26e6}
	for _, p := range released {
		for _, arch := range []string{"amd64", "arm64"} {
			t.Run(p.name+" "+arch, func(t *testing.T) {
				img, err := tarball.ImageFromPath(filepath.Join(out, p.name+"_linux_"+arch+".tar"), nil)
				if err != nil {
					t.Fatal(err)
				}
				headers, files := contents(t, img)
				size := 0
				for name, text := range files {
					size += len(text)
					if headers[name].Mode&0o111 != 0 && name != "usr/local/bin/"+p.binary {
						t.Errorf("%s can be executed", name)
					}
				}
				if size > most[p.binary] {
					t.Errorf("the files have %d bytes, more than %d", size, most[p.binary])
				}
				if h := headers["var/lib/millipede/"]; h == nil || h.Uid != user || h.Mode != 0o700 {
					t.Errorf("the user's directory is %+v", h)
				}
				if h := headers["tmp/"]; h == nil || h.Mode != 0o1777 {
					t.Errorf("/tmp is %+v", h)
				}
				if bytes.Contains(files["usr/local/bin/"+p.binary], []byte("/lib64/ld-linux")) {
					t.Error("the program needs a dynamic loader, which the image does not have")
				}
				if !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
					t.Error("the image has no certificates")
				}
				config, err := img.ConfigFile()
				if err != nil {
					t.Fatal(err)
				}
				if config.OS != "linux" || config.Architecture != arch || config.Config.User != "65532:65532" {
					t.Errorf("it is for %s/%s, and the user is %s", config.OS, config.Architecture, config.Config.User)
				}
				for _, label := range []string{"title", "version", "revision", "created", "source", "licenses"} {
					if config.Config.Labels["org.opencontainers.image."+label] == "" {
						t.Errorf("there is no label %s", label)
					}
				}
			})
		}
	}
}

func TestTheVersionOfAReleaseIsInTheLabelTheTagAndTheProgram(t *testing.T) {
	out := t.TempDir()
	if err := run(t.Context(), []string{"-out", out, "-version", "v1.2.3-rc1+b4", "-platforms", "linux/amd64",
		"millipede-worker"}, t.Output()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(out, "millipede-worker_linux_amd64.tar")
	m, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		t.Fatal(err)
	}
	if tags := m[0].RepoTags; !slices.Equal(tags, []string{"millipede-worker:1.2.3-rc1-b4"}) {
		t.Errorf("the tags are %v", tags)
	}
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if v := config.Config.Labels["org.opencontainers.image.version"]; v != "1.2.3-rc1+b4" {
		t.Errorf("the label says %s", v)
	}
	if _, files := contents(t, img); !bytes.Contains(files["usr/local/bin/worker"], []byte("1.2.3-rc1+b4")) {
		t.Error("the program does not have the version")
	}
}

func TestWrongOptionsAreReported(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "-out=DIR",
		"-out=x millipede-shell":         "there is no image",
		"-out=x -platforms=linux":        "not a platform",
		"-out=x -platforms=darwin/arm":   "not a platform",
		"-out=x -version=latest":         "not a semantic version",
		"-out=x -platforms=linux/amd64,": "not a platform",
	} {
		err := run(t.Context(), strings.Fields(args), t.Output())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// The strictest options of Docker: no file of the image can be changed, the user has no privileges.
func TestAnImageRunsWithoutPrivilegesOnAReadOnlyRoot(t *testing.T) {
	if !*docker {
		t.Skip("without -docker")
	}
	out := t.TempDir()
	var said bytes.Buffer
	if err := run(t.Context(), []string{"-out", out, "-platforms", "linux/amd64"}, &said); err != nil {
		t.Fatal(err)
	}
	strict := []string{"run", "--rm", "--network=none", "--read-only", "--user=65532", "--cap-drop=ALL",
		"--security-opt=no-new-privileges"}
	dockerRun := func(args ...string) (string, error) {
		text, err := exec.Command("docker", append(slices.Clone(strict), args...)...).CombinedOutput()
		return string(text), err
	}
	tags := map[string]string{}
	for line := range strings.Lines(said.String()) {
		tag, _, _ := strings.Cut(line, " ")
		name, _, _ := strings.Cut(tag, ":")
		tags[name] = tag
		if text, err := exec.Command("docker", "load", "-i", filepath.Join(out, name+"_linux_amd64.tar")).
			CombinedOutput(); err != nil || !strings.Contains(string(text), tag) {
			t.Fatalf("docker load: %v: %s", err, text)
		}
		if text, err := dockerRun("--entrypoint=/bin/sh", tag, "-c", "true"); err == nil ||
			!strings.Contains(text, "no such file") {
			t.Errorf("%s has a shell: %v %s", tag, err, text)
		}
	}
	if text, err := dockerRun(tags["millipede-worker"], "-version"); err != nil || !strings.Contains(text, "worker v") {
		t.Errorf("the worker: %v: %s", err, text)
	}
	path := filepath.Join(t.TempDir(), "main.tf")
	if err := os.WriteFile(path, []byte(`resource "terraform_data" "a" { input = "hello" }`), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := dockerRun("-v", path+":/var/lib/millipede/main.tf:ro", tags["millipede-coordinator"], "apply",
		"-auto-approve", "-no-color")
	if err != nil || !strings.Contains(text, "1 added") {
		t.Errorf("an apply: %v: %s", err, text)
	}
}
