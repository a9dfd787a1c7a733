package coordinator

import (
	"sync"

	"github.com/millipede-iac/millipede/coordinator/loop"
)

// inbox is where the loop's events come in. put never blocks.
type inbox struct {
	ready chan struct{} // holds a token while events may be there

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

// take returns all events that came in since it was called last. They are valid until it is called again.
func (i *inbox) take() []loop.Input {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.spare)
	taken := i.events
	i.events, i.spare = i.spare[:0], taken
	return taken
}
