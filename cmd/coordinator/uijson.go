package main

import (
	"fmt"
	"os"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// openInto opens the file of -json-into. What it held is lost.
func openInto(name string) (*os.File, diag.List) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, diag.Errors("Invalid argument", fmt.Sprintf("The file of -json-into cannot be written: %s.", err),
			nil)
	}
	return file, nil
}

// bothObserver tells two observers what it is told.
type bothObserver [2]observer

func (b bothObserver) each(tell func(observer)) {
	tell(b[0])
	tell(b[1])
}

// Started implements coordinator.Observer.
func (b bothObserver) Started(vertex int, d program.Description, pool string, at time.Time) {
	b.each(func(o observer) { o.Started(vertex, d, pool, at) })
}

// Progress implements coordinator.Observer.
func (b bothObserver) Progress(vertex int, d program.Description, elapsed time.Duration) {
	b.each(func(o observer) { o.Progress(vertex, d, elapsed) })
}

// Finished implements coordinator.Observer.
func (b bothObserver) Finished(vertex int, d program.Description, n program.Notes, took time.Duration) {
	b.each(func(o observer) { o.Finished(vertex, d, n, took) })
}

// Failed implements coordinator.Observer.
func (b bothObserver) Failed(vertex int, d program.Description, n program.Notes, took time.Duration) {
	b.each(func(o observer) { o.Failed(vertex, d, n, took) })
}

// Skipped implements coordinator.Observer.
func (b bothObserver) Skipped(vertex int, d program.Description, because string) {
	b.each(func(o observer) { o.Skipped(vertex, d, because) })
}

// Doubtful implements coordinator.Observer.
func (b bothObserver) Doubtful(vertex int, d program.Description, reason string) {
	b.each(func(o observer) { o.Doubtful(vertex, d, reason) })
}

// Waiting implements coordinator.Observer.
func (b bothObserver) Waiting(waits []coordinator.Wait) {
	b.each(func(o observer) { o.Waiting(waits) })
}

// Counts implements coordinator.Observer.
func (b bothObserver) Counts(c coordinator.Counts) { b.each(func(o observer) { o.Counts(c) }) }

// Diagnostics implements coordinator.Observer.
func (b bothObserver) Diagnostics(l diag.List) { b.each(func(o observer) { o.Diagnostics(l) }) }

// Event tells what a provisioner says.
func (b bothObserver) Event(e wire.Event) { b.each(func(o observer) { o.Event(e) }) }
