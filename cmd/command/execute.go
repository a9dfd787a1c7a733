package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/millipede-iac/millipede/lang/diag"
)

// Execute runs one command line in this process, with its streams, environment and signals. It returns the exit
// code.
func Execute(p *Program, args []string) int {
	diag.CalledAs(os.Args[0])
	tuneCollector()
	a := New(p, os.Stdin, os.Stdout, os.Stderr, os.Environ())
	a.Alone = true
	if line, ok := a.Completing(); ok {
		for _, word := range a.Complete(context.Background(), line) {
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
		a.Interrupts.watch(signals, done)
	}()
	defer func() {
		close(done)
		<-watched
	}()
	return a.Run(a.Interrupts.Stopping, args)
}
