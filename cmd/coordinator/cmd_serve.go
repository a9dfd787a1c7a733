package main

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/authority"
	"github.com/millipede-iac/millipede/service/control"
	"github.com/millipede-iac/millipede/service/engine"
	"github.com/millipede-iac/millipede/service/gate"
	"github.com/millipede-iac/millipede/service/httpstate"
	"github.com/millipede-iac/millipede/service/login"
	"github.com/millipede-iac/millipede/service/notify"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tfe"
	"github.com/millipede-iac/millipede/service/web"
	"github.com/millipede-iac/millipede/state/seal"
	"github.com/millipede-iac/millipede/unpacking"
)

const serveUsage = `
Usage: coordinator [global options] serve [options]

  Keeps the states of many workspaces, and carries out their runs, for many people and programs: command lines with a cloud
  block or the backends "remote" and "http", and everything else that speaks the API of HCP Terraform.

Options:
  -listen=ADDRESS       Where to listen; default 127.0.0.1:8443.
  -address=URL          What clients reach the service at, when that is not where it listens: https://HOST.
  -data=DIR             Where everything is kept; default millipede in the user's data directory.
  -key-file=FILE        The key that seals the data. It is made when it is not there; keep it elsewhere than the data. Default
                        millipede/service.key in the user's configuration directory.
  -tls-cert=FILE, -tls-key=FILE
                        The certificate and its key. They are read again when they change. Without them the service makes its
                        own, of an authority of its own.
  -organization=NAME    The organization that is made at the first start; default main.
  -plans=N, -applies=N  How many plans compute, and how many applies go on, at a time; default the number of processors, and 50.
  -parallelism=N        How many operations of a run go on at a time; default 10.
  -metrics=ADDRESS      Answer scrapes of Prometheus there, at /metrics, without a token and without TLS. Give an address
                        that only the scraper reaches, such as 127.0.0.1:9464. Default: none.
  -notify-private       Let notifications go to addresses that are not public: this machine, private networks. Who may
                        administer a workspace can then have the service send requests there.
`

// The bounds of what is uploaded.
const (
	maxConfiguration = 512 << 20
	maxState         = 512 << 20
)

// serveOptions are the options of the command.
type serveOptions struct {
	listen, address, data, keyFile, certFile, certKey, organization string
	plans, applies                                                  int
	metrics                                                         string
	notifyPrivate                                                   bool
	parallelism                                                     parallelismFlag
}

// slots is how many operations the embedded worker carries out at a time: enough that the limits of the runs decide.
func (o *serveOptions) slots() int {
	return max(embeddedSlots, (o.plans+o.applies)*(&placement.Rules{}).Slots(o.parallelism.value))
}

func runServe(ctx context.Context, a *app, args []string) int {
	var o serveOptions
	f := a.newFlags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8443", "")
	f.StringVar(&o.address, "address", "", "")
	f.StringVar(&o.data, "data", "", "")
	f.StringVar(&o.keyFile, "key-file", "", "")
	f.StringVar(&o.certFile, "tls-cert", "", "")
	f.StringVar(&o.certKey, "tls-key", "", "")
	f.StringVar(&o.organization, "organization", "main", "")
	f.IntVar(&o.plans, "plans", runtime.NumCPU(), "")
	f.IntVar(&o.applies, "applies", 50, "")
	f.StringVar(&o.metrics, "metrics", "", "")
	f.BoolVar(&o.notifyPrivate, "notify-private", false, "")
	o.parallelism.register(f)
	if code, done := a.parse(f, serveUsage, args); done {
		return code
	}
	fail := func(what string, err error) int {
		a.printer(viewFlags{}).Diagnostics(diag.Errors(what, err.Error()+".", nil)) //nolint:errcheck // there is nobody else to tell
		return 1
	}
	if err := a.completeServe(&o, f.Args()); err != nil {
		return fail("The service cannot start", err)
	}
	if err := a.serve(ctx, o); err != nil {
		return fail("The service has ended", err)
	}
	return 0
}

// completeServe sets what was not said, and checks the rest.
func (a *app) completeServe(o *serveOptions, args []string) error {
	home, homeErr := a.environ.Home()
	under := func(variable string, otherwise ...string) string {
		if dir := a.getenv(variable); dir != "" {
			return filepath.Join(dir, "millipede")
		}
		return filepath.Join(append([]string{home}, otherwise...)...)
	}
	if o.data == "" {
		o.data = under("XDG_DATA_HOME", ".local", "share", "millipede")
	} else {
		homeErr = nil
	}
	if o.keyFile == "" {
		o.keyFile = filepath.Join(under("XDG_CONFIG_HOME", ".config", "millipede"), "service.key")
	}
	for _, path := range []*string{&o.data, &o.keyFile, &o.certFile, &o.certKey} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(a.dir, *path)
		}
	}
	switch {
	case len(args) > 0:
		return fmt.Errorf("the command takes no arguments, and got %q", args)
	case homeErr != nil:
		return fmt.Errorf("name a directory with -data: %w", homeErr)
	case o.plans < 1 || o.applies < 1:
		return errors.New("-plans and -applies must be at least 1")
	case (o.certFile == "") != (o.certKey == ""):
		return errors.New("-tls-cert and -tls-key belong together")
	case o.address != "" && !strings.HasPrefix(o.address, "https://"):
		return errors.New("-address must begin with https://: clients look for the service there alone")
	}
	return nil
}

// serviceKey reads the key that seals the data, or makes it.
func serviceKey(file string) (*seal.Key, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(hex.EncodeToString(seal.NewSecret()) + "\n")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, err
		}
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != seal.Size {
		return nil, fmt.Errorf("the file %s does not hold a key: %d bytes in hexadecimal", file, seal.Size)
	}
	return seal.NewKey(secret)
}

// serve runs the service until it is interrupted.
func (a *app) serve(ctx context.Context, o serveOptions) (err error) {
	key, err := serviceKey(o.keyFile)
	if err != nil {
		return err
	}
	st, err := store.Open(o.data, key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := os.RemoveAll(filepath.Join(o.data, "scratch")); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	cli, err := a.serviceCLI(o.data)
	if err != nil {
		return err
	}
	a.numbers = newNumbers(o.metrics)
	w, err := a.openWorks(ctx, o.data, key, o.slots())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	svc, err := service.New(service.Options{
		Store: st, Floor: floor{w}, Engine: a.serviceEngine(o, key, w, cli), Now: time.Now, Version: version,
		Logger: log, Plans: o.plans,
		Applies:          o.applies,
		MaxConfiguration: maxConfiguration, MaxState: maxState, Host: publicHost(o), Became: a.numbers.became,
	})
	if err != nil {
		return err
	}
	unmeasured, err := a.numbers.listen(ctx, svc, st, w, o.slots(), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unmeasured()) }()
	token, err := svc.Bootstrap("admin", o.organization)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	secure, trust, err := a.certificates(o, key, listener.Addr())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	a.announce(o, listener.Addr(), trust, token)
	sender := notify.New(notify.Options{Service: svc, Address: "https://" + hostOf(o, listener.Addr()),
		Private: o.notifyPrivate, Now: time.Now, Logger: log})
	sending, unsend := context.WithCancel(context.WithoutCancel(ctx))
	sent := make(chan struct{})
	go func() { // awaited below
		defer close(sent)
		sender.Run(sending)
	}()
	defer func() {
		unsend()
		<-sent
	}()
	return a.host(ctx, svc, tls.NewListener(listener, secure), serviceHandler(svc, st, sender, o, log))
}

// publicHost is where clients reach the service; empty when that is not known before it listens.
func publicHost(o serveOptions) string {
	if o.address != "" {
		return strings.TrimSuffix(strings.TrimPrefix(o.address, "https://"), "/")
	}
	if _, port, err := net.SplitHostPort(o.listen); err == nil && port != "0" {
		return "localhost:" + port
	}
	return ""
}

// serviceHandler answers everything that is asked of the service.
func serviceHandler(svc *service.Service, st *store.Store, sender *notify.Sender, o serveOptions,
	log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", tfe.Handler(tfe.Options{
		Service: svc, Address: o.address, Logger: log, Services: map[string]any{"login.v1": login.Discovery()},
		Verify: sender.Verify,
	}))
	mux.Handle("/oauth/", login.Handler(svc, time.Now, log))
	mux.Handle(control.Prefix, control.Handler(svc, log))
	mux.Handle(httpstate.Prefix, httpstate.Handler(svc, maxState, log))
	pages := web.Handler(web.Options{Service: svc, Logger: log})
	for _, path := range web.Paths {
		mux.Handle(path, pages)
	}
	return gate.Handler(mux, gate.Options{Now: time.Now, Logger: log, Ready: func(context.Context) error {
		return st.View(func(*store.Tx) error { return nil })
	}})
}

// host serves until the process is interrupted: then no request is taken any more, runs are stopped as after an
// interrupt, and everything is closed. A second interrupt ends the process.
func (a *app) host(ctx context.Context, svc *service.Service, listener net.Listener, handler http.Handler) error {
	stopping, release := a.interrupts.Stopping, a.interrupts.Hold()
	defer release()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	serving, running := make(chan error, 1), make(chan error, 1)
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx)) // with the tracer of the process
	defer stop()
	go func() { serving <- server.Serve(listener) }()
	go func() { running <- svc.Run(runCtx) }()
	var failed error
	select {
	case <-stopping.Done():
	case failed = <-serving:
		serving <- nil
	}
	stop() // readers of logs hear of it, too
	ended := <-running
	shut, cancel := context.WithTimeout(context.WithoutCancel(stopping), 2*time.Second)
	defer cancel()
	err := server.Shutdown(shut)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if e := <-serving; failed == nil && !errors.Is(e, http.ErrServerClosed) {
		failed = e
	}
	return errors.Join(failed, ended, err)
}

// certificates returns how the service proves who it is, and the file that clients have to trust; empty where they do
// already.
func (a *app) certificates(o serveOptions, key *seal.Key, at net.Addr) (*tls.Config, string, error) {
	// A page has several streams open; over the older protocol a browser allows six for all of its pages.
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if o.certFile != "" {
		pair := &certificatePair{cert: o.certFile, key: o.certKey}
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get() }
		_, err := pair.get()
		return c, "", err
	}
	dir := filepath.Join(o.data, "tls")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	own, err := authority.Open(dir, key, time.Now())
	if err != nil {
		return nil, "", err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(at.String()); err == nil && !net.ParseIP(host).IsUnspecified() {
		hosts = append(hosts, host)
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	if host, _, _ := strings.Cut(strings.TrimPrefix(o.address, "https://"), ":"); host != "" {
		hosts = append(hosts, strings.TrimSuffix(host, "/"))
	}
	certificate, err := own.Issue(hosts, time.Now())
	c.Certificates = []tls.Certificate{certificate}
	return c, own.File(), err
}

// hostOf returns the host under which clients reach the service.
func hostOf(o serveOptions, at net.Addr) string {
	if o.address != "" {
		return strings.TrimSuffix(strings.TrimPrefix(o.address, "https://"), "/")
	}
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		port = ""
	}
	return "localhost:" + port
}

// announce tells where the service is, and what makes a client trust it and log in.
func (a *app) announce(o serveOptions, at net.Addr, trust, token string) {
	host := hostOf(o, at)
	fmt.Fprintf(a.stdout, "Millipede serves https://%s, with its data in %s. A browser shows what goes on there."+
		"\n\nTo have a client trust it, and log in:\n", host, o.data)
	if trust != "" {
		fmt.Fprintf(a.stdout, "  export SSL_CERT_FILE=%s\n", trust)
	}
	fmt.Fprintf(a.stdout, "  tofu login %s\n", host)
	if token != "" {
		fmt.Fprintf(a.stdout, "\nThe administrator is \"admin\". The token, which is shown this once, is also a "+
			"password to log in with:\n  %s\n", token)
	}
	fmt.Fprintln(a.stdout)
}

// serviceEngine carries out the phases of runs.
func (a *app) serviceEngine(o serveOptions, key *seal.Key, w *works, cli *cliconfig.Config) *engine.Engine {
	return engine.New(engine.Options{
		Environ: a.serviceEnviron(), Parallelism: o.parallelism.value, EngineVersion: engineVersion, Now: time.Now,
		Unpack: unpacking.Module, Observe: a.numbers.observe(),
		Open: func(p engine.Place) *estate.Estate { return a.phaseEstate(p, key, w, cli) },
	})
}
