package tables

import (
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Conditions that every caller distinguishes with errors.Is. The error that wraps one has the message for
// people.
var (
	// ErrNotFound: the object does not exist, or the actor may not know that it exists.
	ErrNotFound = errors.New("not found")
	// ErrForbidden: the actor may see the object, but may not do this with it.
	ErrForbidden = errors.New("not allowed")
	// ErrConflict: the current status of the object does not allow this.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: the request is invalid.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: the upload exceeds the limit.
	ErrTooLarge = errors.New("too large")
	// ErrUnauthorized: the token is missing, unknown or expired.
	ErrUnauthorized = errors.New("unauthorized")
)

// problem is a condition with its message for people.
type problem struct {
	kind   error
	detail string
}

func (p *problem) Error() string { return p.detail }
func (p *problem) Unwrap() error { return p.kind }

// Invalid returns an error that wraps ErrInvalid, with a message for people.
func Invalid(format string, args ...any) error {
	return &problem{ErrInvalid, fmt.Sprintf(format, args...)}
}

// Conflict returns an error that wraps ErrConflict, with a message for people.
func Conflict(format string, args ...any) error {
	return &problem{ErrConflict, fmt.Sprintf(format, args...)}
}

// NotFound returns an error that wraps ErrNotFound, with a message for people.
func NotFound(format string, args ...any) error {
	return &problem{ErrNotFound, fmt.Sprintf(format, args...)}
}

// Forbidden returns an error that wraps ErrForbidden, with a message for people.
func Forbidden(format string, args ...any) error {
	return &problem{ErrForbidden, fmt.Sprintf(format, args...)}
}

// Unauthorized returns an error that wraps ErrUnauthorized, with a message for people.
func Unauthorized(format string, args ...any) error {
	return &problem{ErrUnauthorized, fmt.Sprintf(format, args...)}
}

// Translated translates the conditions of lower packages into those of this package.
func Translated(err error) error {
	switch {
	case err == nil, errors.As(err, new(*problem)), errors.As(err, new(*Locked)):
		return err
	case errors.Is(err, store.ErrNotFound):
		return &problem{ErrNotFound, err.Error()}
	case errors.Is(err, store.ErrTaken):
		return &problem{ErrInvalid, "the name has already been taken"}
	case errors.Is(err, store.ErrCut):
		return &problem{ErrInvalid, err.Error()}
	case errors.Is(err, store.ErrTooLarge):
		return &problem{ErrTooLarge, err.Error()}
	case errors.Is(err, record.ErrTransition):
		return &problem{ErrConflict, err.Error()}
	}
	return err
}

// Locked is the error of a request for a workspace that somebody else has locked. Holder describes the lock, in the
// form that clients of the http backend show.
type Locked struct{ Holder []byte }

func (l *Locked) Error() string { return "the state is locked" }

// Unwrap returns ErrConflict.
func (l *Locked) Unwrap() error { return ErrConflict }
