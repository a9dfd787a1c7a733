package jet_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
	"github.com/millipede-iac/millipede/wire/wiretest"
)

// A server of a cluster that is stopped while a stream moves to it leaves the goroutines of that stream's file store
// behind: the server has no list of stores that are being created. The test cannot end them.
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(server+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction(server+"/ats.Register.func1"))
}

// ackWait is short, because tests wait for it.
const ackWait = 400 * time.Millisecond

// embed starts a server that is closed at the end of the test.
func embed(t *testing.T, dir string) *jet.Embedded {
	t.Helper()
	e, err := jet.Embed(dir, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func connect(t *testing.T, e *jet.Embedded) *jet.Conn {
	t.Helper()
	c, err := e.Connect(t.Context(), jet.Options{Name: t.Name(), AckWait: ackWait, Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func logTo(t *testing.T) func(string) { return func(line string) { t.Log(line) } }

func TestConformance(t *testing.T) {
	wiretest.Run(t, wiretest.Plainly, func(t *testing.T) *wiretest.System {
		dir := t.TempDir()
		e := embed(t, dir)
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return &wiretest.System{
			Connect: func(t *testing.T) wire.Transport { return connect(t, e) },
			Restart: func(t *testing.T) {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
				e = embed(t, dir)
			},
			AckWait: ackWait,
		}
	})
}
