// Package runs tests that many runs over one connection leave nothing behind, as in a service that runs for days.
package runs
