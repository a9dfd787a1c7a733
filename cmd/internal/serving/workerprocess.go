package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/confined"
	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/cmd/internal/metrics"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/confine"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/launch"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// WorkerOptions are the parts of the worker's process that the service does not tell it.
type WorkerOptions struct {
	Version string
	// Settle is that of EngineOptions; the connector has the logs that the settings ask for.
	Settle func(environ.Variables) (*cliconfig.Config, *services.Services, *adapters.Connector)
	Tell   func(text string)
}

// RunWorker is the process of the embedded worker: it carries out tasks until the service that has started it ends it,
// or is gone. Then what it has begun is in doubt, as with any worker whose machine is lost.
func RunWorker(ctx context.Context, o WorkerOptions) error {
	conns, err := inheritedConns()
	if err != nil {
		return err
	}
	p := &workerProcess{o: o, conns: conns, ctx: context.WithoutCancel(ctx), quit: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+protocol.HelloPath, p.hello)
	mux.HandleFunc("POST "+protocol.QuitPath, p.goodbye)
	mux.HandleFunc("GET "+protocol.BeatPath, protocol.Beat)
	mux.HandleFunc("GET "+metricsPath, p.measure)
	ended := make(chan error, 1)
	go func() { ended <- protocol.Serve(conns[0], mux, protocol.MostCalls) }() // the process exits after this function
	select {
	case err = <-ended:
	case <-p.quit:
		return nil
	}
	return errors.Join(err, p.abandon())
}

// abandonTime is how long a worker whose service is gone may take to end its plugins.
const abandonTime = 3 * time.Second

// workerProcess is the process of the embedded worker.
type workerProcess struct {
	o     WorkerOptions
	conns [3]net.Conn
	ctx   context.Context //nolint:containedctx // it lives as long as the process
	quit  chan struct{}

	mu           sync.Mutex // guards the fields below
	hosted       *hosting.Hosted
	conn         *jet.Conn
	drain, leave context.CancelCauseFunc
	worked       chan struct{} // closed when the worker has ended, with failure
	failure      error
	close        func() error // closes what the worker has open, once
	metrics      http.Handler
}

func (p *workerProcess) hello(w http.ResponseWriter, r *http.Request) {
	var hello protocol.Hello
	var told workerSetup
	version := 0
	err := protocol.Read(r.Body, &hello, protocol.MaxMessage)
	if err == nil {
		version, err = protocol.Agree(hello)
	}
	if err == nil {
		err = json.Unmarshal(hello.Setup, &told)
	}
	if err == nil {
		err = p.open(&told)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_ = protocol.Write(w, protocol.Welcome{Version: version}) // an error ends the connection
}

// open starts the worker.
func (p *workerProcess) open(told *workerSetup) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosted != nil {
		return errors.New("the worker works already")
	}
	cli, _, connector := p.o.Settle(told.Environ)
	cli, err := serviceCLI(cli, told.Data)
	if err != nil {
		return err
	}
	reattach, err := connector.Reattach()
	if err != nil {
		return fmt.Errorf("TF_REATTACH_PROVIDERS: %w", err)
	}
	if err := confineWorker(told, cli); err != nil {
		return err
	}
	d, err := newDialer(p.conns[2])
	if err != nil {
		return err
	}
	p.conn, err = jet.Join(p.ctx, d.dial, nil, jet.Options{Name: "millipede-worker", Workers: 1,
		Log: func(line string) { p.o.Tell(line + "\n") }})
	if err != nil {
		return err
	}
	o := hosting.Options{
		Transport: p.conn, Pools: []string{"default"}, Slots: told.Slots, Version: p.o.Version, Dir: told.Dir,
		Local: remotePackages{protocol.NewClient(p.conns[1])}, Reattach: reattach,
		DisableTLS: told.Environ.Get("TF_DISABLE_PLUGIN_TLS") != "",
		Log:        connector.Log, PluginLog: connector.PluginLog,
		Environ: heritage(told.Environ).With("TMPDIR=" + told.Temp),
	}
	var set *metrics.Set
	if told.Measured {
		set = metrics.New("worker", p.o.Version)
		o.Done = set.Tasks()
	}
	if p.hosted, err = hosting.New(o); err != nil {
		return errors.Join(err, p.conn.Close())
	}
	if set != nil {
		p.hosted.Measure(set, told.Slots)
		p.metrics = set.Handler()
	}
	p.close = sync.OnceValue(func() error { return errors.Join(p.hosted.Close(), p.conn.Close()) })
	taking, drain := context.WithCancelCause(p.ctx)
	working, leave := context.WithCancelCause(p.ctx)
	p.drain, p.leave, p.worked = drain, leave, make(chan struct{})
	go func() { // goodbye and abandon wait for it
		defer close(p.worked)
		p.failure = p.hosted.Worker.Run(taking, working)
	}()
	return nil
}

// works reports whether the worker was started. Then its fields do not change any more.
func (p *workerProcess) works() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.worked != nil
}

// goodbye ends the worker, which finishes its tasks. If the service goes meanwhile, abandon ends it.
func (p *workerProcess) goodbye(w http.ResponseWriter, _ *http.Request) {
	if p.works() {
		p.drain(errors.New("the service ends"))
		<-p.worked
		p.leave(nil)
		if err := errors.Join(p.failure, p.close()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	_ = http.NewResponseController(w).Flush() // the service sees the end of the process
	close(p.quit)
}

// abandon ends the worker without its service: there is nobody to whom results could be sent.
func (p *workerProcess) abandon() error {
	if !p.works() {
		return nil
	}
	p.leave(errors.New("the service is gone"))
	select {
	case <-p.worked:
	case <-time.After(abandonTime):
		return p.close()
	}
	return errors.Join(p.failure, p.close())
}

func (p *workerProcess) measure(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	handler := p.metrics
	p.mu.Unlock()
	if handler == nil {
		http.NotFound(w, r)
		return
	}
	handler.ServeHTTP(w, r)
}

// confineWorker takes from the worker, from plugins and from provisioners all files but programs and libraries,
// certificates, the packages of providers, the scratch directories of phases, a directory for temporary files, and
// what the operator has allowed. The worker alone has its journal.
func confineWorker(told *workerSetup, cli *cliconfig.Config) error {
	program, err := program()
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	if err := errors.Join(os.Setenv("TMPDIR", told.Temp), os.MkdirAll(told.Dir, 0o700)); err != nil {
		return err
	}
	for _, dir := range phaseDirs(told.Data) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	r := confine.Rules{Read: readable(told.Environ, program), Write: writable(told.Environ), Alone: true}
	r.Read = append(append(r.Read, told.Readable...), mirrors(cli)...)
	r.Read = append(r.Read, cli.CacheDir, filepath.Join(told.Data, "packages"), filepath.Join(told.Dir, "packages"))
	r.Write = append(append(r.Write, told.Writable...), told.Temp, filepath.Join(told.Data, "scratch"))
	launch.Through(program, confined.Arguments(r, told.Programs)...)
	own := r
	own.Write = append(append([]string{}, r.Write...), told.Dir, logFile(told.Environ))
	return own.Apply()
}

// logFile returns the file of the logs that TF_LOG asks for.
func logFile(env environ.Variables) string { return env.Get("TF_LOG_PATH") }

// remotePackages asks the service where packages are. It implements packages.Local.
type remotePackages struct{ service *http.Client }

// PackageDir implements packages.Local.
func (l remotePackages) PackageDir(p wire.Package) (string, bool) {
	var body bytes.Buffer
	if protocol.Write(&body, p) != nil {
		return "", false
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://service"+packagePath, &body)
	if err != nil {
		return "", false
	}
	response, err := l.service.Do(r)
	if err != nil {
		return "", false // the service is gone, and the process ends
	}
	var at place
	err = protocol.Read(response.Body, &at, protocol.MaxMessage)
	if errors.Join(err, response.Body.Close()) != nil {
		return "", false
	}
	return at.Dir, at.Dir != ""
}
