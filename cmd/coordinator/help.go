package main

// The parts that the help texts of plan, apply, destroy and refresh have in common.
const (
	modesHelp = `
Planning modes:
  -destroy              Plan to destroy everything that exists.
  -refresh-only         Plan only to record what was changed outside.
`
	planningHelp = `
Options for planning:
  -refresh=false        Take what the state says for what exists.
  -refresh=changed      Read only what a change can touch: an object that by what the state says does not change, and
                        depends on nothing that does, is taken as it is stored. The summary says how old that is.
  -no-verdicts          With -refresh=changed, have every object planned, though nothing about it has changed since it
                        was planned to stay as it is.
  -replace=ADDRESS      Plan to replace this instance. May be given often.
` + scopeOptions
	scopeHelp = `
Options for planning:
` + scopeOptions
	scopeOptions = `  -target=ADDRESS       Plan only this module, resource or instance and what it depends on. May be given often.
  -target-file=FILE     The same, with the addresses in a file, one a line.
  -exclude=ADDRESS      Plan all but this and what depends on it. May be given often.
  -exclude-file=FILE    The same, with the addresses in a file.
  -var 'NAME=VALUE'     Set an input variable of the root module. May be given often.
  -var-file=FILE        Set the variables in a file, beside terraform.tfvars and *.auto.tfvars.
`
	approvingHelp = `
Options for applying:
  -auto-approve         Do not ask.
  -suppress-forget-errors
                        Exit with 0 when a destroy forgets objects instead of destroying them.
`
	runningHelp   = operatingHelp + writingHelp + revealHelp + deprecationHelp + jsonHelp
	operatingHelp = `  -parallelism=N        How many operations may go on at one time, over all runs. Default: 10.
  -input=false          Never ask for anything.
` + lockHelp + `  -concise              Do not show the refreshing.
  -state=FILE           An old option of the local backend: the state file.
`
	writingHelp = `  -state-out=FILE       An old option of the local backend: another state file, which is written.
  -backup=FILE          An old option of the local backend: where the state file before is kept; "-" for nowhere.
`
	shownHelp  = revealHelp + deprecationHelp
	revealHelp = `  -show-sensitive       Show sensitive values.
`
	deprecationHelp = `  -deprecation=module:all|local|none
                        Which warnings of the use of what is deprecated are shown: all, those of local modules, none.
`
)

// The parts that the help texts of several commands have in common.
const (
	textHelp = `  -no-color             Use no colours.
  -compact-warnings, -consolidate-warnings=false, -consolidate-errors
                        How problems are shown.
`
	jsonHelp = `  -json                 Show everything as JSON, a line for each message.
  -json-into=FILE       Write that to a file, beside the text.
` + textHelp
	documentHelp = `  -json                 Show the result as JSON.
  -json-into=FILE       Write that to a file, beside the text.
` + textHelp
	variablesHelp = `  -var 'NAME=VALUE', -var-file=FILE
                        Variables that the backend block depends on. May be given often.
`
	lockHelp = `  -lock=false           Do not lock the state meanwhile.
  -lock-timeout=0s      How long to wait for a lock that another command holds.
`
	remoteVersionHelp = `  -ignore-remote-version
                        Change the state of a workspace of a service although it is for another version.
`
	stateFileHelp = `  -state=FILE           Work on this state file, not on the state of the workspace.
  -state-out=FILE       Write the changed state to this file.
  -backup=FILE          Where the state before the change is written; "-" for nowhere.
`
)

const detachHelp = `  -detach               Where a service carries the run out: do not wait for it. The command prints the run and ends.
`
