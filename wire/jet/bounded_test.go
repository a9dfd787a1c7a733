package jet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
)

// A full stream refuses further messages, like a server whose disk is full. The publisher must get an error that says
// that the store is full and names the pool, and other pools must not be affected.
func TestABoundThatAnOperatorGivesAStreamIsToldAsTheStores(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := embed(t, t.TempDir())
	c := connect(t, e)
	t.Cleanup(func() { closeAll(t, c, e) })
	for _, cfg := range []jetstream.StreamConfig{
		{
			Name: "CLAIMS-eu", Subjects: []string{"claim.eu.>", "done.eu.*"}, MaxBytes: 16 << 10, DenyDelete: true,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		},
		{
			Name: "RESULTS-eu", Subjects: []string{"result.eu.>"}, MaxMsgs: 10,
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		},
	} {
		must(c.JetStream().(jetstream.JetStream).CreateStream(ctx, cfg))(t)
	}
	var err error
	for n := 0; err == nil && n < 100; n++ {
		_, err = c.Claim(ctx, attemptNo(n), wire.Claim{Nonce: fmt.Sprint("n", n), Reason: strings.Repeat("x", 1000)})
	}
	if !errors.Is(err, wire.ErrStore) || !strings.Contains(err.Error(), "maximum bytes") {
		t.Errorf("claiming beyond the bytes of the pool: %v", err)
	}
	other := attemptNo(1)
	other.Pool = "us"
	must(c.Claim(ctx, other, wire.Claim{Nonce: "n"}))(t)

	err = nil
	for n := 0; err == nil && n < 100; n++ {
		err = c.PublishResult(ctx, attemptNo(n), nil)
	}
	if !errors.Is(err, wire.ErrStore) || !strings.Contains(err.Error(), "maximum messages") {
		t.Errorf("publishing beyond the messages of the stream: %v", err)
	}
}
