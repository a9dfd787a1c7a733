package hub

import (
	"context"
	"sync"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/wire"
)

// feed passes the values of one source to any number of listeners. The source runs while there are any.
type feed[T any] struct {
	// source passes values until ctx ends, or returns an error.
	source func(ctx context.Context, yield func(T)) error
	once   sync.Once
	shared shared

	mu        sync.Mutex // guards listeners, and is held while they are called
	listeners map[*listener[T]]bool
}

type listener[T any] struct {
	fn    func(T)
	ended chan error // gets one error
}

// listen calls fn with each value until ctx ends, which is no error, or until the source fails or fn panics. fn is not
// called after listen has returned.
func (f *feed[T]) listen(ctx context.Context, fn func(T)) error {
	f.once.Do(func() { f.shared.run, f.listeners = f.run, map[*listener[T]]bool{} })
	l := &listener[T]{fn: fn, ended: make(chan error, 1)}
	f.mu.Lock()
	f.listeners[l] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.listeners, l)
		f.mu.Unlock()
	}()
	f.shared.join()
	defer f.shared.leave()
	select {
	case <-ctx.Done():
		return nil
	case err := <-l.ended:
		return err
	}
}

// run runs the source. If it fails, all listeners get the error, and may listen again.
func (f *feed[T]) run(ctx context.Context) {
	for {
		err := bug.Catch(func() error { return f.source(ctx, f.yield) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = wire.ErrDisconnected
		}
		f.mu.Lock()
		for l := range f.listeners {
			f.end(l, err)
		}
		f.mu.Unlock()
		if !pause(ctx, retryEvery, nil) {
			return
		}
	}
}

func (f *feed[T]) yield(v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		if err := bug.Catch(func() error { l.fn(v); return nil }); err != nil {
			f.end(l, err)
		}
	}
}

// end gives a listener the error that ends it. The caller has the lock.
func (f *feed[T]) end(l *listener[T], err error) {
	delete(f.listeners, l)
	l.ended <- err
}
