package providers

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/cloud"
	cloudoci "github.com/millipede-iac/millipede/internal/cloud/oci"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/test/stage/clouds/oci"
	"github.com/millipede-iac/millipede/test/stage/registry"
)

// mirrored is an OCI registry, and options that install acme/foo from it.
func mirrored(t *testing.T) (*world, *oci.Server, Options, addr.Provider) {
	t.Helper()
	w := newWorld(t)
	s := oci.New(t, oci.Bearer)
	p := addr.Provider{Host: "registry.example.com", Namespace: "acme", Type: "foo"}
	o := w.options(requires(p))
	o.CLI = &cliconfig.Config{
		Methods: []cliconfig.Method{
			{Kind: cliconfig.OCIMirror, Location: s.Host() + "/mirror/${hostname}/${namespace}/${type}"},
		},
		OCI: cloudoci.Policy{NoDiscovery: true, Rules: []cloudoci.Rule{
			{Prefix: s.Host(), Credentials: cloudoci.Credentials{Username: oci.User, Password: oci.Password}},
		}},
	}
	o.Services = services.New(services.Options{
		Config: o.CLI, Version: "1.12.6", Transport: s.Client().Transport, Wait: time.Millisecond,
		Environment: cloud.Environment{Environ: environ.Of(nil)},
	})
	return w, s, o, p
}

const ociRepository = "mirror/registry.example.com/acme/foo"

func TestAProviderComesFromAnOCIMirror(t *testing.T) {
	w, s, o, p := mirrored(t)
	foo := registry.Zip(map[string]string{"terraform-provider-foo": "foo"})
	other := registry.Zip(map[string]string{"terraform-provider-foo": "other"})
	for _, tag := range []string{"1.0.0", "1.2.3", "nonsense", "1.1.0_build", "1.0.1"} { // more than one page of tags
		s.Provider(ociRepository, tag, map[string][]byte{platform: foo, "plan9_arm": other})
	}
	var auth *Authentication
	o.Report = func(e Event) {
		if e.Kind == Installed {
			auth = e.Authentication
		}
	}
	lock := w.install(o).Get(p)
	if lock.Version.String() != "1.2.3" || auth.String() != "verified checksum" {
		t.Errorf("got %s, %s", lock.Version, auth)
	}
	// The lock file has the hash of the directory and, from the digest, that of the archive.
	kinds := map[string]int{}
	for _, h := range lock.Hashes {
		kinds[h[:3]]++
	}
	if !maps.Equal(kinds, map[string]int{"h1:": 1, "zh:": 1}) {
		t.Errorf("the hashes are %q", lock.Hashes)
	}
	o.DataDir += "2"
	o.Required = requires(p, "1.1.0+build")
	if lock := w.install(o).Get(p); lock.Version.String() != "1.1.0+build" {
		t.Errorf("got %s", lock.Version)
	}
}

func TestWhatAnOCIMirrorGivesWrongIsRefused(t *testing.T) {
	zip := registry.Zip(map[string]string{"terraform-provider-foo": "foo"})
	const target = "application/vnd.opentofu.provider-target"
	for claim, c := range map[string]struct {
		fill   func(s *oci.Server)
		detail string
	}{
		"no repository": {func(*oci.Server) {}, "OCI repository"},
		"another artifact": {func(s *oci.Server) {
			s.Manifest(ociRepository, "1.0.0", oci.Index, "application/other")
		}, "not a provider"},
		"no index": {func(s *oci.Server) { s.Module(ociRepository, "1.0.0", zip) }, "media type"},
		"two packages for a platform": {func(s *oci.Server) {
			system, architecture, _ := strings.Cut(platform, "_")
			one := s.Manifest(ociRepository, "", oci.Image, target, s.Blob("archive/zip", zip))
			one["artifactType"], one["platform"] = target, map[string]string{"os": system, "architecture": architecture}
			s.Manifest(ociRepository, "1.0.0", oci.Index, "application/vnd.opentofu.provider", one, one)
		}, "2 packages"},
		"a package that is another": {func(s *oci.Server) {
			s.Provider(ociRepository, "1.0.0", map[string][]byte{platform: zip})
			s.Corrupt(s.Blob("archive/zip", zip))
		}, "not what its digest says"},
		"none for the platform": {func(s *oci.Server) {
			s.Provider(ociRepository, "1.0.0", map[string][]byte{"plan9_arm": zip})
		}, "platform"},
	} {
		t.Run(claim, func(t *testing.T) {
			w, s, o, _ := mirrored(t)
			c.fill(s)
			diags := w.fails(o)
			if !slices.ContainsFunc(diags,
				func(d *diag.Diagnostic) bool { return strings.Contains(d.Detail, c.detail) }) {
				t.Errorf("got %v", diags.Err())
			}
			if strings.Contains(diags.Err().Error(), oci.Password) {
				t.Error("the password is shown")
			}
		})
	}
}
