package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/millipede-iac/millipede/cmd/internal/confined"
	"github.com/millipede-iac/millipede/cmd/internal/handover"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Execute runs one command line in this process, with its streams, environment and signals. It returns the exit
// code.
func Execute(p *Program, args []string) int {
	if len(args) > 0 && args[0] == confined.Command {
		return confined.Execute(args[1:])
	}
	diag.CalledAs(os.Args[0])
	environment := os.Environ()
	if visible := p.visible(args); visible != nil {
		var err error
		if environment, err = handover.Environ(environment, handover.Except(visible)); err == nil {
			err = setEnvironment(environment)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "Error: the program cannot hide its environment: %s\n", err)
			return 1
		}
	}
	tuneCollector()
	a := New(p, os.Stdin, os.Stdout, os.Stderr, environment)
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
	if c := p.named(args); c != nil && c.Driven {
		return a.Run(context.Background(), args) // nobody receives the signals
	}
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		a.Interrupts.handle(signals, done)
	}()
	defer func() {
		close(done)
		<-watched
	}()
	return a.Run(a.Interrupts.Stopping, args)
}

// visible returns the variables of the environment that others may see while the command of a command line runs; nil
// for all of them.
func (p *Program) visible(args []string) []string {
	for i := range p.Commands {
		if c := &p.Commands[i]; c.Visible != nil && slices.Contains(args, c.Name) {
			return c.Visible
		}
	}
	return nil
}

// named returns the command whose name is the first argument; nil if there is none.
func (p *Program) named(args []string) *Command {
	for i := range p.Commands {
		if len(args) > 0 && p.Commands[i].Name == args[0] {
			return &p.Commands[i]
		}
	}
	return nil
}

// setEnvironment sets the variables of the process to those that it was given.
func setEnvironment(environment []string) error {
	os.Clearenv()
	for _, entry := range environment {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
