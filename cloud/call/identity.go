package call

import (
	"context"
	"errors"
	"time"
)

// ErrCredentials means that there are no credentials, or none that can be used.
var ErrCredentials = errors.New("no valid credentials were found")

// Keys are what requests are signed with. The token is empty where they are not those of a role.
type Keys struct{ ID, Secret, Token string }

// Role is a role that keys are exchanged for, for a while.
type Role struct {
	ARN, SessionName, Policy string
	Seconds                  int
}

// Renewed is something that a service lends for a while: keys of a role, or a token. Safe for concurrent use.
type Renewed[T any] struct {
	// Early is how long before its end it is not used any more.
	Early time.Duration
	// Fetch asks for a new one. The time is that of its end; zero for one that has none.
	Fetch func(ctx context.Context) (T, time.Time, error)

	// turn is held by who asks for a new one; the rest belongs to its holder.
	turn  chan struct{}
	have  bool
	value T
	ends  time.Time
}

// NewRenewed returns what asks when it is first needed.
func NewRenewed[T any](early time.Duration, fetch func(ctx context.Context) (T, time.Time, error)) *Renewed[T] {
	return &Renewed[T]{Early: early, Fetch: fetch, turn: make(chan struct{}, 1)}
}

// Get returns one that is good for a while yet. Who waits for somebody else's request waits within ctx.
func (r *Renewed[T]) Get(ctx context.Context) (T, error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
	defer func() { <-r.turn }()
	if r.have && (r.ends.IsZero() || time.Until(r.ends) > r.Early) {
		return r.value, nil
	}
	value, ends, err := r.Fetch(ctx)
	if err != nil {
		var none T
		return none, err
	}
	r.have, r.value, r.ends = true, value, ends
	return value, nil
}
