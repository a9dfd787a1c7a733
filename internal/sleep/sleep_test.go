package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
)

var errEnough = errors.New("enough")

func TestItLastsAsLongAsItShouldOrAsItsContext(t *testing.T) {
	for claim, c := range map[string]struct {
		d, end, want time.Duration // end is when the context ends
		err          error
	}{
		"a time that passes":        {d: time.Minute, end: time.Hour, want: time.Minute},
		"a context that ends":       {d: time.Hour, end: time.Minute, want: time.Minute, err: errEnough},
		"no time":                   {end: time.Hour},
		"less than no time":         {d: -time.Hour, end: time.Hour},
		"a context that has ended":  {d: time.Hour, err: errEnough},
		"it has, and there is none": {err: errEnough},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.end > 0 {
					defer time.AfterFunc(c.end, func() { cancel(errEnough) }).Stop()
				} else {
					cancel(errEnough)
				}
				begun := time.Now()
				err := sleep.For(ctx, c.d)
				if took := time.Since(begun); took != c.want || !errors.Is(err, c.err) {
					t.Errorf("it took %s and returned %v, want %s and %v", took, err, c.want, c.err)
				}
			})
		})
	}
}
