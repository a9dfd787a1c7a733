package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"
	"github.com/mattn/go-isatty"
	"github.com/mattn/go-shellwords"

	"github.com/millipede-iac/millipede/cmd/adapters"
	"github.com/millipede-iac/millipede/cmd/logging"
	"github.com/millipede-iac/millipede/cmd/natsconn"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/provider/services"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// version is what the command reports as its own; engineVersion the version of OpenTofu whose behaviour and formats
// it has, which is what drivers ask for.
const (
	version       = "0.1.0"
	engineVersion = "1.12.6"
)

// app is one invocation: its streams, its environment, its global options.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        environ.Variables
	interrupts     *interrupts
	bug            bool          // a run was ended by a mistake of ours
	reader         *bufio.Reader // of stdin; see lines
	cli            *cliconfig.Config
	services       *services.Services // both are there once loadCLIConfig was called
	estate         *estate.Estate     // the working directory's; there while a command runs

	logs      *logging.Logs       // what TF_LOG asks for; there while a command runs
	connector *adapters.Connector // there while a command runs

	chdir   string
	cwd     string            // where the command was given; empty when the system does not tell
	dir     string            // the directory to work in, absolute: cwd, or what -chdir names
	nats    natsconn.Settings // what the options say; see server
	command string
	streams bool          // its JSON form is a stream of messages
	apart   bool          // the command has nothing to do with workspaces
	flags   *flag.FlagSet // of the command, once it has made them
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, env environ.Variables) *app {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, environ: env}
	a.interrupts = newInterrupts(context.Background(), a.tell, os.Exit)
	return a
}

// getenv returns the value of an environment variable, the last one where there are several.
func (a *app) getenv(name string) string { return a.environ.Get(name) }

// automated tells whether the command runs under a driver: hints for people are left out then.
func (a *app) automated() bool { return a.getenv("TF_IN_AUTOMATION") != "" }

// terminal tells whether a stream is a terminal.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// command is one of the commands. Its run function gets the arguments behind the name.
type command struct {
	name     string
	synopsis string
	run      func(ctx context.Context, a *app, args []string) int
	hidden   bool
	// document tells that the JSON form is one document, so that problems are text: there is no stream of messages for
	// them.
	document bool
	// apart tells that the command has nothing to do with workspaces, so that it does not matter which one is selected.
	apart bool
	// use is what the command opens the estate of the working directory for.
	use estate.Use
}

// run dispatches to a command.
func (a *app) run(ctx context.Context, args []string) int {
	rest, code, done := a.globals(args)
	if done {
		return code
	}
	a.cwd, _ = os.Getwd() // where the system does not tell, relative names are left to it
	a.dir = a.cwd
	a.loadCLIConfig() // before -chdir: a relative name in the environment is meant where the command was given
	if a.chdir != "" {
		if err := os.Chdir(a.chdir); err != nil {
			fmt.Fprintf(a.stderr, "Error handling -chdir option: %s\n", err)
			return 1
		}
		a.dir, _ = os.Getwd()
	}
	c, rest := findCommand(rest)
	if c == nil {
		if len(rest) == 0 {
			a.printCommands(a.stdout)
			return 127
		}
		fmt.Fprintf(a.stderr, "Millipede has no command named %q.%s\n\nTo see all of the commands, run:\n  "+
			diag.Program()+" -help\n", rest[0], didYouMean(rest[0]))
		return 1
	}
	a.command, a.apart, a.streams = c.name, c.apart, !c.document
	extra, err := a.argsFromEnvironment(c.name)
	if err != nil {
		fmt.Fprintf(a.stderr, "Error: %s\n", err)
		return 1
	}
	args = append(extra, rest...)
	a.logs = logging.Open(a.getenv, view.Clean(a.stderr, false))
	a.connector = &adapters.Connector{
		NATS: a.nats, Environ: a.environ, Version: version, Tell: a.tell, Log: a.logs.Core, PluginLog: a.logs.Plugins,
		Leaving: a.interrupts.Leaving, AtEnd: a.interrupts.AtEnd,
	}
	a.estate = a.newEstate(c.use)
	a.logs.Begin(version, engineVersion, c.name, args)
	profiled, err := logging.Profile(a.getenv("TOFU_CPU_PROFILE"))
	if err != nil {
		fmt.Fprintf(a.stderr, "Error: TOFU_CPU_PROFILE: %s\n", err)
		return 1
	}
	ctx, ended := a.traced(ctx, c.name)
	code = c.run(ctx, a, args)
	code = a.exitCode(code)
	ended(code)
	if err := profiled(); err != nil {
		fmt.Fprintf(a.stderr, "Error: writing the profile: %s\n", err)
	}
	if err := a.logs.End(code); err != nil {
		fmt.Fprintf(a.stderr, "Error: writing the log: %s\n", err)
	}
	return code
}

// exitCode is the exit code of a command that has ended with code. One that was interrupted never ends as if nothing
// had been.
func (a *app) exitCode(code int) int {
	switch {
	case a.bug:
		return crashed
	case !a.interrupts.Asked():
		return code
	case code == 0:
		a.tell("\nThe command was interrupted. Nothing has failed, but the exit status says that it may not have " +
			"done everything.\n\n")
	}
	return 1
}

// versionWords ask for the version, wherever they stand; helpWords for help, wherever they stand before "--".
var (
	versionWords = []string{"-v", "-version", "--version"}
	helpWords    = []string{"-h", "-help", "--help"}
)

// asksHelp tells whether one of the arguments asks for help.
func asksHelp(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(helpWords, arg) })
}

// globals takes the options before the command off.
func (a *app) globals(args []string) (rest []string, code int, done bool) {
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
			fmt.Fprintln(a.stderr, "Invalid -chdir option: it needs an equals sign and a directory, as in "+
				"-chdir=example")
			return nil, 1, true
		case name == "chdir" && a.chdir != "":
			fmt.Fprintln(a.stderr, "Invalid -chdir option: it can be given only once")
			return nil, 1, true
		case name == "chdir":
			a.chdir = value
		case hasValue && a.nats.Flag(name, value):
		case name == "install-autocomplete" || name == "uninstall-autocomplete":
			if err := a.installCompletion(name == "install-autocomplete"); err != nil {
				fmt.Fprintf(a.stderr, "Error executing CLI: %s\n", err)
				return nil, 1, true
			}
			return nil, 0, true
		case slices.Contains(helpWords, arg):
			if len(args) == 0 {
				a.printCommands(a.stdout)
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
	fmt.Fprintf(a.stderr, "Invalid global option %s: write -chdir=DIR, -nats=URL, -help, -version or another global "+
		"option before "+
		"the command, and the options of the command behind it; %s -help lists them.\n", unknown, diag.Program())
	if len(args) == 0 {
		return nil, 127, true
	}
	return nil, 1, true
}

// versionFirst makes a command line of the version command: the global options stay before it.
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

// findCommand returns the command that the arguments name (two words for commands like `state list`), and what
// follows.
func findCommand(args []string) (*command, []string) {
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for i := range commands {
			if commands[i].name == name {
				return &commands[i], args[words:]
			}
		}
	}
	return nil, args
}

// argsFromEnvironment returns the arguments that TF_CLI_ARGS and TF_CLI_ARGS_name add, split as a shell splits words.
func (a *app) argsFromEnvironment(name string) ([]string, error) {
	var out []string
	for _, v := range []string{"TF_CLI_ARGS_" + strings.NewReplacer(" ", "_", "-", "_").Replace(name), "TF_CLI_ARGS"} {
		words, err := shellwords.Parse(a.getenv(v))
		if err != nil {
			return nil, fmt.Errorf("parsing extra CLI args from %s: %w", v, err)
		}
		out = append(out, words...)
	}
	return out, nil
}

// newFlags returns an empty set of flags for the command.
func (a *app) newFlags() *flag.FlagSet {
	f := flag.NewFlagSet(a.command, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	a.flags = f
	return f
}

// parse parses the arguments of a command. When the command is over with that (help was asked for, or the arguments
// are wrong) done is set and code is its exit code.
func (a *app) parse(f *flag.FlagSet, usage string, args []string) (code int, done bool) {
	if asksHelp(args) {
		printUsage(a.stdout, usage)
		return 0, true
	}
	err := f.Parse(viewFirst(f, args))
	problem := checkFlags(f)
	if err != nil {
		if why := absence(a.command, err); why != "" {
			err = fmt.Errorf("%w: %s", err, why)
		}
		problem = diag.Errors("Failed to parse command-line flags", err.Error()+".", nil)
	}
	switch {
	case len(problem) == 0:
		return 0, false
	case a.streams && jsonAsked(f):
		stream := document.NewStream(document.StreamOptions{Out: a.stdout, Now: time.Now, EngineVersion: engineVersion})
		stream.Problems(problem)
		if err := stream.Settle(); err != nil {
			fmt.Fprintln(a.stderr, err)
		}
	case err != nil:
		fmt.Fprintf(a.stderr, "\nError: Failed to parse command-line flags\n\n%s\n\nFor the options of the command, "+
			"run:\n  "+diag.Program()+" %s -help\n", err, a.command)
	default:
		fmt.Fprintf(a.stderr, "\nError: %s\n\n%s\n", problem[0].Summary, problem[0].Detail)
	}
	return 1, true
}

// tell tells people something on standard error.
func (a *app) tell(text string) { fmt.Fprint(view.Clean(a.stderr, false), text) }

// jsonAsked tells whether -json was parsed, which it was when it stands before the mistake.
func jsonAsked(f *flag.FlagSet) bool {
	asked := f.Lookup("json")
	return asked != nil && asked.Value.String() == "true"
}

// viewArgs are the flags about how things are shown. They may stand anywhere, behind other arguments too.
var viewArgs = []string{"no-color", "compact-warnings", "consolidate-warnings", "consolidate-errors", "concise"}

// viewFirst moves the flags of viewArgs that the command has to the front, where they are parsed.
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

// printUsage writes the help text of a command, with the name under which the program was called.
func printUsage(w io.Writer, usage string) {
	fmt.Fprintln(w, strings.ReplaceAll(strings.TrimSpace(usage), " coordinator [", " "+diag.Program()+" ["))
}

// printCommands lists the commands.
func (a *app) printCommands(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s [global options] <subcommand> [args]\n\nThe commands:\n", diag.Program())
	for _, c := range commands {
		if !c.hidden {
			fmt.Fprintf(w, "  %-22s %s\n", c.name, c.synopsis)
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

Who connects to the NATS server, and how (before the command, too):
`+natsconn.Usage)
}

// didYouMean suggests a command for a misspelt one.
func didYouMean(name string) string {
	best, distance := "", 3
	for _, c := range commands {
		if d := levenshtein.Distance(name, c.name, nil); d < distance {
			best, distance = c.name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}
