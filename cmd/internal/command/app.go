// Package command is the framework for the commands of a program: it selects the command, parses its options,
// opens its logs, connections and estate, shows its output as text or JSON, and converts signals, panics and
// problems to exit codes.
//
// It has no commands of its own.
package command

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"
	"github.com/mattn/go-isatty"
	"github.com/mattn/go-shellwords"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/logging"
	"github.com/millipede-iac/millipede/cmd/internal/natsconn"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// Program is a program with its commands.
type Program struct {
	// Version is the version of the program; EngineVersion is the version of OpenTofu with the same behaviour
	// and formats, which drivers ask for.
	Version, EngineVersion string
	// Commands are listed in this order in the help.
	Commands []Command
	// Absent has the options of OpenTofu's commands that are not supported, keyed by the command's name and the
	// option, with the explanation for users.
	Absent map[string]string
	// FileFlags are the options whose value is the name of a file or a directory. FileArguments are the
	// commands whose arguments are such names; WorkspaceArguments are those whose argument is a workspace.
	FileFlags, FileArguments, WorkspaceArguments []string
}

// Command is a command of a program.
type Command struct {
	// Name is one word, or two for commands like `state list`.
	Name string
	// Synopsis is the description in the list of commands.
	Synopsis string
	// Run gets the arguments after the name, and returns the exit code.
	Run func(ctx context.Context, a *App, args []string) int
	// Hidden omits the command from the list of commands.
	Hidden bool
	// Document says that the JSON form is a single document; diagnostics are then text, because there is no
	// stream of messages for them.
	Document bool
	// Apart says that the command does not use workspaces, so that the selected workspace does not matter.
	Apart bool
	// Lasts says that the command runs until it is interrupted, which is then not a failure.
	Lasts bool
	// Driven says that another process starts the command and ends it, so that it does not heed signals, which a terminal
	// or a service manager sends to both.
	Driven bool
	// Visible are the variables of its environment that other programs may see while it runs, on systems that show them
	// for as long as a process runs; nil for all of them.
	Visible []string
	// Use is the purpose for which the command opens the estate of the working directory.
	Use estate.Use
}

// App is one invocation of a program: its streams, its environment, its global options. New creates one.
type App struct {
	program *Program

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        environ.Variables
	Interrupts     *Interrupts
	// Alone says that the process has no other invocations, so that this one may use process-wide settings.
	Alone  bool
	bug    bool          // a bug of ours has ended a run
	lasts  bool          // the command runs until it is interrupted
	reader *bufio.Reader // of Stdin; see ReadLine

	// CLI and Services are set by LoadCLIConfig.
	CLI      *cliconfig.Config
	Services *services.Services

	// Shared replaces the Connector of the estate if a process has several invocations; nil if there is only
	// one. With Shared, plugins and provisioners get the environment of the invocation, not that of a worker.
	Shared estate.Connector

	// Logs are the logs that TF_LOG enables. The logs, the connector and the estate exist while a command runs.
	Logs      *logging.Logs
	Connector *adapters.Connector
	Estate    *estate.Estate

	chdir   string
	cwd     string            // the directory in which the command was started; empty if unknown
	Dir     string            // the absolute working directory: cwd, or that of -chdir; see Path
	nats    natsconn.Settings // from the options
	Command string            // its name
	streams bool              // its JSON form is a stream of messages
	apart   bool              // the command does not use workspaces
	Flags   *flag.FlagSet     // the flags of the command, once it has created them
}

// New returns an invocation of a program.
func New(p *Program, stdin io.Reader, stdout, stderr io.Writer, env environ.Variables) *App {
	a := &App{program: p, Stdin: stdin, Stdout: stdout, Stderr: stderr, Environ: env}
	a.Interrupts = newInterrupts(context.Background(), a.Tell, os.Exit)
	return a
}

// Getenv returns the value of an environment variable; if it is set several times, the last value.
func (a *App) Getenv(name string) string { return a.Environ.Get(name) }

// Automated reports whether the command runs in automation; hints for people are omitted then.
func (a *App) Automated() bool { return a.Getenv("TF_IN_AUTOMATION") != "" }

// Terminal reports whether a stream is a terminal.
func Terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Run executes a command and returns the exit code. args are the arguments of the program. A panic ends this
// invocation, with its trace, but not the process. Several invocations can run in one process at the same time.
func (a *App) Run(ctx context.Context, args []string) (code int) {
	defer func() {
		if panicked := recover(); panicked != nil {
			code = a.Crash(panicked, debug.Stack())
		}
	}()
	rest, code, done := a.globals(args)
	if done {
		return code
	}
	a.cwd, _ = os.Getwd() // if it is unknown, the system resolves relative names
	a.Dir = a.cwd
	a.LoadCLIConfig() // before -chdir: relative names in the environment refer to the original directory
	if err := a.enter(); err != nil {
		fmt.Fprintf(a.Stderr, "Error handling -chdir option: %s\n", err)
		return 1
	}
	c, rest := a.findCommand(rest)
	if c == nil {
		if len(rest) == 0 {
			a.printCommands(a.Stdout)
			return 127
		}
		fmt.Fprintf(a.Stderr, "Millipede has no command named %q.%s\n\nTo see all of the commands, run:\n  "+
			diag.Program()+" -help\n", rest[0], a.didYouMean(rest[0]))
		return 1
	}
	a.Command, a.apart, a.streams = c.Name, c.Apart, !c.Document
	a.lasts = c.Lasts
	extra, err := a.argsFromEnvironment(c.Name)
	if err != nil {
		fmt.Fprintf(a.Stderr, "Error: %s\n", err)
		return 1
	}
	args = append(extra, rest...)
	a.Logs = logging.Open(a.Getenv, view.Clean(a.Stderr, false))
	a.Connector = &adapters.Connector{
		NATS: a.nats, Environ: a.Environ, Version: a.program.Version, Tell: a.Tell, Log: a.Logs.Core,
		PluginLog: a.Logs.Plugins, Leaving: a.Interrupts.Leaving, AtEnd: a.Interrupts.AtEnd, Path: a.Path,
	}
	a.Estate = a.newEstate(c.Use)
	a.Logs.Begin(a.program.Version, a.program.EngineVersion, c.Name, args)
	profiled, err := logging.Profile(a.Getenv("TOFU_CPU_PROFILE"))
	if err != nil {
		fmt.Fprintf(a.Stderr, "Error: TOFU_CPU_PROFILE: %s\n", err)
		return 1
	}
	ctx, ended := a.traced(ctx, c.Name)
	code = c.Run(ctx, a, args)
	code = a.exitCode(code)
	ended(code)
	if err := profiled(); err != nil {
		fmt.Fprintf(a.Stderr, "Error: writing the profile: %s\n", err)
	}
	if err := a.Logs.End(code); err != nil {
		fmt.Fprintf(a.Stderr, "Error: writing the log: %s\n", err)
	}
	return code
}

// enter makes the directory of -chdir the working directory of the invocation. That of the process does not
// change, because other invocations may use other directories.
func (a *App) enter() error {
	if a.chdir == "" {
		return nil
	}
	dir := environ.Path(a.cwd, a.chdir)
	_, err := os.Stat(dir + string(filepath.Separator) + ".") // also fails if the directory is not searchable
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return &fs.PathError{Op: "chdir", Path: a.chdir, Err: at.Err}
	}
	a.Dir = dir
	return err
}

// Path returns the path of a file that an option, an argument or an environment variable names: relative names
// are relative to the working directory. If that is the directory of the process, names stay as they are.
func (a *App) Path(name string) string {
	if a.chdir == "" || name == "" {
		return name
	}
	return environ.Path(a.Dir, name)
}

// exitCode returns the exit code of the process for that of a command. An interrupted command never exits with
// success, unless it is one that runs until it is interrupted.
func (a *App) exitCode(code int) int {
	switch {
	case a.bug:
		return crashed
	case !a.Interrupts.Asked(), a.lasts:
		return code
	case code == 0:
		a.Tell("\nThe command was interrupted. Nothing has failed, but the exit status says that it may not have " +
			"done everything.\n\n")
	}
	return 1
}

// versionWords request the version, anywhere in the arguments; helpWords request help, anywhere before "--".
var (
	versionWords = []string{"-v", "-version", "--version"}
	helpWords    = []string{"-h", "-help", "--help"}
)

// AsksHelp reports whether one of the arguments requests help.
func AsksHelp(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(helpWords, arg) })
}

// globals parses the options before the command.
func (a *App) globals(args []string) (rest []string, code int, done bool) {
	if slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(versionWords, arg) }) {
		args = versionFirst(args)
	}
	unknown := ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "--" {
		arg := args[0]
		args = args[1:]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		switch {
		case name == "chdir" && (!hasValue || value == ""):
			fmt.Fprintln(a.Stderr, "Invalid -chdir option: it needs an equals sign and a directory, as in "+
				"-chdir=example")
			return nil, 1, true
		case name == "chdir" && a.chdir != "":
			fmt.Fprintln(a.Stderr, "Invalid -chdir option: it can be given only once")
			return nil, 1, true
		case name == "chdir":
			a.chdir = value
		case hasValue && a.nats.Flag(name, value):
		case name == "install-autocomplete" || name == "uninstall-autocomplete":
			if err := a.installCompletion(name == "install-autocomplete"); err != nil {
				fmt.Fprintf(a.Stderr, "Error executing CLI: %s\n", err)
				return nil, 1, true
			}
			return nil, 0, true
		case slices.Contains(helpWords, arg):
			if len(args) == 0 {
				a.printCommands(a.Stdout)
				return nil, 0, true
			}
			args = append(slices.Clone(args), "-help")
		case unknown == "":
			unknown = arg
		}
	}
	if unknown == "" {
		return args, 0, false
	}
	fmt.Fprintf(a.Stderr, "Invalid global option %s: write -chdir=DIR, -nats=URL, -help, -version or another global "+
		"option before "+
		"the command, and the options of the command after it; %s -help lists them.\n", unknown, diag.Program())
	if len(args) == 0 {
		return nil, 127, true
	}
	return nil, 1, true
}

// versionFirst makes a command line of the version command, with the global options before it.
func versionFirst(args []string) []string {
	var before, behind []string
	for _, arg := range args {
		switch {
		case slices.Contains(versionWords, arg):
		case len(behind) == 0 && strings.HasPrefix(arg, "-"):
			before = append(before, arg)
		default:
			behind = append(behind, arg)
		}
	}
	return slices.Concat(before, []string{"version"}, behind)
}

// findCommand returns the command that the arguments name (with two words for commands like `state list`), and
// the remaining arguments.
func (a *App) findCommand(args []string) (*Command, []string) {
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for i := range a.program.Commands {
			if a.program.Commands[i].Name == name {
				return &a.program.Commands[i], args[words:]
			}
		}
	}
	return nil, args
}

// argsFromEnvironment returns the arguments in TF_CLI_ARGS and TF_CLI_ARGS_name, split into words like a shell
// does.
func (a *App) argsFromEnvironment(name string) ([]string, error) {
	var out []string
	for _, v := range []string{"TF_CLI_ARGS_" + strings.NewReplacer(" ", "_", "-", "_").Replace(name), "TF_CLI_ARGS"} {
		words, err := shellwords.Parse(a.Getenv(v))
		if err != nil {
			return nil, fmt.Errorf("parsing extra CLI args from %s: %w", v, err)
		}
		out = append(out, words...)
	}
	return out, nil
}

// NewFlags returns an empty set of flags for the command.
func (a *App) NewFlags() *flag.FlagSet {
	f := flag.NewFlagSet(a.Command, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	a.Flags = f
	return f
}

// Parse parses the arguments of a command. If help was requested or the arguments are invalid, done is true,
// and the command must exit with code.
func (a *App) Parse(f *flag.FlagSet, usage string, args []string) (code int, done bool) {
	if AsksHelp(args) {
		PrintUsage(a.Stdout, usage)
		return 0, true
	}
	err := f.Parse(viewFirst(f, args))
	problem := checkFlags(f)
	if err != nil {
		if why := a.absence(a.Command, err); why != "" {
			err = fmt.Errorf("%w: %s", err, why)
		}
		problem = diag.Errors("Failed to parse command-line flags", err.Error()+".", nil)
	}
	switch {
	case len(problem) == 0:
		return 0, false
	case a.streams && jsonAsked(f):
		stream := document.NewStream(document.StreamOptions{Out: a.Stdout, Now: time.Now,
			EngineVersion: a.program.EngineVersion})
		stream.Problems(problem)
		if err := stream.Settle(); err != nil {
			fmt.Fprintln(a.Stderr, err)
		}
	case err != nil:
		fmt.Fprintf(a.Stderr, "\nError: Failed to parse command-line flags\n\n%s\n\nFor the options of the command, "+
			"run:\n  "+diag.Program()+" %s -help\n", err, a.Command)
	default:
		fmt.Fprintf(a.Stderr, "\nError: %s\n\n%s\n", problem[0].Summary, problem[0].Detail)
	}
	return 1, true
}

// Tell prints a text for people on standard error.
func (a *App) Tell(text string) { fmt.Fprint(view.Clean(a.Stderr, false), text) }

// jsonAsked reports whether -json was parsed, i.e. whether it precedes the invalid argument.
func jsonAsked(f *flag.FlagSet) bool {
	asked := f.Lookup("json")
	return asked != nil && asked.Value.String() == "true"
}

// viewArgs are the flags about output. They may also follow other arguments.
var viewArgs = []string{"no-color", "compact-warnings", "consolidate-warnings", "consolidate-errors", "concise"}

// viewFirst moves the command's flags of viewArgs to the front, where they are parsed.
func viewFirst(f *flag.FlagSet, args []string) []string {
	var first, rest []string
	for _, arg := range args {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && slices.Contains(viewArgs, name) && f.Lookup(name) != nil &&
			(!hasValue || value == "true" || value == "false") {
			first = append(first, arg)
		} else {
			rest = append(rest, arg)
		}
	}
	return append(first, rest...)
}

// PrintUsage writes the help text of a command, with the name under which the program was called.
func PrintUsage(w io.Writer, usage string) {
	fmt.Fprintln(w, strings.ReplaceAll(strings.TrimSpace(usage), " coordinator [", " "+diag.Program()+" ["))
}

// printCommands lists the commands.
func (a *App) printCommands(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s [global options] <subcommand> [args]\n\nThe commands:\n", diag.Program())
	for _, c := range a.program.Commands {
		if !c.Hidden {
			fmt.Fprintf(w, "  %-22s %s\n", c.Name, c.Synopsis)
		}
	}
	fmt.Fprint(w, `
Global options (before the command):
  -chdir=DIR   Work in another directory.
  -nats=URL    Use the NATS server and the workers there, instead of the ones inside this process. The environment
               variable MILLIPEDE_NATS, or a nats block in millipede.hcl, does the same.
  -install-autocomplete, -uninstall-autocomplete
               Have bash, zsh and fish complete command lines, or no longer.
  -help        Show this text, or that of a command.
  -version     The same as the command "version".

The connection to the NATS server (before the command, too):
`+natsconn.Usage)
}

// didYouMean suggests a command for a misspelt one.
func (a *App) didYouMean(name string) string {
	best, distance := "", 3
	for _, c := range a.program.Commands {
		if d := levenshtein.Distance(name, c.Name, nil); d < distance {
			best, distance = c.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}
