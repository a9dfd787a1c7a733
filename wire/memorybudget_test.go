package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millipede-iac/millipede/wire"
)

// huge is a blob store whose blobs report a size above the limit for reading.
type huge struct {
	wire.Blobs
	t *testing.T
}

func (h huge) GetBlobIf(_ context.Context, _ string, ok func(bytes int64) error) ([]byte, error) {
	if err := ok(1 << 40); err != nil {
		return nil, err
	}
	h.t.Error("a blob above the limit would be read")
	return nil, wire.ErrNotFound
}

// The size of a message was known only after its decompression, which needs up to 512 MiB for each fetched message. And
// only the receiver noticed that a message was too large.
func TestAMessageThatIsTooLargeIsRefusedBeforeItIsReadAndNamed(t *testing.T) {
	const compressed, spilled = 1, 4
	frame := binary.LittleEndian.AppendUint64([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, 1<<31) // zstd: it has 2 GiB
	p := wire.Packer{Run: "r", Blobs: huge{t: t}, Rand: source(1)}
	for name, try := range map[string]func() error{
		"compressed": func() error {
			_, err := p.Unpack(t.Context(), "result.eu.x", append([]byte{1, compressed}, frame...))
			return err
		},
		"in a blob": func() error {
			_, err := p.Unpack(t.Context(), "result.eu.x", append([]byte{1, spilled}, make([]byte, 64)...))
			return err
		},
		"sent": func() error {
			_, err := p.Pack(t.Context(), "result.eu.x", make([]byte, wire.MaxMessage+1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			tooLarge := (*wire.TooLargeError)(nil)
			if err := try(); !errors.As(err, &tooLarge) || tooLarge.Bytes <= wire.MaxMessage ||
				!strings.Contains(err.Error(), "result.eu.x") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A compressed message without a size, or with more data than its size says, is limited only by memory.
func TestACompressedMessageHasTheSizeThatItTells(t *testing.T) {
	var p wire.Packer
	packed, err := p.Pack(t.Context(), "s", make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	twice := append(bytes.Clone(packed), packed[2:]...) // two frames
	silent := []byte{1, 1, 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x01, 0x00, 0x00}
	for name, bad := range map[string][]byte{"two frames": twice, "no size": silent} {
		if got, err := p.Unpack(t.Context(), "s", bad); err == nil {
			t.Errorf("%s: decompressing returns %d bytes", name, len(got))
		}
	}
}

// All large messages that had arrived were decompressed at the same time: two of 512 MiB for each pool. With only a
// common limit for all pools, one pool could delay the others.
func TestLargeMessagesWaitForRoomAndAPoolLeavesHalfOfItToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		budget := wire.NewMemoryBudget(8 << 20)
		packed, err := wire.Packer{}.Pack(ctx, "s", make([]byte, 3<<20))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		in := map[string][]*wire.Reservation{}
		var group sync.WaitGroup
		gone := errors.New("the run is over")
		arrive := func(pool string) {
			group.Go(func() {
				held := budget.For(pool)
				if _, err := (wire.Packer{Held: held}).Unpack(ctx, "s", packed); err != nil {
					if !errors.Is(err, gone) {
						t.Error(err)
					}
					held.Release()
					return
				}
				mu.Lock()
				defer mu.Unlock()
				in[pool] = append(in[pool], held)
			})
		}
		leave := func(pool string) {
			mu.Lock() // a message that gets the memory arrives at once
			first := in[pool][0]
			in[pool] = in[pool][1:]
			mu.Unlock()
			first.Release()
		}
		want := func(when string, eu, us, ap int) {
			t.Helper()
			synctest.Wait()
			if len(in["eu"]) != eu || len(in["us"]) != us || len(in["ap"]) != ap {
				t.Errorf("%s: %d of eu, %d of us, %d of ap", when, len(in["eu"]), len(in["us"]), len(in["ap"]))
			}
		}
		for range 3 {
			arrive("eu")
		}
		want("three of eu", 1, 0, 0)
		arrive("us")
		want("one of us", 1, 1, 0)
		arrive("ap")
		want("one of ap, for which there is no room", 1, 1, 0)
		leave("us")
		want("us is through", 1, 0, 1)
		leave("eu")
		want("the first of eu is through", 1, 0, 1)
		cancel(gone)
		want("the end", 1, 0, 1)
		group.Wait()
		leave("eu")
		leave("ap")
		arrived := budget.For("eu") // all of it is there again
		defer arrived.Release()
		if _, err := (wire.Packer{Held: arrived}).Unpack(t.Context(), "s", packed); err != nil {
			t.Error(err)
		}
	})
}

// The uncompressed size of a message in a blob is known only after the blob was read, so it is counted twice. If the
// maximum size were reserved, a worker, whose tasks occupy their memory until they end, could execute only one at a
// time.
func TestAMessageFromABlobOccupiesWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs := &store{data: map[string][]byte{}, names: map[string]string{}}
		data := append(noise(6*wire.SpillOver), make([]byte, 2<<20)...)
		packed, err := wire.Packer{Run: "r", Blobs: blobs, Rand: source(1)}.Pack(t.Context(), "s", data)
		if err != nil {
			t.Fatal(err)
		}
		if len(blobs.data) != 1 || len(packed) > 1024 {
			t.Fatal("the message is not in a blob")
		}
		budget := wire.NewMemoryBudget(16 << 20) // 8 MiB of which are for one pool
		var in []*wire.Reservation
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				held := budget.For("eu")
				p := wire.Packer{Run: "r", Blobs: blobs, Rand: source(2), Held: held}
				if got, err := p.Unpack(t.Context(), "s", packed); err != nil || !bytes.Equal(got, data) {
					t.Error(len(got), err)
				}
				in = append(in, held)
			})
			synctest.Wait()
		}
		if len(in) != 1 { // 4 MiB, and one in a blob of 1.5 MiB that waits for as much
			t.Errorf("%d messages are in memory", len(in))
		}
		for n := range 3 {
			in[n].Release()
			synctest.Wait()
		}
		group.Wait()
	})
}
