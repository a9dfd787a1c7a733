package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/tracing"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/unpacking"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/service/engine"
	"github.com/millipede-iac/millipede/service/seat/host"
	"github.com/millipede-iac/millipede/service/seat/protocol"
)

// EngineOptions are the parts of an engine's process that the service does not tell it.
type EngineOptions struct {
	Version, EngineVersion string
	Who                    func() string
	// Settle takes the settings of the service as the environment of the process, and returns the CLI configuration
	// with its hosts, and what connects to plugins that already run.
	Settle func(environ.Variables) (*cliconfig.Config, *services.Services, *adapters.Connector)
	// Log returns the log, with the options that the service has.
	Log func(level, format string) (*slog.Logger, error)
}

// paths of requests to an engine that are not calls; copyStorePath is one, too.
const (
	drainPath   = "/drain"
	metricsPath = "/metrics"
)

// RunEngine is an engine's process: it carries out the calls of the service that has started it, until that ends it or
// is gone.
func RunEngine(ctx context.Context, o EngineOptions) error {
	conns, err := inheritedConns()
	if err != nil {
		return err
	}
	return host.Serve(host.Options{Program: o.Version, Calls: conns[0], Back: conns[1],
		Open: func(hello protocol.Hello, service *host.Service) (*host.Opened, error) {
			return o.open(ctx, hello, service, conns[2])
		}})
}

// inheritedConns returns the connections to the service that has started the process.
func inheritedConns() (conns [3]net.Conn, err error) {
	for i, name := range []string{"calls", "requests", "dials"} {
		if conns[i], err = inheritedConn(callsDescriptor+i, name); err != nil {
			return conns, fmt.Errorf("only a service starts this command: %w", err)
		}
	}
	return conns, nil
}

// open makes the engine.
func (o *EngineOptions) open(ctx context.Context, hello protocol.Hello, service *host.Service, dials net.Conn) (
	*host.Opened, error) {
	var told setup
	if err := json.Unmarshal(hello.Setup, &told); err != nil {
		return nil, fmt.Errorf("the first message of the service: %w", err)
	}
	log, err := o.Log(told.LogLevel, told.LogFormat)
	if err != nil {
		return nil, err
	}
	log = log.With("seat", hello.Seat)
	if err := boundMemory(told.Memory); err != nil {
		return nil, fmt.Errorf("bounding the memory of the engine: %w", err)
	}
	cli, hosts, connector := o.Settle(told.Environ)
	if cli, err = serviceCLI(cli, told.Data); err != nil {
		return nil, err
	}
	ctx, flush, err := tracing.Begin(ctx, cloud.Environment{Dir: cli.Dir(), Environ: told.Environ}, "millipede", o.Version,
		func(line string) { log.Warn(line) })
	if err != nil {
		return nil, err
	}
	if err := confineEngine(&told, cli); err != nil {
		return nil, err
	}
	shared, err := o.join(ctx, told, service, dials, log)
	if err != nil {
		return nil, err
	}
	p := &engineProcess{EngineOptions: *o, told: told, service: service, shared: shared, cli: cli, services: hosts,
		connector: connector, stores: newRemoteStores(service, &told, o.Version), hashes: providers.NewHashes(time.Now)}
	if told.Group != "" {
		l, err := shared.Conn.GroupLogs().Open(ctx, told.Group)
		if err != nil {
			return nil, errors.Join(err, shared.Close())
		}
		p.stores.log, p.stores.tell = l, func(line string) { log.Warn(line) }
	}
	if told.Measured {
		p.instruments = newEngineInstruments(o.Version)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+copyStorePath, p.stores.serveCopy)
	mux.HandleFunc("POST "+drainPath, p.drain)
	if p.instruments != nil {
		mux.Handle("GET "+metricsPath, p.instruments.set.Handler())
	}
	service.Handle(mux)
	e := engine.New(engine.Options{
		Environ: heritage(told.Environ).With("TMPDIR=" + told.Temp), Parallelism: told.Parallelism,
		EngineVersion: o.EngineVersion, Now: time.Now,
		Unpack: unpacking.Module, Connected: shared.Conn.Connected, Observe: observed(p.instruments.observeRun(), log),
		Open: p.estate,
	})
	return &host.Opened{Engine: e, Context: ctx, Log: log, Close: func() error {
		return errors.Join(shared.Close(), flush())
	}}, nil
}

// join connects to NATS.
func (o *EngineOptions) join(ctx context.Context, told setup, service *host.Service, dials net.Conn,
	log *slog.Logger) (*adapters.Shared, error) {
	to := adapters.JoinOptions{Name: told.Name, Seed: told.Seed, Server: told.NATS.Options()}
	to.Server.Name = "millipede-service"
	to.Server.Log = func(line string) { log.Warn(line) }
	if told.NATS.URL == "" {
		d, err := newDialer(dials)
		if err != nil {
			return nil, err
		}
		to.Dial = d.dial
		to.Announce = func(all adapters.Packages) error {
			return tellService(ctx, service, packagesPath, announcedOf(all))
		}
		to.Trouble = func() error {
			asking, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			response, err := service.Ask(asking, http.MethodGet, troublePath, nil)
			if err != nil {
				return err
			}
			return response.Body.Close()
		}
	}
	return adapters.Join(ctx, to)
}

// engineProcess is what the estates of an engine share.
type engineProcess struct {
	EngineOptions
	told        setup
	service     *host.Service
	shared      *adapters.Shared
	stores      *remoteStores
	hashes      *providers.Hashes
	cli         *cliconfig.Config
	services    *services.Services
	connector   *adapters.Connector
	instruments *instruments
}

// estate returns the estate of one phase of a run.
func (p *engineProcess) estate(at engine.Place) *estate.Estate {
	o := phaseOptions(at)
	o.Version, o.EngineVersion, o.Who = p.Version, p.EngineVersion, p.Who
	o.Stores = p.instruments.measureStores(p.stores.of(at.Data))
	o.Connector = phaseConnector{p.shared, at.Stop.Stopping}
	o.Reattached, o.CLI, o.Hashes, o.Services = p.connector.Reattached, p.cli, p.hashes, p.services
	return estate.New(o)
}

// drain sets the pools to which nothing is dispatched.
func (p *engineProcess) drain(w http.ResponseWriter, r *http.Request) {
	var pools []string
	err := protocol.Read(r.Body, &pools, protocol.MaxMessage)
	if err == nil {
		err = p.shared.Hub().Drain(r.Context(), pools)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// tellService sends a message to the service.
func tellService(ctx context.Context, service *host.Service, path string, message any) error {
	var body bytes.Buffer
	if err := protocol.Write(&body, message); err != nil {
		return err
	}
	response, err := service.Ask(ctx, http.MethodPost, path, &body)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// tell sends a message to an engine.
func tell(ctx context.Context, engine *http.Client, path string, message any) error {
	var body bytes.Buffer
	if err := protocol.Write(&body, message); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine"+path, &body)
	if err != nil {
		return err
	}
	response, err := engine.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxKey))
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	return errors.Join(err, response.Body.Close())
}

// announcedOf returns the message for the packages of a run.
func announcedOf(all adapters.Packages) (list []announced) {
	for source, p := range all {
		list = append(list, announced{Source: source.String(), Version: p.Version, Unlocked: p.Unlocked, Dir: p.Dir,
			Hashes: p.Hashes})
	}
	return list
}

// packagesOf is the inverse of announcedOf.
func packagesOf(list []announced) (adapters.Packages, error) {
	all := adapters.Packages{}
	for _, a := range list {
		source, diags := addr.ParseProviderSource(a.Source)
		if err := diags.Err(); err != nil {
			return nil, err
		}
		all[source] = providers.Package{Version: a.Version, Unlocked: a.Unlocked, Dir: a.Dir, Hashes: a.Hashes}
	}
	return all, nil
}
