// Package serving runs the service in this process: it opens the data, listens, and executes runs with an embedded
// worker, or with the workers of a NATS server.
//
// It only connects the packages below service, and makes none of their decisions.
package serving

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/confined"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/unpacking"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/authority"
	"github.com/millipede-iac/millipede/service/control"
	"github.com/millipede-iac/millipede/service/engine"
	"github.com/millipede-iac/millipede/service/gate"
	"github.com/millipede-iac/millipede/service/httpstate"
	"github.com/millipede-iac/millipede/service/issuer"
	"github.com/millipede-iac/millipede/service/login"
	"github.com/millipede-iac/millipede/service/notify"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tfe"
	"github.com/millipede-iac/millipede/service/web"
	"github.com/millipede-iac/millipede/state/seal"
)

// The maximum sizes of uploads, in bytes.
const (
	maxConfiguration = 512 << 20
	maxState         = 512 << 20
)

// DefaultPlanSize and maxPlanSize bound what is stored of a plan, in MiB.
const (
	DefaultPlanSize = 512
	maxPlanSize     = 1023 // what one message of an engine can have
)

// maxEngines is the maximum number of engines.
const maxEngines = 256

// leastEngineMemory is the least memory of an engine, in MiB.
const leastEngineMemory = service.LeastPlanMemory

// Options are the options of the command, and the parts of the process that the service uses.
type Options struct {
	// Listen is the address to listen at. Address is the URL for clients if it differs from that address.
	Listen, Address string
	// Data is a directory. KeyFile, CertFile and CertKey are files.
	Data, KeyFile, CertFile, CertKey string
	// Organization is the name of the organization that the first start creates.
	Organization string
	// Plans and Applies are the maximum numbers of plans and applies in progress. Parallelism limits the operations of
	// each of them.
	Plans, Applies int
	Parallelism    placement.Parallelism
	// Engines is the number of processes that evaluate configurations; with 0, this process does it.
	Engines int
	// EngineMemory bounds the memory of each of them, in MiB; 0 for no bound.
	EngineMemory int64
	// PlanTime is how long a plan may take; 0 is no bound. PlanSize bounds what is stored of it, in MiB.
	PlanTime time.Duration
	PlanSize int64
	// ProgramProcesses and ProgramFileSize limit the programs of runs: how many processes and threads the user of the
	// service may have when they start another one, and the size of each file that they write, in MiB. 0 is no limit.
	ProgramProcesses, ProgramFileSize int64
	// Readable and Writable are files, and directories with everything below them, that runs may read, and change.
	Readable, Writable []string
	// Group is the name of the group whose log has all commits; empty for none. Member is the name of this process in it,
	// by default that of the machine, and MemberAddress where other members reach it: HOST or HOST:PORT, by default the
	// host of Listen, or the machine.
	Group, Member, MemberAddress string
	// WatchReads is the maximum number of objects that are read at the same time to detect drift.
	WatchReads int
	// Retention determines which ended runs and old state versions are kept.
	Retention record.Retention
	// TrustedProxies are the addresses, or ranges of addresses, of proxies whose X-Forwarded-For names the client.
	TrustedProxies string
	proxies        gate.Proxies
	// Metrics is the address at which Prometheus can scrape metrics; empty for none.
	Metrics string
	// OpenIDIssuer is the address of the OpenID provider with which people log in; empty for none. OpenIDClient and the
	// secret in OpenIDSecretFile are the credentials of the service there. OpenIDGroups is the claim that lists the
	// groups of a person.
	OpenIDIssuer, OpenIDClient, OpenIDSecretFile, OpenIDGroups string
	// NotifyPrivate allows notifications to addresses that are not public.
	NotifyPrivate bool
	// MailServer sends notifications by mail from MailFrom; see notify.ParseMail. Empty for none.
	MailServer, MailFrom, MailPasswordFile string

	// Environ and Dir are the environment and the working directory of the process.
	Environ environ.Variables
	Dir     string
	// Out receives the instructions for people at the start, Log the log of the service. Tell shows a text immediately.
	// Watched says that Out is a terminal, so that its text is not kept in a journal or a file.
	Out     io.Writer
	Watched bool
	Log     *slog.Logger
	Tell    func(text string)
	// LogLevel and LogFormat are the options of Log, and Stderr is where engines write theirs.
	LogLevel, LogFormat string
	Stderr              io.Writer
	// Version is the version of the program, EngineVersion that of the OpenTofu whose behaviour it has.
	Version, EngineVersion string
	// Stop is requested by signals. Hold keeps the first signal from ending the process until release is called.
	Stop operation.Stop
	Hold func() (release func())
	// CLI and Services are the CLI configuration of the user, and the hosts that it names.
	CLI      *cliconfig.Config
	Services *services.Services
	// Connector connects to NATS and to workers. Its logs are those of the embedded worker.
	Connector *adapters.Connector
	// Who returns the name of the user who runs the service.
	Who func() string
}

// slots is the number of operations that the embedded worker carries out at a time. It is so large that only the limits
// of the runs matter.
func (o *Options) slots() int {
	return max(adapters.Slots, (o.Plans+o.Applies)*(&placement.Rules{}).Slots(o.Parallelism)) + o.WatchReads
}

// Complete sets defaults for missing options, and checks the others. args are the arguments of the command, which takes
// none.
func (o *Options) Complete(args []string) error {
	home, homeErr := o.Environ.Home()
	under := func(variable string, otherwise ...string) string {
		if dir := o.Environ.Get(variable); dir != "" {
			return filepath.Join(dir, "millipede")
		}
		return filepath.Join(append([]string{home}, otherwise...)...)
	}
	if o.Data == "" {
		o.Data = under("XDG_DATA_HOME", ".local", "share", "millipede")
	} else {
		homeErr = nil
	}
	if o.KeyFile == "" {
		o.KeyFile = filepath.Join(under("XDG_CONFIG_HOME", ".config", "millipede"), "service.key")
	}
	for _, path := range []*string{&o.Data, &o.KeyFile, &o.CertFile, &o.CertKey, &o.OpenIDSecretFile,
		&o.MailPasswordFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(o.Dir, *path)
		}
	}
	for _, list := range [][]string{o.Readable, o.Writable} {
		for i, path := range list {
			list[i] = environ.Path(o.Dir, path)
		}
	}
	if o.Group != "" && o.Member == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name this member of the group with -member: %w", err)
		}
		o.Member = strings.ToLower(name)
	}
	proxies, err := gate.ParseProxies(o.TrustedProxies)
	o.proxies = proxies
	switch {
	case err != nil:
		return fmt.Errorf("-trusted-proxies: %w", err)
	case len(args) > 0:
		return fmt.Errorf("the command takes no arguments, and got %q", args)
	case homeErr != nil:
		return fmt.Errorf("name a directory with -data: %w", homeErr)
	case o.Plans < 1 || o.Applies < 1:
		return errors.New("-plans and -applies must be at least 1")
	case o.Engines < 0 || o.Engines > maxEngines:
		return fmt.Errorf("-engines must be from 0 to %d", maxEngines)
	case o.EngineMemory != 0 && (o.EngineMemory < leastEngineMemory || o.EngineMemory > 1<<30):
		return fmt.Errorf("-engine-memory must be 0, or at least %d: an engine needs that for small runs", leastEngineMemory)
	case o.EngineMemory != 0 && (o.Engines == 0 || !separate):
		return errors.New("-engine-memory bounds the processes of -engines, and there are none")
	case o.PlanTime < 0 || o.PlanTime > 0 && o.PlanTime < time.Second:
		return errors.New("-plan-time must be 0 for no bound, or at least 1s")
	case o.PlanSize < 1 || o.PlanSize > maxPlanSize:
		return fmt.Errorf("-plan-size must be from 1 to %d", maxPlanSize)
	case o.ProgramProcesses < 0 || o.ProgramFileSize < 0 || o.ProgramFileSize > 1<<30:
		return errors.New("-program-processes and -program-file-size must be 0 for no limit, or positive")
	case o.Group == "" && (o.Member != "" || o.MemberAddress != ""):
		return errors.New("-member and -member-address belong to -group")
	case o.Group != "" && (o.Engines == 0 || !separate):
		return errors.New("-group needs engines that are processes of their own: another member takes their work over")
	case o.WatchReads < 1 || o.WatchReads > 10_000:
		return errors.New("-watch-reads must be from 1 to 10000")
	case o.Retention.Runs < 0 || o.Retention.States < 0 || o.Retention.For < 0:
		return errors.New("-keep-runs, -keep-states and -keep-for must not be negative")
	case (o.CertFile == "") != (o.CertKey == ""):
		return errors.New("-tls-cert and -tls-key belong together")
	case o.Address != "" && !strings.HasPrefix(o.Address, "https://"):
		return errors.New("-address must begin with https://: clients look for the service there alone")
	case o.OpenIDIssuer != "" && (o.OpenIDClient == "" || o.OpenIDSecretFile == ""):
		return errors.New("-oidc-issuer needs -oidc-client and -oidc-secret-file: what the provider knows the service by")
	case o.OpenIDIssuer == "" && (o.OpenIDClient != "" || o.OpenIDSecretFile != ""):
		return errors.New("-oidc-client and -oidc-secret-file belong to -oidc-issuer")
	case o.OpenIDIssuer != "" && publicHost(*o) == "":
		return errors.New("-oidc-issuer needs -address, or a port in -listen: the provider sends people back there")
	case o.MailServer == "" && (o.MailFrom != "" || o.MailPasswordFile != ""):
		return errors.New("-smtp-from and -smtp-password-file belong to -smtp")
	}
	return nil
}

// programs returns the limits of the programs of runs.
func (o *Options) programs() confined.Limits {
	return confined.Limits{Processes: o.ProgramProcesses, FileSize: o.ProgramFileSize << 20}
}

// serviceKey reads the key that encrypts the data, or creates it.
func serviceKey(file string) (*seal.Key, error) {
	secret, err := serviceSecret(file)
	if err != nil {
		return nil, err
	}
	return seal.NewKey(secret)
}

// serviceSecret reads the secret of that key, or creates it.
func serviceSecret(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(hex.EncodeToString(seal.NewSecret()) + "\n")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, err
		}
		err = wholefile.Durable(file, wholefile.Private, wholefile.Bytes(text)) // before anything is encrypted with it
	}
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != seal.Size {
		return nil, fmt.Errorf("the file %s does not hold a key: %d bytes in hexadecimal", file, seal.Size)
	}
	return secret, nil
}

// Restore creates the data directory of a service from a backup. keyFile has the key of the service that made the
// backup.
func Restore(in io.Reader, data, keyFile string) error {
	if _, err := os.Stat(keyFile); err != nil {
		return err // a new key could not decrypt the backup
	}
	key, err := serviceKey(keyFile)
	if err != nil {
		return err
	}
	return store.Restore(in, data, key)
}

// serving is a service that runs in this process.
type serving struct {
	Options
	instruments *instruments
	hashes      *providers.Hashes // of the packages that runs use
	temp        string            // the directory for temporary files of runs; empty if they are not confined
}

// StartError is the error of a service that could not start, and has answered no request.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// Serve runs the service until it is interrupted. The options are complete. If the service cannot start, the error is a
// *StartError.
func Serve(ctx context.Context, o Options) (err error) {
	started := false
	defer func() {
		if err != nil && !started {
			err = &StartError{err}
		}
	}()
	if o.Group != "" {
		return serveMember(ctx, o, func() { started = true })
	}
	s := newServing(o)
	key, err := serviceKey(o.KeyFile)
	if err != nil {
		return err
	}
	st, err := store.OpenOptions(o.Data, key, store.Options{Program: o.Version})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return s.serve(ctx, &served{st: st, key: key, run: func(ctx context.Context, v *served) error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
		if err != nil {
			return err
		}
		secure, trust, err := s.certificates(o, key, listener.Addr())
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		handler, end, err := v.begin(listener.Addr())
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer end()
		started = true
		s.announce(o, listener.Addr(), trust, v.token)
		return s.host(ctx, v.svc, tls.NewListener(listener, secure), handler)
	}})
}

func newServing(o Options) *serving {
	return &serving{Options: o, hashes: providers.NewHashes(time.Now)}
}

// served is a service over open records. Its parts are valid while run is running.
type served struct {
	st    *store.Store
	key   *seal.Key
	group *groupLog // nil for none
	// members are what operators may ask of the group; nil for none.
	members service.Group
	// run is called when everything is ready. It calls begin, and has the runs executed.
	run func(ctx context.Context, v *served) error

	svc     *service.Service
	engines engines
	// messages says since when NATS has not answered; empty while it does.
	messages func() string
	token    string // the first one of the administrator; empty if there was one before
	// begin starts the engines, and returns the handler of all requests to a service that listens at an address. The
	// caller calls end before run returns.
	begin func(at net.Addr) (handler http.Handler, end func(), err error)
}

// describe says what the service consists of, for the page of administrators.
func (v *served) describe() web.Engines {
	e := v.engines.describe()
	if v.members != nil {
		e.Members, _ = v.svc.Members.All() // what the records do not tell, those that answer do
	}
	return e
}

// serve makes a service over open records, and calls v.run with it.
func (s *serving) serve(ctx context.Context, v *served) (err error) {
	o := s.Options
	mail, err := o.mail()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(o.Data, "scratch")); err != nil {
		return err
	}
	cli, err := serviceCLI(s.CLI, o.Data)
	if err != nil {
		return err
	}
	unconfine, err := s.confine()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unconfine()) }()
	s.instruments = newInstruments(o.Metrics, o.Version, !s.apart())
	w, err := s.openConnection(ctx, o.Data, v.key, o.slots())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, text := range w.Warnings(ctx) {
		s.Log.Warn(text)
	}
	stores := newSealedStores(o.Data, v.key)
	stores.program, stores.level = o.Version, func() int { return v.st.Features().Level }
	stores.group = v.group
	v.engines = s.engines(v.st, w, stores, v.key, cli)
	defer func() { err = errors.Join(err, v.engines.close()) }()
	regions := watchRegions(w)
	v.svc, err = service.New(service.Options{
		Store: v.st, Homes: stores, Group: v.members, Capacity: capacity{w, v.engines.drain, regions},
		Engine: v.engines.engine, Apart: v.engines.apart,
		Now: time.Now, Version: s.Version,
		Logger: s.Log, Plans: o.Plans,
		Applies: o.Applies, WatchReads: o.WatchReads, Retention: o.Retention, Mail: mail != nil,
		MaxConfiguration: maxConfiguration, MaxState: maxState, Host: publicHost(o), Became: s.instruments.countStatus,
		Bounds: record.Bounds{PlanTime: o.PlanTime, PlanMemory: o.EngineMemory, PlanSize: o.PlanSize},
	})
	if err != nil {
		return err
	}
	s.instruments.readGroup(v)
	unmeasured, err := s.instruments.listen(ctx, v.svc, v.st, w, o.slots(), s.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unmeasured()) }()
	defer beside(ctx, v.st.Watch)()
	defer beside(ctx, regions.run)()
	messages := &answering{ask: w.Conn.Storing, now: time.Now, log: s.Log}
	defer beside(ctx, messages.watch)()
	v.messages = messages.fact
	defer beside(ctx, func(ctx context.Context) { v.group.purge(ctx, stores) })()
	if v.token, err = v.svc.Users.Bootstrap("admin", o.Organization); err != nil {
		return err
	}
	v.begin = func(at net.Addr) (http.Handler, func(), error) {
		entry, err := o.entry(v.svc.Logins, s.Log)
		if err != nil {
			return nil, nil, err
		}
		v.engines.start()
		sender := notify.New(notify.Options{Notifications: v.svc.Notifications, Address: "https://" + hostOf(o, at),
			Private: o.NotifyPrivate, Mail: mail, Now: time.Now, Logger: s.Log})
		return serviceHandler(v, sender, entry, o), beside(ctx, sender.Run), nil
	}
	return v.run(ctx, v)
}

// beside calls fn in another goroutine. end ends its context, and waits for it.
func beside(ctx context.Context, fn func(context.Context)) (end func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fn(running)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// entry returns the options for logging in.
func (o *Options) entry(logins *accounts.Logins, log *slog.Logger) (login.Options, error) {
	entry := login.Options{Logins: logins, Now: time.Now, Logger: log}
	if o.OpenIDIssuer == "" {
		return entry, nil
	}
	secret, err := os.ReadFile(o.OpenIDSecretFile)
	if err != nil {
		return entry, fmt.Errorf("reading the secret for the provider of identities: %w", err)
	}
	entry.Provider = &login.Provider{Issuer: o.OpenIDIssuer, Client: o.OpenIDClient,
		Secret: strings.TrimSpace(string(secret)), Groups: o.OpenIDGroups, Organization: o.Organization,
		Address: "https://" + publicHost(*o)}
	entry.Session = func(w http.ResponseWriter, r *http.Request, user, to string) error {
		return web.BeginSession(logins, w, r, user, to)
	}
	return entry, nil
}

// mail returns the mail server; nil for none.
func (o *Options) mail() (*notify.Mail, error) {
	if o.MailServer == "" {
		return nil, nil
	}
	var password []byte
	if o.MailPasswordFile != "" {
		var err error
		if password, err = os.ReadFile(o.MailPasswordFile); err != nil {
			return nil, fmt.Errorf("-smtp-password-file: reading the password for the mail server: %w", err)
		}
	}
	m, err := notify.ParseMail(o.MailServer, o.MailFrom, strings.TrimSpace(string(password)))
	if err != nil {
		return nil, fmt.Errorf("-smtp: %w", err)
	}
	return m, nil
}

// publicHost returns the host and port under which clients reach the service; empty if they are unknown before the
// service listens.
func publicHost(o Options) string {
	if o.Address != "" {
		return strings.TrimSuffix(strings.TrimPrefix(o.Address, "https://"), "/")
	}
	if _, port, err := net.SplitHostPort(o.Listen); err == nil && port != "0" {
		return "localhost:" + port
	}
	return ""
}

// serviceHandler returns the handler of all requests to the service.
func serviceHandler(v *served, sender *notify.Sender, entry login.Options, o Options) http.Handler {
	log, svc := entry.Logger, v.svc
	shown := web.Options{Service: svc, Logger: log, Engines: v.describe}
	if entry.Provider != nil {
		shown.Elsewhere = login.Begin
	}
	pages := web.Handler(shown)
	mux := http.NewServeMux()
	mux.Handle("/", pages) // which say that there is nothing
	api := tfe.Handler(tfe.Options{
		Service: svc, Address: o.Address, Logger: log, Services: map[string]any{"login.v1": login.Discovery()},
		Verify: sender.Verify,
	})
	for _, path := range tfe.Paths {
		mux.Handle(path, api)
	}
	provable := issuer.Handler(svc.Identity, log)
	mux.Handle(issuer.Discovery, provable)
	mux.Handle(issuer.Keys, provable)
	mux.Handle("/oauth/", login.Handler(entry))
	mux.Handle(control.Prefix, control.Handler(svc, log))
	mux.Handle(httpstate.Prefix, httpstate.Handler(svc, log))
	return gate.Handler(mux, gate.Options{Now: time.Now, Logger: log, Ready: func(context.Context) error {
		return v.st.View(func(*store.Tx) error { return nil })
	}, Facts: func() string { return strings.TrimSpace(v.messages() + "\n" + confinementOf(o)) },
		Secret: tfe.SecretPaths, Proxies: o.proxies, Secure: o.ownName(),
		Known: func(r *http.Request) bool { return known(svc.Tokens, r) }})
}

// ownName reports whether clients reach the service by a name of its own: not one like localhost, which other programs
// share, nor an address, for which browsers have no such rule.
func (o *Options) ownName() bool {
	host := publicHost(*o)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return o.Address != "" && host != "localhost" && !strings.HasSuffix(host, ".localhost") && net.ParseIP(host) == nil
}

// known reports whether a request has a valid token, wherever its interface expects it.
func known(tokens *accounts.Tokens, r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	_, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for _, token := range []string{password, strings.TrimSpace(bearer), web.Session(r)} {
		if _, err := tokens.Authenticate(token, r.RemoteAddr); err == nil {
			return true
		}
	}
	return false
}

// host answers requests and executes runs until the process is interrupted. Then it accepts no more requests, stops the
// runs as an interrupt stops a command, and closes everything. A second interrupt ends the process.
func (s *serving) host(ctx context.Context, svc *service.Service, listener net.Listener, handler http.Handler) error {
	stopping, release := s.Stop.Stopping, s.Hold()
	defer release()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn)} // such as handshakes that fail
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
	stop() // this also ends the responses of clients that follow logs
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

// certificates returns the TLS configuration, and the file with the authority that clients have to trust; empty if the
// operator has provided the certificate.
func (s *serving) certificates(o Options, key *seal.Key, at net.Addr) (*tls.Config, string, error) {
	// A page has several streams open. With HTTP/1.1, a browser allows only six connections for all of its pages.
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if o.CertFile != "" {
		pair := &certificatePair{cert: o.CertFile, key: o.CertKey}
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get() }
		_, err := pair.get()
		return c, "", err
	}
	dir := filepath.Join(o.Data, "tls")
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
	if host, _, _ := strings.Cut(strings.TrimPrefix(o.Address, "https://"), ":"); host != "" {
		hosts = append(hosts, strings.TrimSuffix(host, "/"))
	}
	certificate, err := own.Issue(hosts, time.Now())
	c.Certificates = []tls.Certificate{certificate}
	return c, own.File(), err
}

// serviceEngine returns the engine that executes the phases of runs in this process.
func (s *serving) serviceEngine(o Options, key *seal.Key, w *sharedConnection, cli *cliconfig.Config,
	stores *sealedStores) *engine.Engine {
	return engine.New(engine.Options{
		Environ: s.runEnviron(), Parallelism: o.Parallelism, EngineVersion: s.EngineVersion, Now: time.Now,
		Unpack: unpacking.Module, Connected: w.Conn.Connected, Observe: observed(s.instruments.observeRun(), s.Log),
		Open: func(p engine.Place) *estate.Estate { return s.phaseEstate(p, key, w, cli, stores) },
	})
}
