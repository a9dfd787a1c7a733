package jet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// A listener that stopped before the server had confirmed its subscription left the subscription behind, with half a
// MiB. The short runs of a service left 300 MiB in ten minutes.
func TestWhoStopsListeningAtOnceLeavesNoSubscription(t *testing.T) {
	e := must(jet.Embed(t.TempDir(), logTo(t)))(t)
	t.Cleanup(func() { closeAll(t, e) })
	c := must(e.Connect(t.Context(), jet.Options{Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, c) })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for what, listen := range map[string]func() error{
		"events":   func() error { return c.Events(gone, "run-1", func(string, []byte) {}) },
		"controls": func() error { return c.SubscribeControl(gone, "default", func(wire.Control) {}) },
	} {
		before := c.Subscriptions()
		if err := listen(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		if n := c.Subscriptions() - before; n != 0 {
			t.Errorf("%s: %d subscriptions are left", what, n)
		}
	}
}
