package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// ledger records which keys the worker requests, and which it discards.
type ledger struct{ forgotten []string }

func (*ledger) PublicKey() string                                          { return "" }
func (*ledger) Open(context.Context, string, string) (*wire.Sealer, error) { return nil, nil }
func (l *ledger) Forget(run string)                                        { l.forgotten = append(l.forgotten, run) }

func TestAWorkerForgetsTheKeysOfRunsThatAreOver(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var l ledger
	k := newRunKeys(&l, func() time.Time { return now })
	open := func(run string) {
		if _, err := k.open(t.Context(), "eu", run); err != nil {
			t.Fatal(err)
		}
	}
	open("over")
	open("long")
	now = now.Add(keyMemory * 4 / 5)
	open("long")
	if len(l.forgotten) > 0 {
		t.Errorf("the keys %v were discarded too early", l.forgotten)
	}
	now = now.Add(keyMemory / 2)
	open("next")
	if !slices.Equal(l.forgotten, []string{"over"}) {
		t.Errorf("the discarded keys are %v", l.forgotten)
	}
}
