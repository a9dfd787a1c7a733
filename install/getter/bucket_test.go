package getter

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/unpacking"
	"github.com/millipede-iac/millipede/test/stage/clouds/amazon"
	"github.com/millipede-iac/millipede/test/stage/clouds/google"
	"github.com/millipede-iac/millipede/test/stage/registry"
)

// clouds returns a getter that reaches the fakes, and the beginnings of addresses in their buckets.
func clouds(t *testing.T) (a *amazon.Server, g *google.Server, get *Getter, addresses map[string]string) {
	a, g = amazon.New(t, "modules"), google.New(t, "modules")
	g.Emulate()
	env := map[string]string{
		"AWS_ACCESS_KEY_ID": amazon.AccessKey, "AWS_SECRET_ACCESS_KEY": amazon.SecretKey,
		"GOOGLE_OAUTH_ACCESS_TOKEN": google.Token, "STORAGE_EMULATOR_HOST": strings.TrimPrefix(g.URL, "http://"),
		"HOME": t.TempDir(),
	}
	get = New(services.New(services.Options{
		Config: &cliconfig.Config{}, Wait: time.Millisecond,
		Environment: cloud.Environment{Environ: environ.Of(env)},
	}), environ.Of(env), false)
	return a, g, get, map[string]string{
		"s3": "s3::" + a.URL + "/modules/", "gcs": "gcs::https://www.googleapis.com/storage/v1/modules/",
	}
}

func TestObjectsOfABucketBecomeAPackage(t *testing.T) {
	a, g, get, addresses := clouds(t)
	for name, data := range map[string][]byte{
		"dir/main.tf": []byte("one"), "dir/sub/x + y.tf": []byte("two"), "dir/": nil, "dir2/main.tf": []byte("three"),
		"m.zip": registry.Zip(map[string]string{"main.tf": "zipped"}), "file.tf": []byte("x"),
	} {
		a.Put("modules", name, data)
		g.Put("modules", name, data)
	}
	for kind, at := range addresses {
		t.Run(kind, func(t *testing.T) {
			into := filepath.Join(t.TempDir(), "dir")
			ok(t, get.Get(t.Context(), at+"dir", into))
			has(t, into, "one")
			if text, err := os.ReadFile(filepath.Join(into, "sub", "x + y.tf")); err != nil || string(text) != "two" {
				t.Errorf("%s, %v", text, err)
			}
			// A prefix that is no folder matched dir2 too.
			if entries, err := os.ReadDir(filepath.Dir(into)); err != nil || len(entries) != 1 {
				t.Errorf("%v, %v", entries, err)
			}
			into = filepath.Join(t.TempDir(), "zip")
			ok(t, get.Get(t.Context(), at+"m.zip", into))
			has(t, into, "zipped")
			for object, want := range map[string]string{
				"nothing": "no objects lie below", "file.tf": "is not an archive",
				"gone.zip": "reading the object",
			} {
				if err := get.Get(t.Context(), at+object, filepath.Join(t.TempDir(), "x")); err == nil ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", object, err)
				}
			}
		})
	}
}

func TestNoObjectLeadsOutOfThePackageOrFillsTheDisk(t *testing.T) {
	a, g, get, addresses := clouds(t)
	whole := bounds
	t.Cleanup(func() { bounds = whole })
	bounds = unpacking.Bounds{Bytes: 1000, Entries: 3}
	for name, data := range map[string]string{
		"out/../../evil.tf": "x", "out/main.tf": "y",
		"large/a.tf": strings.Repeat("x", 600), "large/b.tf": strings.Repeat("x", 600),
		"many/a": "", "many/b": "", "many/c": "", "many/d": "",
	} {
		a.Put("modules", name, []byte(data))
		g.Put("modules", name, []byte(data))
	}
	for kind, at := range addresses {
		for object, want := range map[string]string{
			"out": "leads out of it", "large": "more than 1000 bytes", "many": "more than 3 entries",
		} {
			dir := t.TempDir()
			err := get.Get(t.Context(), at+object, filepath.Join(dir, "a", "into"))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v", kind, object, err)
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "*.tf")); found != nil {
				t.Errorf("%s %s: %v", kind, object, found)
			}
		}
	}
}

func TestTheCredentialsOfAnAddressWinAndAreSigned(t *testing.T) {
	a, _, get, addresses := clouds(t)
	a.Put("modules", "m.zip", registry.Zip(map[string]string{"main.tf": "one"}))
	q := url.Values{"aws_access_key_id": {amazon.AccessKey}, "aws_access_key_secret": {amazon.SecretKey}}
	ok(t, get.Get(t.Context(), addresses["s3"]+"m.zip?"+q.Encode(), filepath.Join(t.TempDir(), "a")))
	q.Set("aws_access_key_secret", "another")
	err := get.Get(t.Context(), addresses["s3"]+"m.zip?"+q.Encode(), filepath.Join(t.TempDir(), "b"))
	if err == nil || !strings.Contains(err.Error(), "SignatureDoesNotMatch") {
		t.Errorf("got %v", err)
	}
}

func TestAddressesInS3AreReadInAllTheirForms(t *testing.T) {
	for address, want := range map[string]amazonObject{
		"https://s3.amazonaws.com/b/k/l":             {region: "us-east-1", bucket: "b", key: "k/l"},
		"https://s3-eu-west-1.amazonaws.com/b/k":     {region: "eu-west-1", bucket: "b", key: "k"},
		"https://s3.eu-west-1.amazonaws.com/b/k":     {region: "eu-west-1", bucket: "b", key: "k"},
		"https://b.s3-eu-west-1.amazonaws.com/k/l":   {region: "eu-west-1", bucket: "b", key: "k/l"},
		"https://b.s3.eu-west-1.amazonaws.com/k":     {region: "eu-west-1", bucket: "b", key: "k"},
		"https://s3.cn-north-1.amazonaws.com.cn/b/k": {region: "cn-north-1", bucket: "b", key: "k"},
		"http://localhost:9000/b/k?region=eu": {region: "eu", bucket: "b", key: "k",
			endpoint: "http://localhost:9000"},
		"https://minio.example.com/b/k": {region: "us-east-1", bucket: "b", key: "k",
			endpoint: "https://minio.example.com"},
		"https://evilamazonaws.com/b/k": {region: "us-east-1", bucket: "b", key: "k",
			endpoint: "https://evilamazonaws.com"},
		"https://s3.amazonaws.com/b":               {},
		"https://a.b.s3.eu-west-1.amazonaws.com/k": {},
		"https://minio.example.com/b/k/?region=eu&version=1": {region: "eu", bucket: "b", key: "k/",
			endpoint: "https://minio.example.com"},
	} {
		u, err := url.Parse(address)
		ok(t, err)
		got, err := amazonAddress(u)
		if want == (amazonObject{}) {
			if err == nil {
				t.Errorf("%s: %v", address, got)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
}
