package wire_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

func TestARequestWithoutAnswerIsRepeatedForAsLongAsAnElectionTakes(t *testing.T) {
	other := errors.New("refused")
	for name, c := range map[string]struct {
		fails error
		times int // how often it fails
		tries int
		err   error
		most  time.Duration
	}{
		"an election":             {fmt.Errorf("%w: 503", wire.ErrUnanswered), 5, 6, nil, 12 * time.Second},
		"a lost connection":       {wire.ErrDisconnected, 5, 6, nil, 12 * time.Second},
		"a server that is gone":   {wire.ErrDisconnected, 100, 9, wire.ErrDisconnected, 25 * time.Second},
		"what another try is for": {other, 1, 1, other, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries, began := 0, time.Now()
			err := wire.Patiently(t.Context(), func() error {
				if tries++; tries <= c.times {
					return c.fails
				}
				return nil
			})
			if !errors.Is(err, c.err) || tries != c.tries || time.Since(began) > c.most {
				t.Errorf("%s: %v after %d tries and %s", name, err, tries, time.Since(began))
			}
		})
	}
}

func TestAPatientRequestHearsAnInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := wire.Patiently(ctx, func() error { return wire.ErrUnanswered }); !errors.Is(err, wire.ErrUnanswered) ||
			time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
