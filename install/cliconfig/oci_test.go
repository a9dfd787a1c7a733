package cliconfig

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/cloud/oci"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

func TestCredentialsForOCIRegistriesAreRead(t *testing.T) {
	c, diags := loadText(t, `
oci_credentials "example.com" {
  username = "me"
  password = "pw"
}
oci_credentials "example.com:5000/foo/bar" {
  access_token  = "a"
  refresh_token = "r"
}
oci_credentials "example.net" {
  docker_credentials_helper = "osxkeychain"
}
oci_default_credentials {
  docker_style_config_files = ["auth.json", "/etc/auth.json"]
  docker_credentials_helper = "pass"
}
`, nil)
	if len(diags) > 0 {
		t.Fatal(diags.Err())
	}
	want := []oci.Rule{
		{Prefix: "example.com", Credentials: oci.Credentials{Username: "me", Password: "pw"}},
		{Prefix: "example.com:5000/foo/bar", Credentials: oci.Credentials{AccessToken: "a", RefreshToken: "r"}},
		{Prefix: "example.net", Helper: "osxkeychain"},
	}
	if !slices.Equal(c.OCI.Rules, want) || c.OCI.Helper != "pass" || c.OCI.NoDiscovery {
		t.Errorf("got %+v", c.OCI)
	}
	// A relative name is relative to the directory of the file that contains it.
	if f := c.OCI.Files; len(f) != 2 || !filepath.IsAbs(f[0]) || filepath.Base(f[0]) != "auth.json" ||
		f[1] != "/etc/auth.json" {
		t.Errorf("the files are %q", f)
	}
	c, diags = loadText(
		t,
		`{"oci_credentials":{"a.example/x":{"username":"me","password":"pw"}},`+
			`"oci_default_credentials":{"discover_ambient_credentials":false}}`,
		nil,
	)
	if len(diags) > 0 || len(c.OCI.Rules) != 1 || c.OCI.Rules[0].Prefix != "a.example/x" || !c.OCI.NoDiscovery {
		t.Errorf("from JSON: %+v, %v", c.OCI, diags.Err())
	}
	c, diags = loadText(t, "oci_default_credentials {\n docker_style_config_files = []\n}\n", nil)
	if len(diags) > 0 || c.OCI.Files == nil || len(c.OCI.Files) != 0 {
		t.Errorf("no files: %+v, %v", c.OCI, diags.Err())
	}
}

func TestWhatIsWrongAboutOCIRegistriesIsSaid(t *testing.T) {
	const (
		block    = "Invalid oci_credentials block"
		defaults = "Invalid oci_default_credentials block"
		template = "Invalid oci_mirror repository template"
	)
	mirror := func(text string) string { return "provider_installation {\n oci_mirror {\n" + text + "\n }\n}\n" }
	for text, want := range map[string]string{
		"oci_credentials {\n username = \"a\"\n}\n":                                 block,
		"oci_credentials \"no host!\" {\n username = \"a\"\n password = \"b\"\n}\n": block,
		"oci_credentials \"a.b\" {}\n":                                              block,
		"oci_credentials \"a.b\" {\n username = \"a\"\n}\n":                         block,
		"oci_credentials \"a.b\" {\n access_token = \"a\"\n}\n":                     block,
		"oci_credentials \"a.b\" {\n username = \"a\"\n password = \"wrong-s3cret\"\n docker_credentials_helper = " +
			"\"c\"\n}\n": block,
		"oci_credentials \"a.b/c\" {\n docker_credentials_helper = \"c\"\n}\n":  block,
		"oci_credentials \"a.b\" {\n docker_credentials_helper = \"../c\"\n}\n": block,
		"oci_credentials \"a.b\" {\n docker_credentials_helper = \"c\"\n}\noci_credentials \"a.b\" {\n " +
			"docker_credentials_helper = \"d\"\n}\n": "Duplicate oci_credentials block",
		"oci_default_credentials {}\noci_default_credentials {}\n":                                                    "Duplicate oci_default_credentials block",
		"oci_default_credentials {\n discover_ambient_credentials = false\n docker_style_config_files = [\"a\"]\n}\n": defaults,
		"oci_default_credentials {\n docker_credentials_helper = \"a/b\"\n}\n":                                        defaults,

		mirror("repository_template = \"a.b/${type}\""):                                                     template,
		mirror("repository_template = \"a.b/${hostname}/${namespace}/${type}/${version}\""):                 template,
		mirror("repository_template = \"a.b/${+}\""):                                                        template,
		mirror("repository_template = \"a.b/${namespace}/${type}\"\n include = [\"a.b/*/*\", \"c.d/*/*\"]"): template,
	} {
		_, diags := loadText(t, text, nil)
		if len(diags) == 0 || diags[0].Severity != diag.Error || diags[0].Summary != want {
			t.Errorf("%q: got %v, want %q", text, diags.Err(), want)
		}
		if strings.Contains(diags.Err().Error(), "wrong-s3cret") {
			t.Errorf("a password is shown: %v", diags.Err())
		}
	}
}

func TestTheTemplateOfAnOCIMirrorNamesARepositoryForEachProvider(t *testing.T) {
	p := addr.Provider{Host: "example.com", Namespace: "acme", Type: "foo"}
	for template, want := range map[string]string{
		"r.example/${hostname}/${namespace}/${type}": "r.example example.com/acme/foo",
		"r.example:5000/all/${type}":                 "r.example:5000 all/foo",
		"${type}":                                    "",
		"r.example/":                                 "",
	} {
		host, path, err := Method{Kind: OCIMirror, Location: template}.Repository(p)
		if want == "" && err == nil || want != "" && (err != nil || host+" "+path != want) {
			t.Errorf("%s: %s %s, %v", template, host, path, err)
		}
	}
}
