package call

import (
	"context"
	"errors"
	"time"
)

// ErrCredentials means that there are no usable credentials.
var ErrCredentials = errors.New("no valid credentials were found")

// Keys are the keys for signing requests. The token is empty unless they belong to a role.
type Keys struct{ ID, Secret, Token string }

// Role is a role that can be assumed temporarily.
type Role struct {
	ARN, SessionName, Policy string
	Seconds                  int
}

// Renewed is a value that expires and is renewed: keys of a role, or a token. Safe for concurrent use.
type Renewed[T any] struct {
	// Early is how long before its expiry it is no longer used.
	Early time.Duration
	// Fetch requests a new value. The time is that of its expiry; zero if it does not expire.
	Fetch func(ctx context.Context) (T, time.Time, error)

	// turn is held during a request; the other fields belong to its holder.
	turn  chan struct{}
	have  bool
	value T
	ends  time.Time
}

// NewRenewed returns a Renewed that fetches its value at first use.
func NewRenewed[T any](early time.Duration, fetch func(ctx context.Context) (T, time.Time, error)) *Renewed[T] {
	return &Renewed[T]{Early: early, Fetch: fetch, turn: make(chan struct{}, 1)}
}

// Get returns a value that is valid for a while. Waiting for another caller's request ends with ctx.
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
