package getter

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/cloud"
	cloudoci "github.com/millipede-iac/millipede/internal/cloud/oci"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/test/stage/clouds/oci"
	"github.com/millipede-iac/millipede/test/stage/registry"
)

// ociGetter returns a getter that trusts a registry, and has credentials.
func ociGetter(t *testing.T, s *oci.Server, rules ...cloudoci.Rule) *Getter {
	home := t.TempDir()
	return New(services.New(services.Options{
		Config: &cliconfig.Config{OCI: cloudoci.Policy{Rules: rules}}, Transport: s.Client().Transport,
		Wait:        time.Millisecond,
		Environment: cloud.Environment{Environ: environ.Of(map[string]string{"HOME": home})},
	}), nil, false)
}

func TestAModuleComesFromAnOCIRegistry(t *testing.T) {
	for claim, auth := range map[string]oci.Auth{"open": oci.Open, "basic": oci.Basic, "token": oci.Bearer} {
		t.Run(claim, func(t *testing.T) {
			s := oci.New(t, auth)
			if auth == oci.Bearer {
				s.Elsewhere()
			}
			digest := s.Module("acme/net", "v1", registry.Zip(map[string]string{"main.tf": "one"}))["digest"].(string)
			s.Module("acme/net", "latest", registry.Zip(map[string]string{"main.tf": "two"}))
			g := ociGetter(t, s, cloudoci.Rule{
				Prefix: s.Host(), Credentials: cloudoci.Credentials{Username: oci.User, Password: oci.Password},
			})
			at := "oci://" + s.Host() + "/acme/net"
			for address, want := range map[string]string{at + "?tag=v1": "one", at: "two", at + "?digest=" +
				digest: "one"} {
				into := filepath.Join(t.TempDir(), "m")
				ok(t, g.Get(t.Context(), address, into))
				has(t, into, want)
			}
			if leaked := s.Leaked(); leaked != nil {
				t.Errorf("the host of the blobs was sent %v", leaked)
			}
		})
	}
}

func TestWhatIsNoPackageInAnOCIRegistryIsRefused(t *testing.T) {
	s := oci.New(t, oci.Open)
	const module = "application/vnd.opentofu.modulepkg"
	zip := s.Blob("archive/zip", registry.Zip(map[string]string{"main.tf": "one"}))
	s.Manifest("m", "artifact", oci.Image, "application/other", zip)
	s.Manifest("m", "none", oci.Image, module, s.Blob("text/plain", []byte("x")))
	s.Manifest("m", "two", oci.Image, module, zip, zip)
	s.Manifest("m", "index", oci.Index, module, zip)
	s.Manifest(
		"m",
		"size",
		oci.Image,
		module,
		oci.Descriptor{"mediaType": "archive/zip", "digest": zip["digest"], "size": 3},
	)
	s.Manifest(
		"m",
		"large",
		oci.Image,
		module,
		oci.Descriptor{"mediaType": "archive/zip", "digest": zip["digest"], "size": 1 << 40},
	)
	s.Manifest("m", "digest", oci.Image, module, oci.Descriptor{"mediaType": "archive/zip",
		"digest": "md5:0", "size": 3})
	s.Module("m", "out", registry.Zip(map[string]string{"../evil.tf": "x"}))
	bad := s.Blob("archive/zip", registry.Zip(map[string]string{"main.tf": "other"}))
	s.Manifest("m", "corrupt", oci.Image, module, bad)
	s.Corrupt(bad)
	broken := s.Manifest("m", "broken", oci.Image, module, zip)
	s.Corrupt(broken)
	g := ociGetter(t, s)
	for address, want := range map[string]string{
		"/m?tag=artifact": "not the package of a module", "/m?tag=none": "has 0 layers", "/m?tag=two": "has 2 layers",
		"/m?tag=index": "media type", "/m?tag=size": "blob", "/m?tag=large": "more than", "/m?tag=digest": "not valid",
		"/m?tag=out": "leads out of it", "/m?tag=corrupt": "not what its digest says", "/m?tag=broken": "manifest",
		"/m?tag=gone": "not found", "/gone": "not found", "/m?tag=a&digest=sha256:0": "a tag and a digest",
		"/m?tag=a&tag=b": "more than once", "/m?tag=": "is empty", "/m?archive=zip": "takes no argument",
		"/M!":           "not the name of a repository",
		"/m?digest=abc": "not a digest",
	} {
		dir := t.TempDir()
		err := g.Get(t.Context(), "oci://"+s.Host()+address, filepath.Join(dir, "a", "m"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
		if found, _ := filepath.Glob(filepath.Join(dir, "a", "*.tf")); found != nil {
			t.Errorf("%s: %v", address, found)
		}
	}
	u, err := url.Parse("oci://me:pw@h/m")
	ok(t, err)
	if _, err := ociReference(u); err == nil || strings.Contains(err.Error(), "pw") {
		t.Errorf("got %v", err)
	}
}

func TestARegistryThatIsBusyIsAskedAgainAndOneThatRefusesIsNamed(t *testing.T) {
	s := oci.New(t, oci.Basic)
	s.Module("m", "latest", registry.Zip(map[string]string{"main.tf": "one"}))
	g := ociGetter(
		t,
		s,
		cloudoci.Rule{Prefix: s.Host() + "/m", Credentials: cloudoci.Credentials{Username: oci.User,
			Password: oci.Password}},
	)
	s.Fail(503, 429)
	ok(t, g.Get(t.Context(), "oci://"+s.Host()+"/m", filepath.Join(t.TempDir(), "m")))
	wrong := cloudoci.Rule{
		Prefix:      s.Host(),
		Credentials: cloudoci.Credentials{Username: oci.User, Password: "wr0ng-secret"},
	}
	for claim, g := range map[string]*Getter{"without": ociGetter(t, s), "wrong": ociGetter(t, s, wrong)} {
		err := g.Get(t.Context(), "oci://"+s.Host()+"/m", filepath.Join(t.TempDir(), "m"))
		if err == nil || !strings.Contains(err.Error(), s.Host()) || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%s: %v", claim, err)
		}
	}
}
