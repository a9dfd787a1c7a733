package fault

import (
	"fmt"
	"strings"
	"testing"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// inRegion is a configuration of machines in a region, which is also the name of their pool.
func inRegion(region, size string) string {
	return strings.ReplaceAll(machines("a", crowd, 100, size), "  name ",
		fmt.Sprintf("  region = %q\n  name ", region))
}

// as connects to the server of a guarded site as one of its users.
func as(s *site.Site, user string) *natsio.Conn {
	s.T.Helper()
	nc, err := natsio.Connect(s.NATS, natsio.UserInfo(user, user), natsio.RootCAs(s.Guard.CA),
		natsio.ClientCert(s.Guard.ClientCert, s.Guard.ClientKey))
	must(s.T, err)
	s.T.Cleanup(nc.Close)
	return nc
}

// The results of all pools were in one stream without a bound. An attacker with the password of a worker of one pool
// could fill the storage of NATS with unrequested results, which stopped all runs.
func TestAFloodOfResultsStopsOnlyTheRunsOfItsPool(t *testing.T) {
	t.Parallel()
	us, eu := newTrial(t, crowd, 100), newTrial(t, crowd, 100)
	us.Write("main.tf", inRegion("us", "small"))
	eu.Write("main.tf", inRegion("eu", "small"))
	certificates, err := nats.MakeCertificates(t.TempDir())
	must(t, err)
	us.Guard = &certificates
	us.Server()
	eu.NATS, eu.Guard = us.NATS, us.Guard
	for _, s := range []*trial{us, eu} {
		s.Must("init")
	}
	us.Worker("us")
	eu.Worker("eu")

	// All runs share the limit of -parallelism. It must have more slots than the operations of eu occupy, whose permits
	// stay held while their results cannot be delivered.
	wide := []string{"apply", "-auto-approve", "-no-color", "-parallelism=40"}
	eu.Must(wide...) // creates the streams of the pool
	js, err := jetstream.New(as(us.Site, "coordinator"))
	must(t, err)
	stream, err := js.Stream(site.Waiting(t), "RESULTS-eu")
	must(t, err)
	cfg := stream.CachedInfo().Config
	if cfg.MaxBytes <= 0 {
		t.Error("the stream for the results of the pool has no size limit")
	}
	cfg.MaxBytes = 4 << 20 // so that it is full soon
	_, err = js.UpdateStream(site.Waiting(t), cfg)
	must(t, err)
	flood, n := as(us.Site, "worker-eu"), 0
	for _, size := range []int{256 << 10, 4 << 10, 0} { // to the last byte
		for full := false; !full; n++ {
			m, err := flood.Request(fmt.Sprintf("result.eu.nobody.run.a%d", n), make([]byte, size), site.Timeout)
			must(t, err)
			full = strings.Contains(string(m.Data), "maximum bytes exceeded")
			if n > 1e5 {
				t.Fatal("the stream has accepted all messages, and is not full")
			}
		}
	}
	eu.Write("main.tf", inRegion("eu", "large"))
	hit := eu.Start(wide...)
	us.Must(wide...)
	us.complete(crowd)

	if code := site.Exit(t, hit); code != 1 || !strings.Contains(hit.Output(), "A stream of NATS is full") ||
		!strings.Contains(hit.Output(), "RESULTS-eu") {
		t.Errorf("the run of the pool ended with %d\n%s", code, site.Tail(hit.Output()))
	}
	must(t, stream.Purge(site.Waiting(t), jetstream.WithPurgeSubject("result.eu.nobody.>")))
	eu.goOn(wide)
	eu.complete(crowd)
}
