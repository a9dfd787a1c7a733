// Command images makes the container images of Millipede: static programs on an empty base. It starts no container, and
// pushes nothing.
//
//	go run . -out DIR [-version X.Y.Z] [-platforms linux/amd64,linux/arm64] [NAME...]
//
// For each image and platform it writes an archive, NAME_OS_ARCH.tar, that "docker load" reads, and for each image a
// directory, NAME, in the OCI image layout with all platforms, that tools such as skopeo and crane copy to a registry.
// Two runs on the same revision, with the same version of Go, write the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const usage = `Usage: images -out DIR [options] [NAME...]

  Makes the images of Millipede from the sources of this checkout. NAME is one of: %s.
  Default: %s.

Options:
  -out=DIR         The directory of the images, which is created. It should be outside of the sources, or ignored by git:
                   a changed checkout has another version.
  -version=X.Y.Z   The version of a release. Default: the one that follows from the revision.
  -platforms=LIST  Default: linux/amd64,linux/arm64.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Printf(usage, strings.Join(names(programs), ", "), strings.Join(names(released), ", "))
	case err != nil:
		fmt.Fprintf(os.Stderr, "Error: %s\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("images", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	out := f.String("out", "", "")
	version := f.String("version", "", "")
	list := f.String("platforms", "linux/amd64,linux/arm64", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("name the directory of the images with -out=DIR")
	}
	chosen := released
	if f.NArg() > 0 {
		chosen = nil
		for _, name := range f.Args() {
			i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
			if i < 0 {
				return fmt.Errorf("there is no image %q; there are %s", name, strings.Join(names(programs), ", "))
			}
			chosen = append(chosen, programs[i])
		}
	}
	platforms, err := parsePlatforms(*list)
	if err != nil {
		return err
	}
	s, err := source(ctx, *version)
	if err != nil {
		return err
	}
	for _, p := range chosen {
		if err := s.write(ctx, p, platforms, *out, stdout); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// platform is an operating system and an architecture, in Go's words, which are also those of images.
type platform struct{ os, arch string }

func parsePlatforms(list string) ([]platform, error) {
	var all []platform
	for _, text := range strings.Split(list, ",") {
		system, arch, ok := strings.Cut(strings.TrimSpace(text), "/")
		if !ok || system != "linux" || arch == "" || strings.Contains(arch, "/") {
			return nil, fmt.Errorf("-platforms=%s: %q is not a platform such as linux/amd64", list, text)
		}
		all = append(all, platform{system, arch})
	}
	return all, nil
}

// program is what an image has: a program of a module of this repository.
type program struct {
	name         string // of the image
	title        string
	module, path string // the module's folder, and the package in it
	binary       string
	versioned    bool // it is a program of Millipede, and knows its version
}

// programs are all images that can be made; released are those of a release. The NATS server is for tests, and for
// trials on machines that reach no registry: elsewhere use the image of the NATS project.
var (
	programs = []program{
		{"millipede-coordinator", "Millipede coordinator", ".", "./cmd/coordinator", "coordinator", true},
		{"millipede-worker", "Millipede worker", ".", "./cmd/worker", "worker", true},
		{"millipede-nats", "NATS server, for trials of Millipede", "test/tools", "github.com/nats-io/nats-server/v2",
			"nats-server", false},
	}
	released = programs[:2]
)

func names(all []program) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.name)
	}
	return out
}

// checkout is the revision that images are made of.
type checkout struct {
	root     string // the repository's folder
	revision string
	made     time.Time // of the revision: the time of everything in the images
	released string    // the version that the programs are given, or empty
	version  string    // the version that the programs say
}

// semantic is the form of -version; the program checks it completely.
var semantic = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)

// source reads the checkout that the working directory is in.
func source(ctx context.Context, version string) (*checkout, error) {
	if version != "" && !semantic.MatchString(version) {
		return nil, fmt.Errorf("-version=%s is not a semantic version, such as 0.2.0 or 0.2.0-rc1", version)
	}
	s := &checkout{released: strings.TrimPrefix(version, "v")}
	for _, ask := range []struct {
		to   *string
		args []string
	}{
		{&s.root, []string{"rev-parse", "--show-toplevel"}},
		{&s.revision, []string{"rev-parse", "HEAD"}},
	} {
		text, err := output(ctx, "", "git", ask.args...)
		if err != nil {
			return nil, fmt.Errorf("the images are made of a git checkout: %w", err)
		}
		*ask.to = text
	}
	text, err := output(ctx, s.root, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of the revision: %w", err)
	}
	s.made = time.Unix(seconds, 0).UTC()
	return s, s.ask(ctx)
}

// ask builds the worker for this machine, and asks it for its version: only the program knows how it follows from the
// revision.
func (s *checkout) ask(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "millipede-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	path := filepath.Join(dir, "worker")
	if err := s.build(ctx, programs[1], platform{}, path); err != nil {
		return err
	}
	text, err := output(ctx, "", path, "-version")
	if err != nil {
		return err
	}
	_, v, ok := strings.Cut(text, " v")
	if !ok {
		return fmt.Errorf("the worker says %q, which has no version", text)
	}
	s.version = v
	return nil
}

// build builds a program without cgo, and without anything that differs between machines or directories. Without a
// platform it is built for this machine.
func (s *checkout) build(ctx context.Context, p program, on platform, path string) error {
	link := "-s -w -buildid="
	if p.versioned && s.released != "" {
		link += " -X github.com/millipede-iac/millipede/cmd/internal/build.released=" + s.released
	}
	c := exec.CommandContext(ctx, "go", "-C", filepath.Join(s.root, p.module), "build", "-trimpath", "-ldflags", link,
		"-o", path, p.path)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if on != (platform{}) {
		// The same instructions everywhere, whatever the environment says.
		c.Env = append(c.Env, "GOOS="+on.os, "GOARCH="+on.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s/%s: %w\n%s", p.binary, on.os, on.arch, err, out)
	}
	return nil
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	out, err := c.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
