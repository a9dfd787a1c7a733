package main

import (
	"context"

	"github.com/millipede-iac/millipede/cmd/internal/build"
	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/cmd/internal/serving"
	"github.com/millipede-iac/millipede/coordinator/estate"
)

// commands are all commands, in the order in which the help lists them.
var commands []command.Command

// init sets the table, because the help command, which is part of the table, lists it.
func init() {
	commands = []command.Command{
		{Name: "init", Synopsis: "Prepare the directory: modules, providers, backend", Run: own(runInit),
			Use: estate.Use{ShowsMethods: true, Unreadable: estate.Unreadable{Summary: "Error refreshing state"}}},
		{Name: "validate", Synopsis: "Check the configuration", Run: own(runValidate), Document: true,
			Use: estate.Use{LooksOnly: true}},
		{Name: "plan", Synopsis: "Show what would change", Run: own(runPlan), Use: estate.Use{LooksOnly: true,
			ShowsMethods: true}},
		{Name: "apply", Synopsis: "Make the changes", Run: own(runApply)},
		{Name: "destroy", Synopsis: "Destroy everything", Run: own(runDestroy)},

		{Name: "console", Synopsis: "Evaluate expressions with the state", Run: own(runConsole), Document: true,
			Use: estate.Use{LooksOnly: true, ShowsMethods: true}},
		{Name: "fmt", Synopsis: "Rewrite configuration files in canonical form", Run: own(runFmt), Apart: true,
			Document: true},
		{Name: "force-unlock", Synopsis: "Release a lock that was left on the state", Run: own(runForceUnlock)},
		{Name: "get", Synopsis: "Install the modules", Run: own(runGet)},
		{Name: "graph", Synopsis: "Draw the dependency graph", Run: own(runGraph), Document: true,
			Use: estate.Use{LooksOnly: true}},
		{Name: "import", Synopsis: "Import an existing object into the state", Run: own(runImport),
			Use: estate.Use{ShowsMethods: true}},
		{Name: "limits", Synopsis: "Show limits, and held and requested permits", Run: own(runLimits), Apart: true},
		{Name: "login", Synopsis: "Get and store a token for a host", Run: own(runLogin), Apart: true},
		{Name: "logout", Synopsis: "Remove the stored token for a host", Run: own(runLogout), Apart: true},
		{Name: "metadata", Synopsis: "Facts about the engine", Run: own(group(metadataUsage)), Hidden: true},
		{Name: "metadata functions", Synopsis: "Show the functions of the language", Run: own(runMetadataFunctions),
			Apart: true, Document: true},
		{Name: "migrate", Synopsis: "Migrate the states of this directory to a service", Run: own(runMigrate)},
		{Name: "modules", Synopsis: "Show the modules that the configuration calls", Run: own(runModules), Document: true},
		{Name: "output", Synopsis: "Show output values", Run: own(runOutput), Document: true,
			Use: estate.Use{Unreadable: estate.Unreadable{Own: true}}},
		{Name: "pools", Synopsis: "Show where messages of pools are stored", Run: own(group(poolsUsage)), Hidden: true},
		{Name: "pools list", Synopsis: "List the pools with a message store of their own", Run: own(runPoolsList),
			Apart: true},
		{Name: "pools set", Synopsis: "Set where the message store of a pool is", Run: own(runPoolsSet), Apart: true},
		{Name: "providers", Synopsis: "Show which modules require which providers", Run: own(runProviders),
			Use: estate.Use{ShowsMethods: true, Unreadable: estate.Unreadable{Summary: "Failed refreshing the state"}}},
		{Name: "providers lock", Synopsis: "Write checksums of providers to the lock file", Run: own(runProvidersLock),
			Use: estate.Use{Unreadable: estate.Unreadable{Summary: "Failed refreshing the state"}}},
		{Name: "providers mirror", Synopsis: "Copy the required providers into a directory", Run: own(runProvidersMirror),
			Use: estate.Use{Unreadable: estate.Unreadable{Summary: "Failed refreshing the state"}}},
		{Name: "providers schema", Synopsis: "Show the schemas of the required providers", Run: own(runProvidersSchema),
			Document: true, Use: estate.Use{Unreadable: estate.Unreadable{Summary: "Failed refreshing the state"}}},
		{Name: "query", Synopsis: "List existing objects, managed or not", Run: own(runQuery),
			Use: estate.Use{LooksOnly: true, ShowsMethods: true}},
		{Name: "refresh", Synopsis: "Update the state from the real objects", Run: own(runRefresh),
			Use: estate.Use{ShowsMethods: true}},
		{Name: "runs", Synopsis: "Work on runs", Run: own(group(runsUsage)), Hidden: true},
		{Name: "runs list", Synopsis: "List the runs of the workspace", Run: own(runRunsList)},
		{Name: "runs show", Synopsis: "Show the operations of a run", Run: own(runRunsShow)},
		{Name: "runs watch", Synopsis: "Show the progress of another process's run", Run: own(runRunsWatch)},
		{Name: "runs report", Synopsis: "Write a report about a run as an HTML file", Run: own(runRunsReport)},
		{Name: "runs resume", Synopsis: "Resume an interrupted run", Run: own(runResume)},
		{Name: "runs confirm", Synopsis: "Approve the plan of a run of a service", Run: own(runRunsConfirm)},
		{Name: "runs discard", Synopsis: "Discard the plan of a run of a service", Run: own(runRunsDiscard)},
		{Name: "runs cancel", Synopsis: "Cancel a run", Run: own(runCancel)},
		{Name: "runs resolve", Synopsis: "Record the outcome of an operation in doubt", Run: own(runResolve)},
		{Name: "serve", Synopsis: "Serve many workspaces to many people", Run: own(runServe), Apart: true, Document: true,
			Lasts: true, Visible: serving.Visible()},
		driven(serving.EngineCommand, runEngine), driven(serving.WorkerCommand, runEmbeddedWorker),
		{Name: "group", Synopsis: "Operate the members of a service", Run: own(group(groupUsage)), Hidden: true},
		{Name: "group status", Synopsis: "Show the members of a group", Run: own(runGroupStatus), Apart: true,
			Document: true},
		{Name: "group handover", Synopsis: "Have another member lead", Run: own(runGroupHandover), Apart: true,
			Document: true},
		{Name: "group remove", Synopsis: "Remove a member that is gone", Run: own(runGroupRemove), Apart: true,
			Document: true},
		{Name: "group adopt", Synopsis: "Turn a single service into a group", Run: own(runGroupAdopt), Apart: true,
			Document: true},
		{Name: "group recover", Synopsis: "Go on with the copies of one member", Run: own(runGroupRecover), Apart: true,
			Document: true},
		{Name: "service", Synopsis: "Back up, restore or upgrade a service", Run: own(group(serviceUsage))},
		{Name: "service backup", Synopsis: "Write a backup of a service to a file", Run: own(runServiceBackup),
			Apart: true, Document: true},
		{Name: "service finish-upgrade", Synopsis: "Give up going back to the version before", Run: own(runFinishUpgrade),
			Apart: true, Document: true},
		{Name: "service restore", Synopsis: "Create the directory of a service from a backup", Run: own(runServiceRestore),
			Apart: true, Document: true},
		{Name: "show", Synopsis: "Show the state or a saved plan", Run: own(runShow), Document: true,
			Use: estate.Use{Unreadable: estate.Unreadable{Summary: "failed to load state", Named: true}}},
		{Name: "state", Synopsis: "Work on the state", Run: own(group(stateUsage)), Hidden: true},
		{Name: "state list", Synopsis: "List what is in the state", Run: own(runStateList),
			Use: estate.Use{Unreadable: estate.Unreadable{Summary: "Error refreshing the state"}}},
		{Name: "state ls", Run: own(runStateList), Hidden: true,
			Use: estate.Use{Unreadable: estate.Unreadable{Summary: "Error refreshing the state"}}},
		{Name: "state identities", Synopsis: "Show the identities of what is in the state", Run: own(runStateIdentities),
			Document: true, Use: estate.Use{Unreadable: estate.Unreadable{Summary: "Error refreshing the state"}}},
		{Name: "state show", Synopsis: "Show one object of the state", Run: own(runStateShow)},
		{Name: "state pull", Synopsis: "Write the state to standard output", Run: own(runStatePull), Document: true,
			Use: estate.Use{Unreadable: estate.Unreadable{Summary: "Failed to refresh state", Named: true}}},
		{Name: "state push", Synopsis: "Replace the state with a file", Run: own(runStatePush)},
		{Name: "state restore", Synopsis: "Restore an earlier version of the state", Run: own(runStateRestore)},
		{Name: "state mv", Synopsis: "Change the address of objects in the state", Run: own(runStateMv),
			Use: estate.Use{ClearFiles: true}},
		{Name: "state move", Run: own(runStateMv), Hidden: true, Use: estate.Use{ClearFiles: true}},
		{Name: "state rm", Synopsis: "Remove objects from the state without destroying them", Run: own(runStateRm),
			Use: estate.Use{ClearFiles: true}},
		{Name: "state remove", Run: own(runStateRm), Hidden: true, Use: estate.Use{ClearFiles: true}},
		{Name: "state replace-provider", Synopsis: "Assign objects to another provider", Run: own(runReplaceProvider),
			Use: estate.Use{ClearFiles: true}},
		{Name: "taint", Synopsis: "Mark an object for replacement", Run: own(runTaint)},
		{Name: "test", Synopsis: "Run the tests of the configuration", Run: own(runTest)},
		{Name: "untaint", Synopsis: "Remove the mark for replacement", Run: own(runUntaint)},
		{Name: "upgrade", Synopsis: "Prepare for another version", Run: own(group(upgradeUsage)), Hidden: true},
		{Name: "upgrade check", Synopsis: "Show what stands in the way of an upgrade", Run: own(runUpgradeCheck)},
		{Name: "upgrade finish", Synopsis: "Give up going back to the version before", Run: own(runUpgradeFinish),
			Use: estate.Use{Raises: true}},
		{Name: "users", Synopsis: "Manage the users of a service", Run: own(group(usersUsage)), Hidden: true},
		{Name: "users list", Synopsis: "List the users of a service", Run: own(runUsersList), Apart: true,
			Document: true},
		{Name: "users create", Synopsis: "Create a user", Run: own(runUsersCreate), Apart: true, Document: true},
		{Name: "users change", Synopsis: "Change a user", Run: own(runUsersChange), Apart: true, Document: true},
		{Name: "users disable", Synopsis: "Refuse logins and tokens of a user", Run: own(disabling(true)), Apart: true,
			Document: true},
		{Name: "users enable", Synopsis: "Accept logins and tokens of a user again", Run: own(disabling(false)),
			Apart: true, Document: true},
		{Name: "users reset", Synopsis: "Revoke all tokens of a user", Run: own(runUsersReset), Apart: true,
			Document: true},
		{Name: "users password", Synopsis: "Set a password", Run: own(runUsersPassword), Apart: true, Document: true},
		{Name: "users delete", Synopsis: "Delete a user", Run: own(runUsersDelete), Apart: true, Document: true},
		{Name: "version", Synopsis: "Show the version", Run: own(runVersion), Apart: true, Document: true},
		{Name: "workers", Synopsis: "Show workers", Run: own(group(workersUsage)), Hidden: true},
		{Name: "workers list", Synopsis: "List the live workers", Run: own(runWorkersList), Apart: true},
		{Name: "workspace", Synopsis: "Several states for one configuration", Run: own(group(workspaceUsage)), Hidden: true},
		{Name: "workspace list", Synopsis: "List the workspaces", Run: own(runWorkspaceList)},
		{Name: "workspace show", Synopsis: "Show the name of the selected workspace", Run: own(runWorkspaceShow)},
		{Name: "workspace new", Synopsis: "Create a workspace, and select it", Run: own(runWorkspaceNew)},
		{Name: "workspace select", Synopsis: "Select another workspace", Run: own(runWorkspaceSelect)},
		{Name: "workspace delete", Synopsis: "Delete a workspace", Run: own(runWorkspaceDelete)},
		{Name: "env", Run: own(deprecatedEnv(group(workspaceUsage))), Hidden: true},
		{Name: "env list", Run: own(deprecatedEnv(runWorkspaceList)), Hidden: true},
		{Name: "env new", Run: own(deprecatedEnv(runWorkspaceNew)), Hidden: true},
		{Name: "env select", Run: own(deprecatedEnv(runWorkspaceSelect)), Hidden: true},
		{Name: "env delete", Run: own(deprecatedEnv(runWorkspaceDelete)), Hidden: true},
	}
}

// group returns the function for the first word of commands like `state list` alone: it shows the help.
func group(usage string) func(context.Context, *app, []string) int {
	return func(_ context.Context, a *app, args []string) int {
		code := 1
		if command.AsksHelp(args) {
			code = 0
		}
		command.PrintUsage(a.Stdout, usage)
		return code
	}
}

// own adapts a command of this package to the framework.
func own(run func(context.Context, *app, []string) int) func(context.Context, *command.App, []string) int {
	return func(ctx context.Context, a *command.App, args []string) int { return run(ctx, &app{a}, args) }
}

// engineVersion is the version of OpenTofu with the same behaviour and formats. The version of Millipede is
// build.Version.
const engineVersion = build.EngineVersion

// program returns the description of the program for the framework.
func program() *command.Program {
	return &command.Program{
		Version: build.Version(), EngineVersion: engineVersion, Commands: commands, Absent: absent,
		FileFlags: []string{
			"backup", "chdir", "exclude-file", "from-module", "fs-mirror", "generate-config-out", "json-into", "module",
			"out", "plan", "plugin-dir", "state", "state-out", "target-file", "test-directory", "var-file",
		},
		FileArguments:      []string{"apply", "fmt", "providers mirror", "show", "state push"},
		WorkspaceArguments: []string{"workspace select", "workspace delete", "env select", "env delete"},
	}
}
