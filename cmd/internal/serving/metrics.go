package serving

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/metrics"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/worker"
)

// instruments are the metrics of a service. A nil *instruments measures nothing.
type instruments struct {
	address string
	set     *metrics.Set
	runs    *metrics.Runs
	tasks   func(worker.Done)
	sizes   sizes

	commit func(took time.Duration)

	// listen sets it, before any run continues.
	status func(record.RunStatus)
}

// newInstruments returns the metrics that will be served at an address, or nil if the address is empty. version is the
// version of the program; works says that the embedded worker is in this process.
func newInstruments(address, version string, works bool) *instruments {
	if address == "" {
		return nil
	}
	n := &instruments{address: address, set: metrics.New("service", version)}
	if works {
		n.tasks = n.set.Tasks()
	}
	return n
}

// newEngineInstruments returns the metrics of an engine, which the service reads.
func newEngineInstruments(version string) *instruments {
	n := &instruments{set: metrics.New("engine", version)}
	n.evaluates()
	return n
}

// evaluates adds the metrics of a process that evaluates configurations: this one.
func (n *instruments) evaluates() {
	if n != nil {
		n.runs, n.commit = n.set.Runs(), n.set.Commits()
	}
}

// read adds the metrics of engines, which are read at each scrape.
func (n *instruments) read(seats *seat.Seats) {
	if n == nil {
		return
	}
	n.set.Seats(func() (all []metrics.Seat) {
		for _, s := range seats.Status() {
			all = append(all, metrics.Seat{Number: s.Seat, Epoch: s.Epoch, Calls: s.Calls, Restarts: s.Restarts,
				Up: s.Epoch != 0})
		}
		return all
	}, func() map[int]*http.Client { return seats.Engines() }, "http://engine"+metricsPath)
}

// readGroup adds the metrics of the group, if the service has one. The leader has those of all members.
func (n *instruments) readGroup(v *served) {
	if n == nil || v.members == nil {
		return
	}
	n.set.Members(func() (all []metrics.Member) {
		known, _ := v.svc.Members.All() // what the records do not tell, those that answer do
		for _, m := range known {
			all = append(all, metrics.Member{Name: m.Name, Leads: m.Leads, Answers: m.Answers, Behind: m.Behind})
		}
		return all
	})
}

// readWorker adds the metrics of the embedded worker, which are read at each scrape.
func (n *instruments) readWorker(k *workerKeeper) {
	if n != nil {
		n.set.Process("worker", k.clients, "http://worker"+metricsPath)
	}
}

// listen starts to answer scrapes, until end is called.
func (n *instruments) listen(ctx context.Context, svc *service.Service, st *store.Store, w *sharedConnection, slots int,
	log *slog.Logger) (end func() error, err error) {
	if n == nil {
		return func() error { return nil }, nil
	}
	n.sizes.dir = filepath.Join(st.Dir(), "workspaces")
	n.status = n.set.Statuses(svc.Runs.Tally)
	n.set.Stores(func() metrics.StoreStats {
		changes, writing, size := st.Stats()
		return metrics.StoreStats{Changes: changes, Writing: writing, Size: size}
	}, n.sizes.sum)
	n.set.Drift(func() (metrics.DriftTally, error) {
		t, err := svc.Drift.Tally()
		out := metrics.DriftTally{Workspaces: t.Workspaces, Objects: t.Objects, Drifted: t.Drifted, Failing: t.Failing}
		if !t.Oldest.IsZero() {
			out.Oldest = time.Since(t.Oldest)
		}
		return out, err
	})
	n.set.Transport(w.Hub())
	n.set.RoundTrips(w.Conn.RoundTrip)
	if w.Worker != nil {
		w.Worker.Measure(n.set, slots)
	}
	return n.set.Listen(ctx, n.address, log)
}

// countStatus counts a new status of a run. The statuses that runs already have when the process starts were counted by
// the previous process.
func (n *instruments) countStatus(s record.RunStatus) {
	if n != nil && n.status != nil {
		n.status(s)
	}
}

// observeRun returns the function that adds the metrics of vertices to the observer of a run.
func (n *instruments) observeRun() func(coordinator.Observer) (coordinator.Observer, func()) {
	if n == nil || n.runs == nil {
		return nil
	}
	return n.runs.Observe
}

// countTask returns the function that counts the tasks of the embedded worker.
func (n *instruments) countTask() func(worker.Done) {
	if n == nil || n.tasks == nil {
		return nil
	}
	return n.tasks
}

// measureStores measures the commits to the stores of workspaces.
func (n *instruments) measureStores(s estate.Stores) estate.Stores {
	if n == nil || n.commit == nil {
		return s
	}
	return measuredStores{s, n}
}

type measuredStores struct {
	estate.Stores
	numbers *instruments
}

// Open implements estate.Stores.
func (m measuredStores) Open(path string, info journal.LockInfo, timeout time.Duration, o estate.StoreOptions) (
	estate.Store, error) {
	s, err := m.Stores.Open(path, info, timeout, o)
	if err != nil {
		return nil, err
	}
	return measuredStore{s, m.numbers}, nil
}

type measuredStore struct {
	estate.Store
	numbers *instruments
}

// Commit implements journal.Store.
func (m measuredStore) Commit(ctx context.Context, tx journal.Commit) error {
	began := time.Now()
	err := m.Store.Commit(ctx, tx)
	m.numbers.commit(time.Since(began))
	return err
}

// sizes adds up the sizes of all workspaces' stores, at most once in half a minute.
type sizes struct {
	dir string

	mu    sync.Mutex // guards the rest
	known int64
	at    time.Time
}

func (s *sizes) sum() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < 30*time.Second {
		return s.known
	}
	s.known, s.at = 0, time.Now()
	_ = filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(d.Name()) != ".db" {
			return nil //nolint:nilerr // the file was removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			s.known += info.Size()
		}
		return nil
	})
	return s.known
}
