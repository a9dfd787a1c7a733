//go:build race

package site

// raceFlags build the programs under test as the tests are built.
var raceFlags = []string{"-race"}

// slowness is how much longer everything takes in programs that are built so.
const slowness = 5
