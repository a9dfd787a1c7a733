package command

import (
	"os"
	"runtime/debug"
)

// heapGrowth is by how many percent the heap may grow before garbage is collected again: a fifth of a plan's CPU time
// goes into that at Go's 100, and this saves a quarter of it. It is the same for small heaps and large ones, so that
// time stays in proportion to size; more would take the apply of 100,000 instances over its budget of memory.
const heapGrowth = 130

// tuneCollector sets heapGrowth. Who says how memory is to be used, with GOGC or GOMEMLIMIT, gets exactly that.
func tuneCollector() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
