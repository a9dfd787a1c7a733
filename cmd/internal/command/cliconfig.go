package command

import (
	"fmt"
	"io"
	"os"

	"github.com/millipede-iac/millipede/cmd/internal/logging"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

// Settle replaces the environment of the command: it reads the CLI configuration that it names, and opens the logs that
// it asks for. Problems of the CLI configuration are not printed: the process from which the environment comes has done
// so.
func (a *App) Settle(env environ.Variables) {
	stderr := a.Stderr
	a.Environ, a.CLI, a.Services, a.Stderr = env, nil, nil, io.Discard
	a.LoadCLIConfig()
	a.Stderr = stderr
	a.Logs = logging.Open(a.Getenv, view.Clean(a.Stderr, false))
	a.Connector.Environ, a.Connector.Log, a.Connector.PluginLog = env, a.Logs.Core, a.Logs.Plugins
}

// LoadCLIConfig reads the CLI configuration, once. Its problems concern the machine and not the command, so
// they are printed on standard error as text, and the command continues with the valid parts. Only the
// installation of providers fails if their source is unclear; see cliconfig.Config.Unclear.
func (a *App) LoadCLIConfig() *cliconfig.Config {
	if a.CLI != nil {
		return a.CLI
	}
	cli, diags := cliconfig.Load(a.cwd, a.Environ)
	a.CLI = cli
	a.Services = services.New(services.Options{
		Config: cli, Version: a.program.EngineVersion, Environment: cloud.Environment{Dir: a.cwd, Environ: a.Environ},
	})
	if _, err := os.Stat(cli.CacheDir); cli.CacheDir != "" && err != nil {
		diags = diags.Append(diag.New(diag.Error, "The plugin cache directory cannot be opened",
			fmt.Sprintf("%s. A command that installs providers tries to create it.", err), nil))
	}
	if len(diags) > 0 {
		fmt.Fprint(a.Stderr, "There are some problems with the CLI configuration:\n")
	}
	for _, d := range diags {
		word := "Warning"
		if d.Severity == diag.Error {
			word = "Error"
		}
		fmt.Fprintf(a.Stderr, "\n%s: %s\n\n", word, d.Summary)
		if d.Subject != nil {
			fmt.Fprintf(a.Stderr, "  on %s line %d:\n\n", d.Subject.Filename, d.Subject.Start.Line)
		}
		fmt.Fprintf(a.Stderr, "%s\n", d.Detail)
	}
	if diags.HasErrors() {
		fmt.Fprint(a.Stderr, "\nThe command ignores the invalid parts of the CLI configuration, and may "+
			"not do what you expect.\n\n")
	}
	return cli
}
