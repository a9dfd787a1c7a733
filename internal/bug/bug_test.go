package bug_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/bug"
)

func oops(v any) error { panic(v) }

func TestAPanicBecomesAnErrorWithItsTrace(t *testing.T) {
	err := bug.Catch(func() error { return oops("the number is odd") })
	var e *bug.Error
	if !errors.As(err, &e) || e.Value != "the number is odd" || !strings.Contains(err.Error(), "bug_test.oops") {
		t.Errorf("%v", err)
	}
	if err := bug.Catch(func() error { return oops(io.ErrUnexpectedEOF) }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

func TestWhatDoesNotPanicReturnsItsOwnError(t *testing.T) {
	if err := bug.Catch(func() error { return io.EOF }); err != io.EOF { //nolint:errorlint // the very error
		t.Errorf("%v", err)
	}
}
