// Package regions tests three regions with message stores of their own: the programs as users run them, and NATS
// servers with the files of deploy/nats/regions.
//
// With -namespaces each region is a network namespace, which can be cut off without either side being told, and the
// figures of docs/performance.md are measured; that needs root and ip(8). Without it all is on loopback, and short.
package regions

import (
	"flag"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

var namespaces = flag.Bool("namespaces", false, "measure three regions in network namespaces")

func TestMain(m *testing.M) { site.Main(m) }
