// Package fault injects faults into real processes: coordinators, workers, plugins and NATS servers are killed, paused
// and disconnected, at named steps of the protocol and at random moments. It checks the guarantees with the record and
// the cloud of the test providers.
package fault

import (
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

func TestMain(m *testing.M) { site.Main(m, "failpoints") }
