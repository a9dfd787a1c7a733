package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker"
	"github.com/millipede-iac/millipede/worker/journal"
)

// honest is the pool of the workers that follow the protocol.
const honest = "default"

// host is a machine on which a worker runs and is restarted. Its directory outlives the worker's processes.
type host struct {
	w     *world
	id    string // the worker's name
	pool  string
	dir   string
	p     *process
	disk  *workerDisk
	life  int
	lost  int // how often the machine was replaced by one with an empty directory
	full  bool
	slots int
}

// start starts the worker's process.
func (h *host) start() {
	h.life++
	j, _, err := journal.Open(h.dir)
	if err != nil {
		panic(err)
	}
	d := &workerDisk{h: h, j: j, path: filepath.Join(h.dir, "worker.journal"), left: map[string]bool{}}
	for _, e := range j.Pending() {
		d.left[string(e.Ref.Attempt)] = e.Status == journal.Started
	}
	d.note()
	h.disk = d
	h.p = h.w.spawn(fmt.Sprintf("%sp%d", h.id, h.life), func(ctx context.Context, p *process) {
		d.p = p
		h.run(ctx, p)
	})
}

func (h *host) run(ctx context.Context, p *process) {
	w := h.w
	w.mu.Lock()
	c := w.nats.connect(p, "")
	w.mu.Unlock()
	ring, err := wire.NewKeyring(c, keyPair(h.id), seeded(p.name))
	if err != nil {
		panic(err)
	}
	g := &plugin{p: p, c: w.cloud}
	nonce := p.id
	if w.options.without == guardNonce {
		nonce = func() string { return "always the same" }
	}
	real := worker.New(worker.Options{
		ID: h.id, Pools: []string{h.pool}, Slots: h.slots, Version: "sim", Platform: "linux_amd64",
		Queue: c, Claims: c, Caller: c, Parts: c, Presence: c, Blobs: c, Keys: ring, Journal: h.disk, Providers: g,
		Provisioners: nil,
		Log:          slog.New(slog.DiscardHandler), Now: p.now, Nonce: nonce, Rand: seeded(p.name + " rand"),
	})
	// An error comes from the journal; the worker is restarted.
	_ = real.Run(ctx, ctx)
}

// stop ends the worker's process. The machine may lose data that was not synced (power), or be lost (forEver).
func (h *host) stop(power, forEver bool) {
	w := h.w
	h.p.kill()
	if err := h.disk.j.Close(); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, journal.ErrBroken) {
		panic(err)
	}
	if power {
		w.faults["power of a worker lost"]++
		h.disk.cut()
	}
	if !forEver {
		return
	}
	w.faults["worker lost for ever"]++
	w.note("%s is lost for ever", h.id)
	h.lost++
	if err := os.RemoveAll(h.dir); err != nil {
		panic(err)
	}
	h.dir = fmt.Sprintf("%s-%d", h.dir, h.lost)
	h.id = fmt.Sprintf("%s'", h.id)
}

// workerDisk is the worker's journal behind the gate of its disk. It records which data is durable.
type workerDisk struct {
	h    *host
	p    *process
	j    *journal.Journal
	path string
	size int64           // the size of the file at its last sync
	left map[string]bool // the attempts that an earlier process has started
}

func (d *workerDisk) note() {
	if info, err := os.Stat(d.path); err == nil {
		d.size = info.Size()
	}
}

// cut removes the data that was not synced, or a part of it.
func (d *workerDisk) cut() {
	info, err := os.Stat(d.path)
	if err != nil || info.Size() <= d.size {
		return
	}
	keep := d.size + d.h.w.chance.Int64N(info.Size()-d.size+1)
	if err := os.Truncate(d.path, keep); err != nil {
		panic(err)
	}
}

// errFull is the error of a journal without disk space, whose content has not changed.
var errFull = fmt.Errorf("%w: no space left on device", journal.ErrFull)

func (d *workerDisk) write(name string, ref wire.TaskRef, durable bool, fn func() error) error {
	return d.p.do(context.Background(), disk, "journal "+name, string(ref.Attempt), func(o *op) {
		if d.h.full {
			o.reply(errFull)
			return
		}
		err := fn()
		if durable {
			d.note()
		}
		o.reply(err)
	})
}

func (d *workerDisk) Pending() []journal.Entry { return d.j.Pending() }

func (d *workerDisk) Intend(ref wire.TaskRef, nonce string, notStarted []byte) error {
	return d.write("intend", ref, false, func() error { return d.j.Intend(ref, nonce, notStarted) })
}

func (d *workerDisk) Start(ref wire.TaskRef, doubt []byte) error {
	return d.write("start", ref, true, func() error {
		if d.h.w.options.without == guardStart {
			return nil
		}
		return d.j.Start(ref, doubt)
	})
}

func (d *workerDisk) Progress(ref wire.TaskRef, doubt []byte) error {
	return d.write("progress", ref, false, func() error { return d.j.Progress(ref, doubt) })
}

func (d *workerDisk) End(ref wire.TaskRef, result []byte) error {
	return d.write("end", ref, true, func() error { return d.j.End(ref, result) })
}

func (d *workerDisk) Done(ref wire.TaskRef) error {
	return d.write("done", ref, false, func() error { return d.j.Done(ref) })
}

func (d *workerDisk) CheckSpace() error {
	return d.p.do(context.Background(), disk, "journal room", "", func(o *op) {
		if d.h.full {
			o.reply(errFull)
			return
		}
		o.reply(d.j.CheckSpace())
	})
}

// holds reports whether a living worker process has the attempt, so that its operation may still begin. The journal of
// a worker whose disk was full may keep an intent for an attempt whose claim another worker has won; it has no effect.
func (w *world) holds(attempt string) bool {
	for _, h := range w.hosts {
		if h.p == nil || h.p.dead {
			continue
		}
		for _, e := range h.disk.j.Pending() {
			won, claimed := w.nats.claims[wire.ClaimSubject(e.Ref)]
			lost := e.Status == journal.Intended && claimed && won.Nonce != e.Nonce
			// Operations that an earlier process has started stay in the journal if their end could not be written.
			lost = lost || w.calm && h.disk.left[attempt]
			if string(e.Ref.Attempt) == attempt && e.Status != journal.Ended && !lost {
				return true
			}
		}
	}
	return false
}

// injectFaults injects a fault, and schedules the next one.
func (w *world) injectFaults() {
	if w.calm {
		return
	}
	o := w.options
	switch n := w.chance.IntN(100); {
	case n < 14:
		h := w.hosts[w.chance.IntN(len(w.hosts))]
		if !h.p.dead {
			w.faults["worker killed"]++
			h.stop(w.odds(3), w.odds(8))
			w.after(w.between(100*time.Millisecond, 20*time.Second), h.start)
		}
	case n < 24:
		h := w.hosts[w.chance.IntN(len(w.hosts))]
		w.faults["worker frozen"]++
		h.p.freeze(w.between(time.Second, 15*time.Second))
	case n < 36:
		h := w.hosts[w.chance.IntN(len(w.hosts))]
		w.faults["worker cut off"]++
		h.p.partition(w.between(time.Second, 15*time.Second))
	case n < 40:
		h := w.hosts[w.chance.IntN(len(w.hosts))]
		if !h.full && !h.p.dead {
			w.faults["disk of a worker full"]++
			h.full = true
			w.after(w.between(time.Second, 10*time.Second), func() { h.full = false })
		}
	case n < 58:
		s := w.sites[w.chance.IntN(len(w.sites))]
		s.killOne()
	case n < 66:
		if p := w.sites[w.chance.IntN(len(w.sites))].current; p != nil {
			w.faults["coordinator frozen"]++
			p.freeze(w.between(time.Second, 20*time.Second))
		}
	case n < 74:
		if p := w.sites[w.chance.IntN(len(w.sites))].current; p != nil {
			w.faults["coordinator cut off"]++
			p.partition(w.between(time.Second, 20*time.Second))
		}
	case n < 80:
		w.sites[w.chance.IntN(len(w.sites))].interrupt()
	case n < 84:
		s := w.sites[w.chance.IntN(len(w.sites))]
		if !s.full {
			w.faults["disk of a coordinator full"]++
			s.full = true
			w.after(w.between(100*time.Millisecond, 3*time.Second), func() { s.full = false })
		}
	case n < 90:
		w.sites[w.chance.IntN(len(w.sites))].breakLock()
	case n < 96:
		w.nats.restart()
	default:
		if o.loss {
			w.nats.loseTail(1 + w.chance.IntN(3))
		}
	}
	w.after(w.between(o.pace/4, o.pace*2), w.injectFaults)
}

// supervise restarts workers whose processes have ended by themselves.
func (w *world) supervise() {
	for _, h := range w.hosts {
		if h.p != nil && h.p.dead && h.disk.p == h.p && !h.full {
			select {
			case <-h.p.done:
			default:
				continue
			}
			if err := h.disk.j.Close(); err == nil || errors.Is(err, journal.ErrBroken) {
				h.start()
			}
		}
	}
	w.after(w.between(time.Second, 3*time.Second), w.supervise)
}
