// Package bug turns a panic into an error with its trace, so that a mistake of ours ends the work that it was made in
// and nothing else. It reports nothing.
package bug

import (
	"fmt"
	"runtime/debug"
)

// Error is a panic that was recovered.
type Error struct {
	Value any
	Stack []byte
}

// Error advises the user, and contains the trace.
func (e *Error) Error() string {
	return fmt.Sprintf("%v\n\nThis is a bug in Millipede, please report it with this trace:\n%s", e.Value, e.Stack)
}

// Unwrap returns the error that the panic had as its value, if it was one.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// New returns the Error of a panic, with the trace of the goroutine that recovers. Call it where recover is called,
// with the value that recover has returned.
func New(recovered any) *Error { return &Error{Value: recovered, Stack: debug.Stack()} }

// Catch calls fn and returns its error, or an *Error when it panics. It is for the top of a goroutine, and for
// callbacks that run on a goroutine of somebody else.
func Catch(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = New(p)
		}
	}()
	return fn()
}
