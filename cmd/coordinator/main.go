// Command coordinator is the command line of Millipede: it plans and applies configurations, manages their
// states, and serves the service.
package main

import (
	"os"

	"github.com/millipede-iac/millipede/cmd/internal/command"
)

func main() {
	os.Exit(command.Execute(program(), os.Args[1:]))
}
