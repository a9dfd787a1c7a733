//go:build race

package site

// raceFlags are the build flags of the programs, as for the tests.
var raceFlags = []string{"-race"}

// Slowness is the factor by which programs built in this way are slower.
const Slowness = 5
