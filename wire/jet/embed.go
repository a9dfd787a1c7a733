package jet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/millipede-iac/millipede/internal/filelock"
)

const (
	// embeddedMaxPayload is the largest message of an embedded server, in bytes.
	embeddedMaxPayload = 8 << 20
	lockName           = "lock"
	// lockTimeout is how long Embed waits for a directory that another process has locked.
	lockTimeout = 2 * time.Second
	lockEvery   = 5 * time.Millisecond
)

// LockedError says that another process has the store directory open.
type LockedError struct {
	Dir string
	// Holder is the ID of the other process, as it wrote it; empty if that cannot be read.
	Holder string
}

func (e *LockedError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("another process uses the message store in %s", e.Dir)
	}
	return fmt.Sprintf("another process (pid %s) uses the message store in %s", e.Holder, e.Dir)
}

// Embedded is a NATS server inside this process. It opens no port: only Connect reaches it. Close it after its
// connections.
type Embedded struct {
	dir      string
	log      func(line string)
	lock     *os.File
	volatile bool // the streams are in memory

	broken chan struct{} // buffers one event: the server has given up writing; see recoverWrites
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex     // guards the fields below
	server  *server.Server // nil while it is being opened again
	trouble error
	conns   int
}

// Embed starts a server with its streams in dir, which is created (0700) and locked. Every write is on the disk before
// it is acknowledged. log receives the server's warnings and errors; nil drops them. It returns a *LockedError if
// another process uses dir. Close the server.
func Embed(dir string, log func(line string)) (*Embedded, error) {
	if log == nil {
		log = func(string) {}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the message store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if err := dropUnmade(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	e := &Embedded{dir: dir, log: log, lock: lock, broken: make(chan struct{}, 1)}
	ns, err := startServer(dir, log, e.failed)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the embedded NATS server in %s: %w", dir, err), lock.Close())
	}
	e.server = ns
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.group.Go(func() { e.recoverWrites(ctx) })
	return e, nil
}

// EmbedVolatile starts a server with its streams in memory, for commands that leave nothing behind: acknowledged data
// is lost when the process ends. It uses dir as Embed does.
func EmbedVolatile(dir string, log func(line string)) (*Embedded, error) {
	e, err := Embed(dir, log)
	if e != nil {
		e.volatile = true
	}
	return e, err
}

// lockDir locks dir, because the server does not, and two servers on one store destroy it.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the message store: %w", err)
	}
	// A process that has released the lock of its state may still be exiting: see Retire.
	for until := time.Now().Add(lockTimeout); ; time.Sleep(lockEvery) { //nolint:forbidigo // a lock does not announce that it is free
		if err = filelock.Try(f); !errors.Is(err, filelock.ErrLocked) || time.Now().After(until) {
			break
		}
	}
	if errors.Is(err, filelock.ErrLocked) {
		holder, readErr := os.ReadFile(path)
		if readErr != nil {
			holder = nil // the message does without
		}
		return nil, errors.Join(&LockedError{Dir: dir, Holder: strings.TrimSpace(string(holder))}, f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the message store in %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// startServer starts a server over dir. failed takes the lines of its log that say that it has given up writing.
func startServer(dir string, log, failed func(line string)) (*server.Server, error) {
	ns, err := server.NewServer(&server.Options{
		ServerName: "millipede-embedded",
		DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true,
		JetStream: true, StoreDir: dir, SyncAlways: true, DisableJetStreamBanner: true,
		MaxPayload:   embeddedMaxPayload,
		MaxPending:   256 << 20, // of one connection: many large results at once
		PingInterval: 2 * time.Second, MaxPingsOut: 2,
		WriteDeadline: 4 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	logger := &lineLogger{log: log, failed: failed}
	ns.SetLoggerV2(logger, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(10*time.Second) || !ns.JetStreamEnabled() {
		ns.Shutdown()
		ns.WaitForShutdown()
		if reason := logger.fatal(); reason != "" {
			return nil, errors.New(reason)
		}
		return nil, errors.New("it did not become ready")
	}
	return ns, nil
}

// Connect opens a connection to the server. The URL and the credentials of o are not used; Provision is implied.
func (e *Embedded) Connect(ctx context.Context, o Options) (*Conn, error) {
	o.URL, o.inProcess, o.Provision, o.Replicas, o.volatile = "", e, true, 1, e.volatile
	o.trouble = e.Trouble
	o.CredentialsFile, o.NKeyFile, o.User, o.Password, o.Token = "", "", "", "", ""
	o.CAFile, o.CertificateFile, o.KeyFile = "", "", ""
	c, err := Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns++
	c.onClose = sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.conns--
	})
	return c, nil
}

// Join opens a connection to the embedded server of another process. dial connects to it, and trouble returns why it
// cannot store messages at the moment. The URL and the credentials of o are not used; Provision is implied.
func Join(ctx context.Context, dial func() (net.Conn, error), trouble func() error, o Options) (*Conn, error) {
	o.URL, o.inProcess, o.Provision, o.Replicas, o.trouble = "", dialer(dial), true, 1, trouble
	return Connect(ctx, o)
}

// dialer implements nats.InProcessConnProvider.
type dialer func() (net.Conn, error)

// InProcessConn implements nats.InProcessConnProvider.
func (d dialer) InProcessConn() (net.Conn, error) { return d() }

// Retire cleans up before the process ends: when all connections are closed it empties the registers of finished runs,
// because no worker is left that could claim one. The server keeps running, and the directory stays locked, until the
// process has ended.
//
// Stopping a server takes some 10 ms for each consumer, which is most of the time of a small command, and gains
// nothing: acknowledged data is on the disk. A server that ends with its process forgets only, like a killed one, which
// messages it had delivered, and a summary of its files, which the next start makes again.
func (e *Embedded) Retire() error {
	e.cancel()
	e.group.Wait()
	return e.tidy()
}

// Close stops the server and unlocks the directory. It calls Retire first if that was not called.
func (e *Embedded) Close() error {
	e.cancel()
	e.group.Wait()
	err := e.tidy()
	if e.server != nil {
		e.server.Shutdown()
		e.server.WaitForShutdown()
	}
	return errors.Join(err, e.lock.Close())
}

// InProcessConn implements nats.InProcessConnProvider.
func (e *Embedded) InProcessConn() (net.Conn, error) {
	ns, err := e.running()
	if err != nil {
		return nil, err
	}
	return ns.InProcessConn()
}

func (e *Embedded) tidy() error {
	e.mu.Lock()
	busy := e.conns > 0 || e.trouble != nil || e.server == nil
	e.mu.Unlock()
	if busy {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := e.Connect(ctx, Options{Name: "tidy"})
	if err != nil {
		return err
	}
	return errors.Join(c.purger.emptyAllRegisters(ctx, 0), c.Close())
}

// lineLogger passes warnings and errors on, and records why the server has stopped writing.
type lineLogger struct {
	log, failed func(string)

	mu   sync.Mutex // guards last
	last string
}

func (l *lineLogger) Noticef(string, ...any) {}
func (l *lineLogger) Debugf(string, ...any)  {}
func (l *lineLogger) Tracef(string, ...any)  {}

// slowness has the beginnings of warnings that only say how long something took. On a busy machine the server has many,
// nobody can act on them, and wrappers of the command line would show them as part of a plan.
var slowness = []string{"Internal subscription on ", "Readloop processing time", "Producer was stalled"}

func (l *lineLogger) Warnf(format string, v ...any) {
	if slices.ContainsFunc(slowness, func(begin string) bool { return strings.HasPrefix(format, begin) }) {
		return
	}
	l.log("NATS server: " + fmt.Sprintf(format, v...))
}
func (l *lineLogger) Errorf(format string, v ...any) { l.keep(fmt.Sprintf(format, v...)) }
func (l *lineLogger) Fatalf(format string, v ...any) { l.keep(fmt.Sprintf(format, v...)) }

func (l *lineLogger) keep(line string) {
	l.mu.Lock()
	l.last = line
	l.mu.Unlock()
	l.log("NATS server: " + line)
	if writeFailed(line) {
		l.failed(line)
	}
}

func (l *lineLogger) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
