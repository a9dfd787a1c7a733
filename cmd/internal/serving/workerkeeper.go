package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/confined"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/wire"
)

// WorkerCommand is the command with which this program becomes the embedded worker of a service. Only the service
// starts it.
const WorkerCommand = "worker-process"

// workerSetup is what the service tells its worker at its start.
type workerSetup struct {
	// Dir is the directory of the worker, Data that of the service, and Temp that for temporary files of runs.
	Dir   string `json:"dir"`
	Data  string `json:"data"`
	Temp  string `json:"temp"`
	Slots int    `json:"slots"`
	// Environ has the settings of the service that concern plugins and logs.
	Environ  environ.Variables `json:"environ"`
	Readable []string          `json:"readable,omitempty"`
	Writable []string          `json:"writable,omitempty"`
	Measured bool              `json:"measured,omitempty"`
	// Programs are the limits of plugins and provisioners.
	Programs confined.Limits `json:"programs,omitzero"`
}

// packagePath is the path of the worker's requests to the service: where a package is.
const packagePath = "/package"

// place is the answer: a directory, empty if there is none.
type place struct{ Dir string }

// workerKeeper keeps the process of the embedded worker, and starts the next one when it has ended.
type workerKeeper struct {
	*serving
	w *sharedConnection

	ending context.Context //nolint:containedctx // close ends it
	end    context.CancelFunc
	group  sync.WaitGroup

	mu     sync.Mutex   // guards client
	client *http.Client // of the present process; nil if there is none
}

// newWorkerKeeper returns the keeper of a worker. The caller calls start, and close after all runs.
func newWorkerKeeper(s *serving, w *sharedConnection) *workerKeeper {
	k := &workerKeeper{serving: s, w: w}
	k.ending, k.end = context.WithCancel(context.Background())
	return k
}

// start starts the worker.
func (k *workerKeeper) start() { k.group.Go(func() { k.keep(k.ending) }) }

// close ends the worker, which finishes its tasks.
func (k *workerKeeper) close() error {
	k.end()
	k.group.Wait()
	return nil
}

// workerPauses are the shortest and the longest time between the starts of the worker.
const (
	shortWorkerPause = 100 * time.Millisecond
	longWorkerPause  = 5 * time.Second
)

func (k *workerKeeper) keep(ctx context.Context) {
	for pause := shortWorkerPause; ctx.Err() == nil; pause = min(2*pause, longWorkerPause) {
		began := time.Now()
		if err := k.run(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error("the embedded worker has ended; it is started again", "error", err)
		}
		if time.Since(began) > longWorkerPause {
			pause = shortWorkerPause
		}
		_ = sleep.For(ctx, pause) // the loop sees that ctx has ended
	}
}

// run starts a worker, and returns when it has ended.
func (k *workerKeeper) run(ctx context.Context) error {
	p, err := k.spawn(k.w, WorkerCommand)
	if err != nil {
		return err
	}
	answered := make(chan struct{})
	go func() { // it ends with the connection, which the process has
		defer close(answered)
		if err := protocol.Serve(p.Back, http.HandlerFunc(k.answer), protocol.MostRequests); err != nil {
			k.Log.Warn("the requests of the worker cannot be received", "error", err)
		}
	}()
	client := protocol.NewClient(p.Calls)
	alive, over := context.WithCancel(context.WithoutCancel(ctx)) // also while it ends
	heeded := make(chan struct{})
	go func() { // it ends with the process
		defer close(heeded)
		if seat.Frozen(alive, client) {
			k.Log.Error("the embedded worker is frozen: it is killed", "unanswered", seat.FrozenTime)
			p.Kill()
		}
	}()
	defer func() {
		_ = errors.Join(p.Calls.Close(), p.Back.Close()) // the process has ended
		over()
		<-heeded
		<-answered
	}()
	if err := k.greet(ctx, client); err != nil {
		p.Kill()
		<-p.Done
		return err
	}
	k.set(client)
	defer k.set(nil)
	select {
	case <-p.Done:
		return fmt.Errorf("its process: %w", errors.Join(errEnded, p.Reason()))
	case <-ctx.Done():
	}
	k.dismiss(context.WithoutCancel(ctx), p, client)
	return nil
}

// dismissTime is how long the process of a worker that has ended may take to exit.
const dismissTime = 5 * time.Second

// dismiss ends a worker, and returns when its process has ended. The worker finishes its tasks, for as long as they
// take; but one that is frozen is killed, and a second interrupt ends the service, and with it the worker.
func (k *workerKeeper) dismiss(ctx context.Context, p *seat.Process, client *http.Client) {
	if err := tell(ctx, client, protocol.QuitPath, nil); err != nil {
		p.Kill()
	}
	select {
	case <-p.Done:
	case <-time.After(dismissTime):
		k.Log.Error("the embedded worker has ended, but its process does not: it is killed")
		p.Kill()
		<-p.Done
	}
}

var errEnded = errors.New("it has ended unexpectedly")

func (k *workerKeeper) set(c *http.Client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.client = c
}

// clients returns the client of the present process, for its metrics.
func (k *workerKeeper) clients() map[int]*http.Client {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		return nil
	}
	return map[int]*http.Client{0: k.client}
}

// greet sends the first message.
func (k *workerKeeper) greet(ctx context.Context, client *http.Client) error {
	text, err := json.Marshal(workerSetup{Dir: filepath.Join(k.Data, "worker"), Data: k.Data, Temp: k.temp,
		Slots: k.slots(), Environ: settingsOf(k.Environ), Readable: k.Readable, Writable: k.Writable,
		Measured: k.instruments != nil, Programs: k.programs()})
	if err != nil {
		return err
	}
	_, err = seat.Greet(ctx, client, protocol.Hello{Setup: text})
	return err
}

// answer answers a request of the worker.
func (k *workerKeeper) answer(w http.ResponseWriter, r *http.Request) {
	var asked wire.Package
	err := protocol.Read(r.Body, &asked, maxPackage)
	if err == nil && r.URL.Path != packagePath {
		err = fmt.Errorf("the path %s is not known", r.URL.Path)
	}
	if err != nil {
		seat.Refuse(w, http.StatusBadRequest, err)
		return
	}
	dir, _ := k.w.PackageDir(asked)
	var body bytes.Buffer
	if err := protocol.Write(&body, place{dir}); err != nil {
		seat.Refuse(w, http.StatusInternalServerError, err)
		return
	}
	_, _ = w.Write(body.Bytes()) // a worker that does not read it gets no answer
}

// maxPackage bounds the description of a package, in bytes: it has a checksum for each platform.
const maxPackage = 1 << 20
