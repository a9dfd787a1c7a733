package hosting

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect returns a connection to a server, which is closed at the end of the test.
func connect(t *testing.T, e *jet.Embedded, name string) *jet.Conn {
	t.Helper()
	c, err := e.Connect(t.Context(), jet.Options{Name: name, AckWait: time.Second,
		Log: func(line string) { t.Log(line) }})
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	return c
}

// If a task reaches the stream after the purge of its run, because its publish was slow, nobody can read it: its key is
// gone. Workers fetched it and returned it, four times a second, for ever.
func TestATaskThatIsPublishedBehindThePurgeOfItsRunLeavesTheStream(t *testing.T) {
	ctx := t.Context()
	server, err := jet.Embed(t.TempDir(), func(line string) { t.Log(line) })
	check(t, err)
	t.Cleanup(func() { check(t, server.Close()) })
	coordinator := connect(t, server, "coordinator")
	pair, err := nkeys.CreateCurveKeys()
	check(t, err)
	ring, err := wire.NewKeyring(coordinator, pair, rand.Reader)
	check(t, err)
	sealer, err := ring.Create(ctx, "default", "run")
	check(t, err)
	late := wire.TaskRef{Pool: "default", Coordinator: "c", Run: "run", Attempt: "late"}
	packer := wire.Packer{Run: "run", Sealer: sealer, Rand: rand.Reader}
	data, err := packer.Pack(ctx, wire.TaskSubject(late), []byte("nobody can read it"))
	check(t, err)
	check(t, coordinator.PurgeRun(ctx, "run", nil))
	check(t, coordinator.PublishTask(ctx, late, data))

	hosted, err := New(Options{
		Transport: connect(t, server, "worker"), Pools: []string{"default"}, Slots: 1, Version: "test",
		Dir:        t.TempDir(),
		KeyTimeout: time.Second, Log: slog.New(slog.NewTextHandler(logged{t}, nil)),
	})
	check(t, err)
	taking, drain := context.WithCancel(context.WithoutCancel(ctx))
	worked := make(chan error, 1)
	go func() { worked <- hosted.Worker.Run(taking, context.WithoutCancel(ctx)) }() // awaited below
	var claim wire.Claim
	for err = wire.ErrNotFound; errors.Is(err, wire.ErrNotFound); {
		claim, err = coordinator.ReadClaim(ctx, late)
	}
	check(t, err)
	drain()
	check(t, errors.Join(<-worked, hosted.Close()))
	if !claim.Tombstone || claim.Worker != hosted.ID || claim.Reason == "" {
		t.Errorf("the register holds %+v", claim)
	}
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if left, err := coordinator.FetchTasks(short, "default", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream still has %d tasks, %v", len(left), err)
	}
}

// logged is the destination of the worker's log.
type logged struct{ t *testing.T }

var _ io.Writer = logged{}

func (l logged) Write(line []byte) (int, error) {
	l.t.Logf("%s", line)
	return len(line), nil
}
