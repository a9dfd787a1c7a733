// Package fault injects faults into real processes: coordinator, worker, plugin and NATS server are killed, paused and
// disconnected, at the named steps of the protocol and at any moment. It checks the promises with the record and the
// cloud of the test providers.
package fault

import (
	"testing"

	"github.com/millipede-iac/millipede/test/site"
)

func TestMain(m *testing.M) { site.Main(m, "failpoints") }
