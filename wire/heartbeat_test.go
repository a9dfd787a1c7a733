package wire_test

import (
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/wire"
)

// The texts of a heartbeat were printed as they came. With line breaks and tabs in the name of its host, a worker
// added rows about other workers to the table of "workers list".
func TestTheTextsOfAHeartbeatAreOneLineEach(t *testing.T) {
	const evil = "x\x1b[2J\r\nw2\tus\u202e\u2028"
	read := func(change func(*wire.Heartbeat)) (wire.Heartbeat, error) {
		h := wire.Heartbeat{Worker: "w", Pools: []string{"eu"}, Protocol: wire.ProtocolVersion}
		change(&h)
		return wire.ReadHeartbeat(wire.HeartbeatSubject(h.Pools[0], h.Worker), wire.EncodeHeartbeat(h))
	}
	h, err := read(func(h *wire.Heartbeat) { h.Version, h.Platform, h.Host, h.Trouble = evil, evil, evil, evil })
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{h.Version, h.Platform, h.Host, h.Trouble} {
		if strings.ContainsAny(text, "\x1b\r\n\t\u202e\u2028") || !strings.HasPrefix(text, "x") {
			t.Errorf("the heartbeat says %q", text)
		}
	}
	for name, change := range map[string]func(*wire.Heartbeat){
		"worker":   func(h *wire.Heartbeat) { h.Worker = evil },
		"pool":     func(h *wire.Heartbeat) { h.Pools[0] = evil },
		"key":      func(h *wire.Heartbeat) { h.PublicKey = evil },
		"identity": func(h *wire.Heartbeat) { h.Identity = evil },
	} {
		if _, err := read(change); err == nil {
			t.Errorf("a heartbeat with control characters in the name of its %s was accepted", name)
		}
	}
}
