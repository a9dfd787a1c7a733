// Package handover starts this program again, in the same process, with an environment that has no secrets.
//
// Other programs and whatever reads files in this process can read the environment with which it was started
// (/proc/PID/environ), as long as it runs and whatever it does to its variables. So a program that keeps running for
// others hands its variables to itself through memory, and executes itself with only those that are nobody's secret. The
// process keeps its ID, its parent, its files and its working directory. The package knows no settings.
package handover

import (
	"slices"
	"strings"
)

// passing is the variable with the descriptor through which the environment comes; it is in no environment that Environ
// returns.
const passing = "MILLIPEDE_ENVIRONMENT_FROM"

// public are the variables that remain visible in any case: those that the runtime of Go reads before the program begins.
var public = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR"}

// Environ returns the complete environment of the process, own, if only the named variables of it are visible to others.
// Otherwise it starts the program again, and does not return unless that fails. On systems where others cannot be kept
// from reading the environment in this way, it returns own.
func Environ(own []string, named []string) ([]string, error) {
	visible := slices.DeleteFunc(slices.Clone(own), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(public, name) && !slices.Contains(named, name)
	})
	return environ(own, visible)
}
