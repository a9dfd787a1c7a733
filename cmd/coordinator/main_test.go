package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/test/stage/registry"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"coordinator": main, "tofu": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// The machine's own configuration must not have an effect.
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TF_CLI_CONFIG_FILE", "")
			e.Setenv("MILLIPEDE_NATS", "")
			for _, name := range []string{"TF_DATA_DIR", "TF_WORKSPACE", "TF_IN_AUTOMATION", "TF_INPUT",
				"TF_REATTACH_PROVIDERS", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
				e.Setenv(name, "")
			}
			e.Setenv("XDG_DATA_DIRS", e.WorkDir)
			e.Setenv("PLATFORM", hosting.Platform)
			return serve(e)
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// serve starts a registry for a script. It has the hosts of the variables REGISTRY, by its own discovery, and
// registry.example.com, which a script's CLI configuration has to name; the file rc.hosts does that.
func serve(e *testscript.Env) error {
	r, err := registry.New()
	if err != nil {
		return err
	}
	e.Defer(r.Close)
	for _, platform := range []string{hosting.Platform, "plan9_arm"} {
		r.Provider("acme/foo", "1.2.3", platform, "foo on "+platform)
		r.Provider("acme/foo", "1.3.0", platform, "newer foo on "+platform)
	}
	r.File("/net.zip", registry.Zip(map[string]string{
		"main.tf": "module \"inner\" {\n  source = \"./sub\"\n}\n", "sub/main.tf": "output \"x\" {\n  value = 1\n}\n",
		".hidden": "x",
	}))
	r.File("/account/details", []byte("{}"))
	r.Module("acme/net/aws", "1.0.0", r.URL("/net.zip"))
	r.Module("acme/net/aws", "1.5.0", r.URL("/net.zip"))
	r.Module("acme/net/aws", "2.0.0", r.URL("/net.zip"))
	if err := r.WriteCertificate(filepath.Join(e.WorkDir, "certificate.pem")); err != nil {
		return err
	}
	e.Setenv("SSL_CERT_FILE", filepath.Join(e.WorkDir, "certificate.pem"))
	e.Setenv("REGISTRY", r.Host())
	e.Setenv("KEY_ID", r.KeyID())
	return os.WriteFile(filepath.Join(e.WorkDir, "rc.hosts"), []byte(r.HostBlock("registry.example.com")), 0o600)
}

// newApp returns an invocation of the program.
func newApp(stdin io.Reader, stdout, stderr io.Writer, env environ.Variables) *command.App {
	return command.New(program(), stdin, stdout, stderr, env)
}
