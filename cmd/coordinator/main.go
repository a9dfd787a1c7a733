// Command coordinator plans and applies configuration: it builds the graph, decides what is ready, dispatches it to
// workers, owns the state.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/millipede-iac/millipede/lang/diag"
)

func main() {
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line and returns its exit code.
func execute(args []string) (code int) {
	diag.CalledAs(os.Args[0])
	tuneCollector()
	a := newApp(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	defer func() {
		if p := recover(); p != nil {
			code = a.crash(p, debug.Stack())
		}
	}()
	if line, ok := a.completing(); ok {
		for _, word := range a.complete(context.Background(), line) {
			fmt.Fprintln(os.Stdout, word)
		}
		return 0
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		a.interrupts.watch(signals, done)
	}()
	defer func() {
		close(done)
		<-watched
	}()
	return a.run(a.interrupts.Stopping, args)
}
