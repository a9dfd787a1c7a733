package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/wire"
)

// bus is a transport in memory with the faults that a test requests. It implements the other side of a worker's
// interfaces.
type bus struct {
	mu       sync.Mutex
	tasks    map[string][]*delivery
	arrived  chan struct{} // closed and replaced when tasks change
	register map[wire.AttemptID]wire.Claim
	results  []published
	beats    []wire.Heartbeat
	events   []wire.Event
	blobs    map[string][]byte
	control  map[string]func(wire.Control)
	hand     map[string]func(wire.AttemptID, wire.Delivery) bool // by pool
	serving  map[string]func(context.Context, []byte) []byte
	calls    sync.WaitGroup
	parts    func(data []byte) error // SendPart; nil refuses all
	starved  int                     // deliveries beyond the free slots that were given back

	// faults are called before the operation, without a lock. If one returns an error, the operation fails.
	onFetch   func() error
	onClaim   func(wire.Claim) error
	onPublish func() error
	most      int // how many bytes a result may have; 0 for any number
}

type published struct {
	ref  wire.TaskRef
	data []byte
}

func newBus() *bus {
	return &bus{
		tasks: map[string][]*delivery{}, arrived: make(chan struct{}), register: map[wire.AttemptID]wire.Claim{},
		hand:  map[string]func(wire.AttemptID, wire.Delivery) bool{},
		blobs: map[string][]byte{}, control: map[string]func(wire.Control){}, serving: map[string]func(context.Context,
			[]byte) []byte{},
	}
}

// SendPart implements Parts.
func (b *bus) SendPart(_ context.Context, _, _ string, data []byte) error {
	if b.parts == nil {
		return wire.ErrNotFound
	}
	return b.parts(data)
}

type delivery struct {
	bus      *bus
	ref      wire.TaskRef
	data     []byte
	acked    bool
	released bool
}

func (d *delivery) Ref() wire.TaskRef { return d.ref }
func (d *delivery) Data() []byte      { return d.data }
func (d *delivery) Sequence() uint64  { return 1 }

func (d *delivery) Ack(context.Context) error {
	d.bus.mu.Lock()
	defer d.bus.mu.Unlock()
	d.acked = true
	return nil
}

func (d *delivery) Release(context.Context) error {
	d.bus.mu.Lock()
	defer d.bus.mu.Unlock()
	d.released = true
	d.bus.starved++
	return nil
}

func (b *bus) put(ds ...*delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range ds {
		d.bus = b
		b.tasks[d.ref.Pool] = append(b.tasks[d.ref.Pool], d)
	}
	close(b.arrived)
	b.arrived = make(chan struct{})
}

func (b *bus) FetchTasks(ctx context.Context, pool string, n int) ([]wire.Delivery, error) {
	if b.onFetch != nil {
		if err := b.onFetch(); err != nil {
			return nil, err
		}
	}
	for {
		b.mu.Lock()
		var out []wire.Delivery
		for len(b.tasks[pool]) > 0 && len(out) < n {
			out = append(out, b.tasks[pool][0])
			b.tasks[pool] = b.tasks[pool][1:]
		}
		arrived := b.arrived
		b.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (b *bus) TakeHanded(ctx context.Context, pool, _ string, take func(wire.AttemptID, wire.Delivery) bool) error {
	b.mu.Lock()
	b.hand[pool] = take
	b.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (b *bus) PublishResult(_ context.Context, ref wire.TaskRef, data []byte) error {
	if b.onPublish != nil {
		if err := b.onPublish(); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.most > 0 && len(data) > b.most {
		return errors.New("message size exceeds maximum allowed")
	}
	b.results = append(b.results, published{ref, data})
	return nil
}

func (b *bus) Claim(_ context.Context, ref wire.TaskRef, c wire.Claim) (wire.Claim, error) {
	var after error
	if b.onClaim != nil {
		after = b.onClaim(c)
	}
	if after != nil && !errors.Is(after, errAfterWrite) {
		return wire.Claim{}, after
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if got, ok := b.register[ref.Attempt]; ok {
		return got, after
	}
	b.register[ref.Attempt] = c
	return c, after
}

// errAfterWrite is a fault that occurs after the register has been written.
var errAfterWrite = errors.New("cut off after the write")

func (b *bus) ReadClaim(_ context.Context, ref wire.TaskRef) (wire.Claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if got, ok := b.register[ref.Attempt]; ok {
		return got, nil
	}
	return wire.Claim{}, wire.ErrNotFound
}

func (b *bus) Serve(ctx context.Context, pool string, _ int, handle func(context.Context, []byte) []byte) error {
	b.mu.Lock()
	b.serving[pool] = handle
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	delete(b.serving, pool)
	b.mu.Unlock()
	b.calls.Wait()
	return ctx.Err()
}

// call makes a call and returns the channel for its answer.
func (b *bus) call(pool string, t *wire.Task) <-chan *wire.Result {
	out := make(chan *wire.Result, 1)
	about := wire.CallSubject(pool, wire.ProtocolVersion)
	packer := wire.Packer{Blobs: b, Rand: rand.Reader}
	data, err := packer.Pack(context.Background(), about, wire.EncodeTask(t))
	if err != nil {
		panic(err)
	}
	b.mu.Lock()
	handle := b.serving[pool]
	b.mu.Unlock()
	b.calls.Go(func() {
		plain, err := packer.Unpack(context.Background(), about, handle(context.Background(), data))
		if err != nil {
			panic(err)
		}
		r, err := wire.DecodeResult(plain)
		if err != nil {
			panic(err)
		}
		out <- r
	})
	return out
}

func (b *bus) Beat(_ context.Context, h wire.Heartbeat) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beats = append(b.beats, h)
	return nil
}

// lastBeat returns the newest heartbeat.
func (b *bus) lastBeat() wire.Heartbeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.beats[len(b.beats)-1]
}

// waiting counts the tasks in the queues.
func (b *bus) waiting() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.tasks {
		n += len(list)
	}
	return n
}

// said returns all heartbeats so far.
func (b *bus) said() []wire.Heartbeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.beats)
}

// tell sends a control message to the pool eu.
func (b *bus) tell(kind, run string) {
	b.mu.Lock()
	fn := b.control["eu"]
	b.mu.Unlock()
	fn(wire.Control{Kind: kind, Run: run})
}

func (b *bus) SubscribeControl(ctx context.Context, pool string, fn func(wire.Control)) error {
	b.mu.Lock()
	b.control[pool] = fn
	b.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (b *bus) PoolBlobs(string) wire.Blobs { return b }

func (b *bus) Emit(_ context.Context, _, _ string, data []byte) error {
	e, err := wire.DecodeEvent(data)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
	return err
}

func (b *bus) PutBlob(_ context.Context, sum string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blobs[sum] = data
	return nil
}

func (b *bus) GetBlob(_ context.Context, sum string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if data, ok := b.blobs[sum]; ok {
		return data, nil
	}
	return nil, wire.ErrNotFound
}

func (b *bus) GetBlobIf(ctx context.Context, sum string, ok func(bytes int64) error) ([]byte, error) {
	data, err := b.GetBlob(ctx, sum)
	if err == nil {
		err = ok(int64(len(data)))
	}
	return data, err
}

func (b *bus) HasBlob(context.Context, string) (bool, error)      { return false, nil }
func (b *bus) NameBlob(context.Context, string, string) error     { return nil }
func (b *bus) LookupBlob(context.Context, string) (string, error) { return "", wire.ErrNotFound }
