package loop

import (
	"errors"
)

var (
	// ErrStore means that the run ended, and can be resumed, because the transport kept refusing something that the run
	// depends on, or did not answer.
	ErrStore = errors.New("NATS kept refusing")
	// ErrWorkers means that the run ended, and can be resumed, because no worker could take its tasks.
	ErrWorkers = errors.New("no worker could take a task")
)
