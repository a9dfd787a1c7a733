// Command coordinator plans and applies configuration: it builds the graph, decides what is ready, dispatches it to
// workers, owns the state.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line and returns its exit code.
func execute(args []string) int {
	tuneCollector()
	a := newApp(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	if line, ok := a.completing(); ok {
		for _, word := range a.complete(context.Background(), line) {
			fmt.Fprintln(os.Stdout, word)
		}
		return 0
	}
	// Signals are not tied to the context: the first asks a run to stop, the second leaves. See interrupts.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	a.signals = signals
	return a.run(context.Background(), args)
}
