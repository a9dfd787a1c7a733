//go:build race

package site

// raceFlags build the programs under test as the tests are built.
var raceFlags = []string{"-race"}

// Slowness is how much longer everything takes in programs that are built so.
const Slowness = 5
