package main

// The common parts of the help texts of plan, apply, destroy and refresh.
const (
	modesHelp = `
Planning modes:
  -destroy              Plan to destroy all objects.
  -refresh-only         Plan only to update the state with changes made outside.
`
	planningHelp = `
Options for planning:
  -refresh=false        Do not read the existing objects; use the state.
  -refresh=changed      Read only objects that a change may affect: an object that does not change according to the state, and
                        does not depend on a change, is used as stored. The summary says how old that is.
  -minimal-refresh      The same as -refresh=changed.
  -no-verdicts          With -refresh=changed, plan every object, even if nothing about it has changed since it
                        was last planned without changes.
  -replace=ADDRESS      Plan to replace this instance. May be given several times.
  -invoke=ADDRESS       Invoke this action, and change nothing else, except what -target names. May be given several
                        times.
` + scopeOptions
	scopeHelp = `
Options for planning:
` + scopeOptions
	scopeOptions = `  -target=ADDRESS       Plan only this module, resource or instance and its dependencies. May be given several times.
  -target-file=FILE     The same, with the addresses in a file, one per line.
  -exclude=ADDRESS      Plan everything except this and the objects that depend on it. May be given several times.
  -exclude-file=FILE    The same, with the addresses in a file.
  -var 'NAME=VALUE'     Set an input variable of the root module. May be given several times.
  -var-file=FILE        Set the variables in a file, beside terraform.tfvars and *.auto.tfvars.
`
	deferralHelp = `  -allow-deferral       Leave out what cannot be planned before other changes are made, instead of refusing the
                        plan.
`
	approvingHelp = `
Options for applying:
  -auto-approve         Do not ask.
  -suppress-forget-errors
                        Exit with 0 if a destroy forgets objects instead of destroying them.
`
	runningHelp   = operatingHelp + writingHelp + revealHelp + deprecationHelp + jsonHelp
	operatingHelp = `  -parallelism=N        How many operations may run at the same time, over all runs. Default: 10.
  -input=false          Never ask for anything.
` + lockHelp + `  -concise              Do not show the progress of refreshing.
  -state=FILE           An old option of the local backend: the state file.
`
	writingHelp = `  -state-out=FILE       An old option of the local backend: the state file to write.
  -backup=FILE          An old option of the local backend: the file for the previous state; "-" for none.
`
	shownHelp  = revealHelp + deprecationHelp
	revealHelp = `  -show-sensitive       Show sensitive values.
`
	deprecationHelp = `  -deprecation=module:all|local|none
                        Which warnings about deprecated values are shown: all, those of local modules, or none.
`
)

// The common parts of the help texts of several commands.
const (
	textHelp = `  -no-color             Do not use colours.
  -compact-warnings, -consolidate-warnings=false, -consolidate-errors
                        How diagnostics are shown.
`
	jsonHelp = `  -json                 Show everything as JSON, one message per line.
  -json-into=FILE       Write the JSON to a file, in addition to the text.
` + textHelp
	documentHelp = `  -json                 Show the result as JSON.
  -json-into=FILE       Write the JSON to a file, in addition to the text.
` + textHelp
	variablesHelp = `  -var 'NAME=VALUE', -var-file=FILE
                        Variables that the backend block depends on. May be given several times.
`
	lockHelp = `  -lock=false           Do not lock the state.
  -lock-timeout=0s      How long to wait for a lock of another command.
`
	remoteVersionHelp = `  -ignore-remote-version
                        Change the state of a service's workspace even if it is set to another version.
`
	stateFileHelp = `  -state=FILE           Use this state file instead of the state of the workspace.
  -state-out=FILE       Write the changed state to this file.
  -backup=FILE          The file for the state before the change; "-" for none.
`
)

const detachHelp = `  -detach               If a service executes the run: do not wait for it. The command prints the run and exits.
`
