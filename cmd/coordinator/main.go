// Command coordinator plans and applies configuration: it builds the graph, decides what is ready, dispatches it to
// workers, owns the state.
package main

import (
	"os"

	"github.com/millipede-iac/millipede/cmd/command"
)

func main() {
	os.Exit(command.Execute(program(), os.Args[1:]))
}
