package coordinator

import (
	"sync"

	"github.com/millipede-iac/millipede/coordinator/loop"
)

// inbox is the queue of inputs for the loop. put never blocks.
type inbox struct {
	ready chan struct{} // holds a token while there may be events

	mu     sync.Mutex // guards the events
	events []loop.Input
	spare  []loop.Input
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (i *inbox) put(e loop.Input) {
	i.mu.Lock()
	i.events = append(i.events, e)
	i.mu.Unlock()
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

// take returns the events that were put in since the last call. The slice is valid until the next call.
func (i *inbox) take() []loop.Input {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.spare)
	taken := i.events
	i.events, i.spare = i.spare[:0], taken
	return taken
}
