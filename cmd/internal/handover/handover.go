// Package handover starts this program again, in the same process, with an environment that has no secrets.
//
// The environment with which a process was started can be read in /proc/PID/environ by other programs, and by all code
// of the process that reads files. Changing its variables does not change that file. So a program that serves other
// people passes its variables to itself through memory, and executes itself with only those variables that are no
// secrets. The process keeps its ID, its parent, its files and its working directory. The package does not know which
// settings there are.
package handover

import (
	"slices"
	"strings"
)

// passing is the variable with the descriptor through which the environment comes; it is in no environment that Environ
// returns.
const passing = "MILLIPEDE_ENVIRONMENT_FROM"

// runtimes are the variables that remain visible in any case: the runtime of Go reads them before the program begins.
var runtimes = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR"}

// Except returns a function for Environ that reports whether a variable is not one of the named ones.
func Except(named []string) func(name, value string) bool {
	return func(name, _ string) bool { return !slices.Contains(named, name) }
}

// Environ returns the complete environment of the process, own, if no variable of it that others can see is a secret.
// Otherwise it starts the program again, and does not return unless that fails. On systems where others cannot be kept
// from reading the environment in this way, it returns own. Call it before anything that must not be done twice.
func Environ(own []string, secret func(name, value string) bool) ([]string, error) {
	visible := slices.DeleteFunc(slices.Clone(own), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return !slices.Contains(runtimes, name) && secret(name, value)
	})
	return environ(own, visible)
}
