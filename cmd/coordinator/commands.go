package main

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator/estate"
)

// commands are all commands, in the order in which the help lists them.
var commands []command

// They are set here because the help command, inside of them, lists them.
func init() {
	commands = []command{
		{name: "init", synopsis: "Prepare the directory: modules, providers, backend", run: runInit,
			use: estate.Use{ShowsMethods: true, Unreadable: estate.Unreadable{Summary: "Error refreshing state"}}},
		{name: "validate", synopsis: "Check the configuration", run: runValidate, document: true,
			use: estate.Use{LooksOnly: true}},
		{name: "plan", synopsis: "Show what would change", run: runPlan, use: estate.Use{LooksOnly: true,
			ShowsMethods: true}},
		{name: "apply", synopsis: "Make the changes", run: runApply},
		{name: "destroy", synopsis: "Destroy everything", run: runDestroy},

		{name: "console", synopsis: "Try expressions, with what the state holds", run: runConsole, document: true,
			use: estate.Use{LooksOnly: true, ShowsMethods: true}},
		{name: "fmt", synopsis: "Rewrite configuration files in their usual form", run: runFmt, apart: true,
			document: true},
		{name: "force-unlock", synopsis: "Release a lock that was left on the state", run: runForceUnlock},
		{name: "get", synopsis: "Install the modules", run: runGet},
		{name: "graph", synopsis: "Draw what depends on what", run: runGraph, document: true,
			use: estate.Use{LooksOnly: true}},
		{name: "import", synopsis: "Take an object that exists into the state", run: runImport,
			use: estate.Use{ShowsMethods: true}},
		{name: "limits", synopsis: "Show who holds the limits, and who waits", run: runLimits, apart: true},
		{name: "login", synopsis: "Get a token from a host, and keep it", run: runLogin, apart: true},
		{name: "logout", synopsis: "Forget the token for a host", run: runLogout, apart: true},
		{name: "metadata", synopsis: "Facts about the engine", run: group(metadataUsage), hidden: true},
		{name: "metadata functions", synopsis: "Show the functions of the language", run: runMetadataFunctions,
			apart: true, document: true},
		{name: "migrate", synopsis: "Take the states of this directory to a service", run: runMigrate},
		{name: "output", synopsis: "Show output values", run: runOutput, document: true,
			use: estate.Use{Unreadable: estate.Unreadable{Own: true}}},
		{name: "providers", synopsis: "Show which modules require which providers", run: runProviders,
			use: estate.Use{ShowsMethods: true, Unreadable: estate.Unreadable{Summary: "Failed refreshing the state"}}},
		{name: "providers lock", synopsis: "Write checksums of providers to the lock file", run: runProvidersLock,
			use: estate.Use{Unreadable: estate.Unreadable{Summary: "Failed refreshing the state"}}},
		{name: "providers mirror", synopsis: "Copy the required providers into a directory", run: runProvidersMirror,
			use: estate.Use{Unreadable: estate.Unreadable{Summary: "Failed refreshing the state"}}},
		{name: "providers schema", synopsis: "Show the schemas of the required providers", run: runProvidersSchema,
			document: true, use: estate.Use{Unreadable: estate.Unreadable{Summary: "Failed refreshing the state"}}},
		{name: "refresh", synopsis: "Bring the state in line with what exists", run: runRefresh,
			use: estate.Use{ShowsMethods: true}},
		{name: "runs", synopsis: "What ran on the state", run: group(runsUsage), hidden: true},
		{name: "runs list", synopsis: "List the runs of the workspace", run: runRunsList},
		{name: "runs show", synopsis: "Show what a run did, and where", run: runRunsShow},
		{name: "runs watch", synopsis: "Show the run of another process while it goes on", run: runRunsWatch},
		{name: "runs report", synopsis: "Write a report about a run as an HTML file", run: runRunsReport},
		{name: "runs resume", synopsis: "Go on with a run that was cut off", run: runResume},
		{name: "runs cancel", synopsis: "End a run for good", run: runCancel},
		{name: "runs resolve", synopsis: "Say what became of an operation in doubt", run: runResolve},
		{name: "serve", synopsis: "Serve many workspaces to many people", run: runServe, apart: true, document: true},
		{name: "show", synopsis: "Show the state or a saved plan", run: runShow, document: true,
			use: estate.Use{Unreadable: estate.Unreadable{Summary: "failed to load state", Named: true}}},
		{name: "state", synopsis: "Work on the state", run: group(stateUsage), hidden: true},
		{name: "state list", synopsis: "List what is in the state", run: runStateList,
			use: estate.Use{Unreadable: estate.Unreadable{Summary: "Error refreshing the state"}}},
		{name: "state ls", run: runStateList, hidden: true,
			use: estate.Use{Unreadable: estate.Unreadable{Summary: "Error refreshing the state"}}},
		{name: "state show", synopsis: "Show one object of the state", run: runStateShow},
		{name: "state pull", synopsis: "Write the state to standard output", run: runStatePull, document: true,
			use: estate.Use{Unreadable: estate.Unreadable{Summary: "Failed to refresh state", Named: true}}},
		{name: "state push", synopsis: "Replace the state by a file", run: runStatePush},
		{name: "state restore", synopsis: "Bring an earlier version of the state back", run: runStateRestore},
		{name: "state mv", synopsis: "Give objects of the state another address", run: runStateMv,
			use: estate.Use{ClearFiles: true}},
		{name: "state move", run: runStateMv, hidden: true, use: estate.Use{ClearFiles: true}},
		{name: "state rm", synopsis: "Forget objects without destroying them", run: runStateRm,
			use: estate.Use{ClearFiles: true}},
		{name: "state remove", run: runStateRm, hidden: true, use: estate.Use{ClearFiles: true}},
		{name: "state replace-provider", synopsis: "Make objects belong to another provider", run: runReplaceProvider,
			use: estate.Use{ClearFiles: true}},
		{name: "taint", synopsis: "Mark an object to be replaced", run: runTaint},
		{name: "test", synopsis: "Carry out the tests of the configuration", run: runTest},
		{name: "untaint", synopsis: "Take that mark away", run: runUntaint},
		{name: "version", synopsis: "Show the version", run: runVersion, apart: true, document: true},
		{name: "workers", synopsis: "Who carries out operations", run: group(workersUsage), hidden: true},
		{name: "workers list", synopsis: "List the live workers", run: runWorkersList, apart: true},
		{name: "workspace", synopsis: "Several states for one configuration", run: group(workspaceUsage), hidden: true},
		{name: "workspace list", synopsis: "List the workspaces", run: runWorkspaceList},
		{name: "workspace show", synopsis: "Show the name of the selected workspace", run: runWorkspaceShow},
		{name: "workspace new", synopsis: "Make a workspace, and select it", run: runWorkspaceNew},
		{name: "workspace select", synopsis: "Select another workspace", run: runWorkspaceSelect},
		{name: "workspace delete", synopsis: "Delete a workspace", run: runWorkspaceDelete},
		{name: "env", run: deprecatedEnv(group(workspaceUsage)), hidden: true},
		{name: "env list", run: deprecatedEnv(runWorkspaceList), hidden: true},
		{name: "env show", run: deprecatedEnv(runWorkspaceShow), hidden: true},
		{name: "env new", run: deprecatedEnv(runWorkspaceNew), hidden: true},
		{name: "env select", run: deprecatedEnv(runWorkspaceSelect), hidden: true},
		{name: "env delete", run: deprecatedEnv(runWorkspaceDelete), hidden: true},
	}
}

// group returns what runs where only the first word of commands like `state list` is given: it shows how to go on.
func group(usage string) func(context.Context, *app, []string) int {
	return func(_ context.Context, a *app, args []string) int {
		code := 1
		if asksHelp(args) {
			code = 0
		}
		printUsage(a.stdout, usage)
		return code
	}
}
