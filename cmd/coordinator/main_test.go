package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/millipede-iac/millipede/cmd/hosting"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"coordinator": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// Nothing of the machine's own configuration gets in.
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TF_CLI_CONFIG_FILE", "")
			e.Setenv("MILLIPEDE_NATS", "")
			for _, name := range []string{"TF_DATA_DIR", "TF_WORKSPACE", "TF_IN_AUTOMATION", "TF_INPUT", "TF_REATTACH_PROVIDERS", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
				e.Setenv(name, "")
			}
			e.Setenv("XDG_DATA_DIRS", e.WorkDir)
			e.Setenv("PLATFORM", hosting.Platform)
			return nil
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}
