// Package fault attacks real processes: coordinator, worker, plugin and NATS server are killed, paused and cut off, at
// the named steps of the protocol and at any moment. What must hold afterwards it reads off the test providers' own
// record and cloud.
package fault

import (
	"testing"

	"github.com/millipede-iac/millipede/test/site"
)

func TestMain(m *testing.M) { site.Main(m, "failpoints") }
