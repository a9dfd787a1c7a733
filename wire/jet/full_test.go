package jet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/millipede-iac/millipede/test/stage/disk"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// small mounts a disk of some megabytes.
func small(t *testing.T) (dir string, v *disk.Volume) {
	t.Helper()
	dir = t.TempDir()
	v, err := disk.Mount(dir, 4<<20)
	if errors.Is(err, disk.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, v
}

// attemptNo returns the names of the test's attempts.
func attemptNo(n int) wire.TaskRef {
	ref := taskRef
	ref.Attempt = wire.AttemptID(fmt.Sprint("a", n))
	return ref
}

// After the first failed write of a stream, a NATS server does not respond to any publisher of the stream, even when
// the disk has space again. So a run whose disk was full for a moment waited for ever.
func TestAnEmbeddedServerIsOpenedAgainWhenItsDiskHasRoom(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, volume := small(t)
	e := embed(t, dir)
	c := must(e.Connect(ctx, jet.Options{Provision: true, AckWait: ackWait, Timeout: 2 * time.Second, Log: logTo(t)}))(
		t)
	t.Cleanup(func() { closeAll(t, c, e) })
	claim := func(n int) (wire.Claim, error) {
		return c.Claim(ctx, attemptNo(n), wire.Claim{Nonce: fmt.Sprint("n", n), Reason: strings.Repeat("x", 1000)})
	}
	must(claim(0))(t)
	if err := c.PublishResult(ctx, attemptNo(0), nil); err != nil {
		t.Fatal(err)
	}
	if err := volume.Fill(); err != nil {
		t.Fatal(err)
	}

	n, err := 0, error(nil)
	for err == nil { // the block that the stream has begun may have space for some
		n++
		_, err = claim(n)
	}
	if !errors.Is(err, wire.ErrStore) {
		t.Fatalf("claiming on a full disk: %v", err)
	}
	if _, err := c.HighWater(ctx, nil); !errors.Is(err, wire.ErrStore) {
		t.Errorf("looking at the streams: %v", err)
	}
	refused, err := c.ReadClaim(ctx, attemptNo(n))
	if err != nil && !errors.Is(err, wire.ErrNotFound) {
		t.Fatal(err)
	}
	if err := c.PublishResult(ctx, attemptNo(1), nil); !errors.Is(err, wire.ErrStore) {
		t.Errorf("publishing a result meanwhile: %v", err)
	}

	if err := volume.Free(); err != nil {
		t.Fatal(err)
	}
	for err = errors.New("not tried yet"); err != nil && ctx.Err() == nil; {
		_, err = c.HighWater(ctx, nil)
	}
	for i := range n {
		if got := must(c.ReadClaim(ctx, attemptNo(i)))(t); got.Nonce != fmt.Sprint("n", i) {
			t.Errorf("the written register %d has %q now", i, got.Nonce)
		}
	}
	if again, err := c.ReadClaim(ctx, attemptNo(n)); refused.Nonce != "" && again.Nonce != refused.Nonce {
		t.Errorf("the register that could not be written had %q, and has %q now (%v)", refused.Nonce,
			again.Nonce, err)
	}
	if got := must(claim(n))(t); got.Nonce != fmt.Sprint("n", n) {
		t.Errorf("a new claim found %q", got.Nonce)
	}
	if err := c.PublishResult(ctx, attemptNo(1), nil); err != nil {
		t.Error(err)
	}
	if got := must(c.FetchResults(ctx, taskRef.Coordinator, 8))(t); len(got) == 0 {
		t.Error("no result was delivered")
	}
}

// The same with an external server: its clients saw time-outs without end, and no message said why.
func TestAServerThatStoresNothingIsToldFromOneThatIsSlow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, volume := small(t)
	options := server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, SyncAlways: true,
	}
	s := startServer(t, options)
	c := must(jet.Connect(ctx, jet.Options{URL: s.ClientURL(), Provision: true, AckWait: ackWait, Timeout: time.Second,
		Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, c) })
	if err := c.PublishResult(ctx, attemptNo(0), make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	must(c.HighWater(ctx, nil))(t)
	if err := volume.Fill(); err != nil {
		t.Fatal(err)
	}
	var err error
	for n := 1; err == nil; n++ {
		err = c.PublishResult(ctx, attemptNo(n), make([]byte, 1000))
	}
	if err := volume.Free(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // space does not help any more
		if !errors.Is(err, wire.ErrStore) {
			t.Fatalf("publishing: %v", err)
		}
		err = c.PublishResult(ctx, taskRef, nil)
	}
	for err = nil; err == nil && ctx.Err() == nil; {
		_, err = c.HighWater(ctx, nil)
	}
	if !errors.Is(err, wire.ErrStore) || !strings.Contains(err.Error(), "no space left") ||
		!strings.Contains(err.Error(), "RESULTS") {
		t.Errorf("looking at the streams: %v", err)
	}
}
