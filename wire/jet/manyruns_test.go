package jet_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// The end of a run requested the mark of every other run of the last hour, and read the description of every blob that
// had ever been deleted: the more runs a service executed, the longer each took to end, and the deleted blobs used up
// the stream's bytes.
func TestTheEndOfARunCostsTheSameAfterManyRuns(t *testing.T) {
	ctx := t.Context()
	e := embed(t, t.TempDir())
	c := must(e.Connect(ctx, jet.Options{}))(t)
	t.Cleanup(func() { closeAll(t, c, e) })
	js := c.JetStream().(jetstream.JetStream)
	run := func(i int) (messages uint64) {
		ref := wire.TaskRef{Pool: "eu", Coordinator: "alice", Run: fmt.Sprintf("run-%d", i), Attempt: "a"}
		data := []byte(ref.Run)
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		_, err := c.Claim(ctx, ref, wire.Claim{Nonce: "n"})
		err = errors.Join(err, c.PutBlob(ctx, name, data), c.NameBlob(ctx, wire.SpillName(ref.Run, name), name))
		if err != nil {
			t.Fatal(err)
		}
		before := js.Conn().Stats().OutMsgs + js.Conn().Stats().InMsgs
		if err := c.PurgeRun(ctx, ref.Run, nil); err != nil {
			t.Fatal(err)
		}
		return js.Conn().Stats().OutMsgs + js.Conn().Stats().InMsgs - before
	}
	run(0) // which looks up the streams
	first := run(1)
	for i := range 20 {
		run(i + 2)
	}
	if last := run(22); last > first {
		t.Errorf("%d messages for the first run, %d for the 22nd", first, last)
	}
	left := must(must(js.Stream(ctx, "OBJ_BLOB"))(t).Info(ctx))(t).State.Msgs
	if left != 0 {
		t.Errorf("%d messages are left of the blobs that were deleted", left)
	}
	if err := c.EmptyRegisters(ctx, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	ref := wire.TaskRef{Pool: "eu", Coordinator: "alice", Run: "run-7", Attempt: "a"}
	if _, err := c.ReadClaim(ctx, ref); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("a register is left: %v", err)
	}
}
