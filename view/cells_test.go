package view_test

import (
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/wire"
)

// A tab or a line break in a cell made further cells and rows.
func TestACellOfATableIsOneCell(t *testing.T) {
	var b strings.Builder
	w := wire.Worker{Heartbeat: wire.Heartbeat{Protocol: wire.ProtocolVersion, Worker: "w", Pools: []string{"eu"},
		Host: "h\nw2  us\tready"}}
	if err := view.WorkersText(&b, []wire.Worker{w}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != 2 {
		t.Errorf("the table of one worker has %d lines:\n%s", n, b.String())
	}
}
