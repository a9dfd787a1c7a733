package wire

import (
	"context"

	"github.com/millipede-iac/millipede/internal/trace"
)

// HandedTask is a Delivery that was passed on directly: Ack and Release do nothing. If no worker claims its attempt,
// its coordinator publishes the task.
type HandedTask struct {
	Task    TaskRef
	Content []byte
	// Under is the span that it was sent under.
	Under trace.Context
}

// Ref implements Delivery.
func (t *HandedTask) Ref() TaskRef { return t.Task }

// Data implements Delivery.
func (t *HandedTask) Data() []byte { return t.Content }

// Sequence implements Delivery.
func (t *HandedTask) Sequence() uint64 { return 0 }

// Trace implements Traced.
func (t *HandedTask) Trace() trace.Context { return t.Under }

// Ack implements Delivery.
func (t *HandedTask) Ack(context.Context) error { return nil }

// Release implements Delivery.
func (t *HandedTask) Release(context.Context) error { return nil }
