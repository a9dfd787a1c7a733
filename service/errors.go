package service

import (
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Conditions that every caller tells apart. The error around them is for people.
var (
	// ErrNotFound: it is not there, or who asks may not know that it is.
	ErrNotFound = errors.New("not found")
	// ErrForbidden: who asks may see it, but not do this with it.
	ErrForbidden = errors.New("not allowed")
	// ErrConflict: it is not in the condition for this.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: what was asked for makes no sense.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: what was uploaded is over the limit.
	ErrTooLarge = errors.New("too large")
	// ErrUnauthorized: the token is missing, unknown or expired.
	ErrUnauthorized = errors.New("unauthorized")
)

// problem is a condition with what people are told.
type problem struct {
	kind   error
	detail string
}

func (p *problem) Error() string { return p.detail }
func (p *problem) Unwrap() error { return p.kind }

func invalid(format string, args ...any) error {
	return &problem{ErrInvalid, fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) error {
	return &problem{ErrConflict, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &problem{ErrNotFound, fmt.Sprintf(format, args...)}
}

func forbidden(format string, args ...any) error {
	return &problem{ErrForbidden, fmt.Sprintf(format, args...)}
}

// told turns the conditions of the packages below into those of this one.
func told(err error) error {
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
