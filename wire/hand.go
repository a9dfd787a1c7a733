package wire

import "context"

// HandedTask is a Delivery that no stream has: there is nothing to be confirmed, and who does not want it lets it go.
// Its coordinator publishes it when nobody claims it.
type HandedTask struct {
	Task    TaskRef
	Content []byte
}

// Ref implements Delivery.
func (t *HandedTask) Ref() TaskRef { return t.Task }

// Data implements Delivery.
func (t *HandedTask) Data() []byte { return t.Content }

// Sequence implements Delivery.
func (t *HandedTask) Sequence() uint64 { return 0 }

// Ack implements Delivery.
func (t *HandedTask) Ack(context.Context) error { return nil }

// Release implements Delivery.
func (t *HandedTask) Release(context.Context) error { return nil }
