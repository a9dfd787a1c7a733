package serving

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/confined"
	"github.com/millipede-iac/millipede/cmd/internal/natsconn"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/web"
	"github.com/millipede-iac/millipede/service/work"
	"github.com/millipede-iac/millipede/state/seal"
)

// EngineCommand is the command with which this program becomes an engine. Only the service starts it.
const EngineCommand = "engine-process"

// The descriptors of an engine: of the calls, of its own requests, and of requests for connections to the embedded NATS
// server.
const (
	callsDescriptor = 3 + iota
	backDescriptor
	dialDescriptor
)

// Setup is what the service tells an engine at its start. It is sent over a pair of sockets, because others can see the
// environment and the arguments of a process.
type setup struct {
	// Data is the directory of the service.
	Data string `json:"data"`
	// Name and Seed are the coordinator that the engine is.
	Name string `json:"name"`
	Seed []byte `json:"seed"`
	// NATS is the server; without a URL it is embedded in the service.
	NATS natsconn.Settings `json:"nats"`
	// Group is the group whose log the stores of workspaces are in; empty for none.
	Group       string                `json:"group,omitempty"`
	Parallelism placement.Parallelism `json:"parallelism"`
	// Environ has the settings of the service that concern what runs install and how they report.
	Environ environ.Variables `json:"environ"`
	// Aside says that the engine carries out one call, beside the engine on the seat of the workspace.
	Aside bool `json:"aside,omitempty"`
	// Temp is a directory for temporary files of the engine. Readable and Writable are files that the operator allows
	// runs to use.
	Temp     string   `json:"temp"`
	Readable []string `json:"readable,omitempty"`
	Writable []string `json:"writable,omitempty"`
	// Memory bounds the memory of the engine, in bytes; 0 for no bound.
	Memory int64 `json:"memory,omitempty"`
	// Programs are the limits of the programs that the engine starts.
	Programs confined.Limits `json:"programs,omitzero"`
	// LogLevel and LogFormat are those of the service.
	LogLevel  string `json:"logLevel"`
	LogFormat string `json:"logFormat"`
	// Measured says that the metrics of the engine are read.
	Measured bool `json:"measured,omitempty"`
}

// processes starts the engines of a service, and answers their requests.
type processes struct {
	*serving
	w      *sharedConnection
	stores *sealedStores
	key    *seal.Key

	mu      sync.Mutex // guards drained
	drained []string
}

// engines are what executes the phases of runs.
type engines struct {
	engine work.Engine
	// apart says that they are processes of their own.
	apart bool
	start func()
	// drain tells them to which pools nothing is dispatched; nil if they are in this process.
	drain func(ctx context.Context, pools []string) error
	close func() error
	// abandon ends them at once, because another member of the group carries out their phases; nil if they are in this
	// process.
	abandon func()
	// describe says what they are, for the page of administrators.
	describe func() web.Engines
}

// engines returns the engines of the service. The caller calls start when the service can no longer fail to start, and
// close after all runs.
func (s *serving) engines(st *store.Store, w *sharedConnection, stores *sealedStores, key *seal.Key,
	cli *cliconfig.Config) engines {
	if !s.apart() {
		s.instruments.evaluates()
		return engines{engine: s.serviceEngine(s.Options, key, w, cli, stores), start: func() {},
			close:    func() error { return nil },
			describe: func() web.Engines { return web.Engines{Confinement: confinementOf(s.Options)} }}
	}
	seats, p := s.openSeats(st, w, stores, key)
	s.instruments.read(seats)
	start, closing := seats.Start, seats.Close
	if w.Embedded() {
		k := newWorkerKeeper(s, w)
		s.instruments.readWorker(k)
		start = func() {
			k.start()
			seats.Start()
		}
		closing = func() error { return errors.Join(seats.Close(), k.close()) }
	}
	describe := func() web.Engines {
		e := web.Engines{Confinement: confinementOf(s.Options)}
		for _, t := range seats.Status() {
			e.Seats = append(e.Seats, web.Seat{Number: t.Seat, Program: t.Program, Since: t.Since, Trouble: t.Trouble,
				Calls: t.Calls, Restarts: t.Restarts})
		}
		return e
	}
	return engines{engine: seats, apart: true, start: start, close: closing, abandon: seats.Abandon, describe: describe,
		drain: func(ctx context.Context, pools []string) error { return p.drain(ctx, seats.Engines(), pools) }}
}

// openSeats returns the seats of the engines, which have no processes yet.
func (s *serving) openSeats(st *store.Store, w *sharedConnection, stores *sealedStores, key *seal.Key) (*seat.Seats,
	*processes) {
	p := &processes{serving: s, w: w, stores: stores, key: key}
	return seat.New(seat.Options{Seats: s.Engines, Log: s.Log, MaxState: maxState, MaxAnswer: s.PlanSize << 20,
		Handler: p.handler, Start: p.start, Ready: p.ready,
		Epoch: func(n int) (epoch uint64, err error) {
			err = st.Update(func(tx *store.Tx) error {
				r, err := tables.Seats.Get(tx, strconv.Itoa(n))
				switch {
				case errors.Is(err, store.ErrNotFound):
					r = &record.Seat{Number: n}
				case err != nil:
					return err
				}
				r.Epoch++
				epoch = r.Epoch
				return tables.Seats.Put(tx, r)
			})
			return epoch, err
		}}), p
}

// DefaultEngines is the number of engines that are started by default: each of them uses all processors.
func DefaultEngines() int { return max(1, runtime.NumCPU()/2) }

// start starts the process of an engine.
func (p *processes) start(ctx context.Context, number int, _ uint64, memory int64) (*seat.Process, error) {
	told, err := p.setup(ctx, number, memory)
	if err != nil {
		return nil, err
	}
	started, err := p.spawn(p.w, EngineCommand, "-seat="+strconv.Itoa(number))
	if err == nil {
		started.Setup = told
	}
	return started, err
}

// spawn starts this program once more, with pairs of sockets to it.
func (s *serving) spawn(w *sharedConnection, args ...string) (_ *seat.Process, err error) {
	program, err := program()
	if err != nil {
		return nil, fmt.Errorf("finding the program: %w", err)
	}
	var ours []net.Conn
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			err = errors.Join(err, f.Close())
		}
		for _, c := range ours {
			if err != nil {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	for _, name := range []string{"calls", "requests", "dials"} {
		conn, file, err := socketPair(name)
		if err != nil {
			return nil, err
		}
		ours, theirs = append(ours, conn), append(theirs, file)
	}
	c := exec.Command(program, args...) //nolint:gosec,noctx // Kill ends it
	c.Args[0] = os.Args[0]
	c.Env = visibleOf(s.Environ)
	c.Dir, c.Stderr, c.ExtraFiles, c.SysProcAttr = s.Dir, s.Stderr, theirs, apart()
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	done := make(chan struct{})
	var reason error
	go func() { // it ends with the process
		defer close(done)
		reason = c.Wait()
		_ = ours[2].Close() // nobody asks any more
	}()
	if w.Embedded() {
		go serveDials(ours[2], w.Dial) // it ends with the process
	}
	return &seat.Process{Calls: ours[0], Back: ours[1], Done: done, Reason: func() error { return reason },
		Kill: func() { _ = c.Process.Kill() }}, nil // the error says that it has ended
}

// program returns the path of this program, also after its file was replaced by another version.
func program() (string, error) {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running, nil
	}
	return os.Executable()
}

// visibleOf returns the environment with which an engine is started: what others may see, and what the runtime of Go
// reads.
func visibleOf(all environ.Variables) (out []string) {
	for _, name := range append(Visible(), "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR") {
		if v, ok := all.Lookup(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// setup returns the first message to an engine. memory is as for seat.Options.Start.
func (p *processes) setup(ctx context.Context, number int, memory int64) ([]byte, error) {
	seed, err := p.w.Seed()
	if err != nil {
		return nil, fmt.Errorf("reading the key pair of the service: %w", err)
	}
	// A process that carries out one call has a name of its own, too, which nobody needs after it.
	aside := number > p.Engines
	name := "c-" + strings.ToLower(rand.Text()[:12])
	if !aside {
		home := layout.HomeAt(filepath.Join(p.Data, "seats", strconv.Itoa(number)))
		if name, _, err = estate.CoordinatorAt(ctx, home, keyWrapper{p.key}, rand.Text); err != nil {
			return nil, fmt.Errorf("reading who the coordinator of seat %d is: %w", number, err)
		}
	}
	for _, dir := range phaseDirs(p.Data) { // the engine is confined to them, so they must exist
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return json.Marshal(setup{Data: p.Data, Name: name, Seed: seed, Aside: aside, Temp: p.temp, Readable: p.Readable,
		Writable: p.Writable, Group: p.Group, Memory: cmp.Or(memory, p.EngineMemory) << 20, NATS: p.Connector.Server(nil),
		Parallelism: p.Parallelism, Environ: settingsOf(p.Environ), LogLevel: p.LogLevel, LogFormat: p.LogFormat,
		Measured: p.instruments != nil, Programs: p.programs()})
}

// settingsOf returns the variables of the service that engines need: how runs reach registries, proxies and collectors
// of traces.
func settingsOf(all environ.Variables) (out environ.Variables) {
	prefixes := []string{"TF_", "TOFU_", "OTEL_", "XDG_", "MILLIPEDE_"}
	names := append(slices.Clone(inherited), "HOME", "USER", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "TRACEPARENT")
	for _, entry := range all.List() {
		name, value, _ := strings.Cut(entry, "=")
		if natsconn.Secret(name, value) || strings.HasPrefix(name, "MILLIPEDE_NATS") {
			continue
		}
		if slices.Contains(names, name) || slices.ContainsFunc(prefixes, func(p string) bool {
			return strings.HasPrefix(name, p)
		}) {
			out = append(out, entry)
		}
	}
	return out
}

// handler answers the requests of an engine that are not about calls.
func (p *processes) handler(e seat.Peer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+openKeyPath, p.forKey(e, func(ctx context.Context, w keyWrapper, text []byte) ([]byte, error) {
		key, _, err := w.Open(ctx, text, nil)
		return key, err
	}))
	mux.HandleFunc("POST "+sealKeyPath, p.forKey(e, func(ctx context.Context, w keyWrapper, text []byte) ([]byte, error) {
		return w.Seal(ctx, text)
	}))
	g := &gatekeeper{stores: p.stores, engine: e, data: p.Data, opened: map[string]struct{}{}}
	go g.forget() // it ends with the engine
	mux.HandleFunc("POST "+openStorePath, g.open)
	mux.HandleFunc("POST "+closeStorePath, g.close)
	mux.HandleFunc("POST "+copyStorePath, g.copy)
	mux.HandleFunc("POST "+logAccessPath, g.ofLog(g.logAccess))
	mux.HandleFunc("POST "+logMadePath, g.ofLog(g.logMade))
	mux.HandleFunc("POST "+logLevelPath, g.ofLog(g.logLevel))
	mux.HandleFunc("POST "+packagesPath, p.packages)
	mux.HandleFunc("GET "+troublePath, func(w http.ResponseWriter, _ *http.Request) {
		if err := p.w.Trouble(); err != nil {
			seat.Refuse(w, http.StatusServiceUnavailable, err)
		}
	})
	return mux
}

// The paths of such requests. The query of those about keys and stores names the workspace.
const (
	openKeyPath    = "/keys/open"
	sealKeyPath    = "/keys/seal"
	openStorePath  = "/stores/open"
	closeStorePath = "/stores/close"
	copyStorePath  = "/stores/copy"
	packagesPath   = "/packages"
	troublePath    = "/trouble"
)

// maxKey bounds the texts in requests about keys, in bytes.
const maxKey = 4 << 10

// forKey answers a request about the key of a store.
func (p *processes) forKey(e seat.Peer, do func(context.Context, keyWrapper, []byte) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !e.Works(r.URL.Query().Get("workspace")) {
			seat.Refuse(w, http.StatusForbidden, errOthers)
			return
		}
		var text []byte
		err := protocol.Read(r.Body, &text, maxKey)
		if err == nil {
			text, err = do(r.Context(), keyWrapper{p.key}, text)
		}
		if err != nil {
			seat.Refuse(w, http.StatusBadRequest, err)
			return
		}
		_ = protocol.Write(w, text) // an engine that does not read it gets no answer
	}
}

var errOthers = errors.New("the engine has no call of this workspace")

// announced is a package of a run, for the embedded worker.
type announced struct {
	Source, Version, Unlocked, Dir string
	Hashes                         []string
}

// packages tells the embedded worker where packages are.
func (p *processes) packages(w http.ResponseWriter, r *http.Request) {
	var list []announced
	err := protocol.Read(r.Body, &list, protocol.MaxMessage)
	var all adapters.Packages
	if err == nil {
		all, err = packagesOf(list)
	}
	if err == nil {
		err = p.w.Announce(all)
	}
	if err != nil {
		seat.Refuse(w, http.StatusBadRequest, err)
	}
}

// ready tells a new engine the drained pools. Whoever drains one at the same time has noted it before, or finds the
// engine.
func (p *processes) ready(ctx context.Context, e seat.Peer) error {
	p.mu.Lock()
	drained := slices.Clone(p.drained)
	p.mu.Unlock()
	if len(drained) == 0 {
		return nil
	}
	return tell(ctx, e.Client(), drainPath, drained)
}

// drain tells the engines, and those that are started later, to which pools nothing is dispatched.
func (p *processes) drain(ctx context.Context, engines map[int]*http.Client, pools []string) error {
	p.mu.Lock()
	p.drained = slices.Clone(pools)
	p.mu.Unlock()
	var errs []error
	for n, c := range engines {
		if err := tell(ctx, c, drainPath, pools); err != nil {
			errs = append(errs, fmt.Errorf("the engine of seat %d: %w", n, err))
		}
	}
	return errors.Join(errs...)
}
