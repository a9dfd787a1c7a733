// Package estate opens one configuration in one directory with everything that belongs to it: its store and its
// snapshot, its backend, its locks, its providers, its workers, its saved plans and its runs.
//
// It returns data and diagnostics. It prints nothing, ends no process, and knows no adapter: who opens stores, connects
// to workers and answers questions is injected. Any number of estates can be open in one process.
package estate

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/bounds"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/provider/install"
	"github.com/millipede-iac/millipede/provider/services"
	"github.com/millipede-iac/millipede/state/encryption"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
	"github.com/millipede-iac/millipede/wire"
)

// Options are what an estate takes from the process that opens it. Fields without a default are required.
type Options struct {
	// Dir is the absolute directory of the configuration, where relative names start. Here tells that the process works
	// there, so that files are opened by the names that people know.
	Dir  string
	Here bool
	// Home is where what is Millipede's own lies; nil for where the environment says, in the directory by default.
	Home *layout.Directory
	// Backend keeps the snapshot in place of what the configuration says; nil for that.
	Backend snapshot.Backend
	// Seeds seals the seed of the coordinator's key pair; nil leaves that to the encryption of the state.
	Seeds Sealer
	// Cwd is what path.cwd shows; empty is Dir.
	Cwd string
	// Temp is where temporary directories are made.
	Temp string
	// Environ is the environment of what is done.
	Environ environ.Variables
	// Isolated: plugins and provisioners see Environ and nothing else. Otherwise they have their worker's environment,
	// and what millipede.hcl sends along.
	Isolated bool
	// Brought is, with Isolated, what workers elsewhere get of Environ, on top of their own: those variables that are
	// about what is done, and not about the machine where the coordinator is. Nil is Environ, and nothing of their own.
	Brought environ.Variables
	// Version is that of Millipede, EngineVersion that of OpenTofu whose behaviour it has.
	Version, EngineVersion string
	// Platform is the operating system and the processor, such as linux_amd64.
	Platform string
	// Who returns who holds the locks, and PID is the process.
	Who func() string
	PID int

	Now   func() time.Time
	NewID func() string // makes ids that are unique for ever

	Stores    Stores
	Connector Connector
	// Own returns what answers the tasks that only the coordinator's process can, by reading states of others.
	Own func(builtin.StateReader, builtin.ConfigCheck) func(context.Context, *wire.Task) *wire.Result
	// Reattached returns the providers that run already, and what each is called in place of a version.
	Reattached func() (map[addr.Provider]string, error)
	// Compute is that of coordinator.Options; may be nil.
	Compute  func(vertex int, fn func())
	CLI      *cliconfig.Config
	Services *services.Services
	// Memory holds the snapshots of inmem backends: they end with the process.
	Memory *snapshot.Memory

	// Stop is what ends operations early; Process is how the estate affects the process.
	Stop    operation.Stop
	Process Process
	// Ask is asked for the values of variables; nil where nobody can be asked.
	Ask func(*config.Variable) (string, error)
	// Tell says something to people while an operation goes on.
	Tell func(text string)
	// Use says what the estate is opened for.
	Use Use
	// AnyVersion has services take states whatever version of OpenTofu a workspace is for.
	AnyVersion bool
}

// Sealer seals and opens a key. *encryption.Target is one.
type Sealer interface {
	Seal(ctx context.Context, key []byte) ([]byte, error)
	// Open opens what Seal has returned; stale tells that it would be sealed in another way now. valid is for what was
	// never sealed; it may be nil.
	Open(ctx context.Context, sealed []byte, valid func() error) (key []byte, stale bool, err error)
}

// Use says what an estate is opened for, as far as that matters to how it is opened.
type Use struct {
	// LooksOnly: an engine is opened, and nothing is changed. The key of an encrypted state is not asked for then only
	// to write the coordinator's identity.
	LooksOnly bool
	// ShowsMethods: warnings about encryption methods that leave everything in the clear are wanted.
	ShowsMethods bool
	// ClearFiles: state files that are named are never encrypted.
	ClearFiles bool
	// Unreadable is what is said of a state that cannot be decrypted.
	Unreadable Unreadable
}

// Unreadable is the summary of the problem that a state cannot be decrypted; the zero value has one for every use.
type Unreadable struct {
	// Summary takes the place of the usual one; Named has the reason follow behind a colon.
	Summary string
	Named   bool
	// Own takes the summary that the backend gives.
	Own bool
}

// Process is how an estate affects the process that it is opened in.
type Process interface {
	// Hold keeps a first request to stop from ending the process until release is called.
	Hold() (release func())
	// AtEnd has fn called when the process is ended at once; its context ends soon. forget takes that back.
	AtEnd(fn func(context.Context)) (forget func())
	// Demand asks for a stop, for a reason that people are told.
	Demand(reason string)
	// Say has tell speak to people about interrupts, until the returned function is called.
	Say(tell func(text string)) (back func())
}

// Stores opens the stores of workspaces.
type Stores interface {
	// Open opens a store, or creates it. The error is *journal.Held while another process has it for longer than the
	// timeout.
	Open(path string, info journal.LockInfo, timeout time.Duration, o StoreOptions) (Store, error)
	// Copy copies a store that no process has open: else the error is *journal.Held.
	Copy(path, to string) error
}

// StoreOptions say how to open a store.
type StoreOptions struct {
	// Target encrypts the store's key; nil leaves the store in the clear.
	Target *encryption.Target
	// Volatile: the store goes with the process, so nothing has to be durable.
	Volatile bool
}

// Store is an opened store.
type Store interface {
	journal.Store
	layout.Source
	// Split writes the store of each workspace to the file that storeOf names.
	Split(storeOf func(workspace string) string) error
}

// Connector connects estates to a transport with workers.
type Connector interface {
	// Connect connects. home is where an embedded server and its worker live; nil: in a temporary directory.
	Connect(ctx context.Context, o ConnectOptions) (Connection, diag.List)
	// Elsewhere tells whether the workers are those of a server, so that they outlive this process.
	Elsewhere(rules *placement.Rules) bool
}

// ConnectOptions say what to connect.
type ConnectOptions struct {
	Rules    *placement.Rules
	Home     *layout.Home
	Packages map[addr.Provider]install.Package
}

// Connection is a transport with what was started for it.
type Connection interface {
	Transport() wire.Transport
	// Embedded tells that the workers are in this process.
	Embedded() bool
	// Joint is what the estates share that use the connection at the same time; nil where it is this estate's alone.
	Joint() *Joint
	// Warnings say what is not safe about the server's streams.
	Warnings(ctx context.Context) []string
	// Close finishes what embedded workers hold, and ends what was started.
	Close() diag.List
}

// Joint is what all estates share that use one connection.
type Joint struct {
	// Hub is what their runs are carried out over, in one coordinator's name.
	Hub *hub.Hub
	// Pair is the key pair of that coordinator. It has to be the same after a crash, for runs that are resumed.
	Pair nkeys.KeyPair
}

// Estate is one configuration with everything that belongs to it. Its methods are not safe for concurrent use; estates
// do not affect each other.
type Estate struct {
	Options
	sealing *encryption.Encryption // what encrypts states and plans, once it is set up
	// services are the backends that are services: they are found and asked for their organization once.
	services map[string]snapshot.Backend
}

// New returns the estate of a directory. Nothing is opened yet.
func New(o Options) *Estate {
	if o.Process == nil {
		o.Process = alone{}
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	return &Estate{Options: o}
}

// alone is the Process of estates whose process goes on whatever becomes of them.
type alone struct{}

func (alone) Hold() func()                        { return func() {} }
func (alone) AtEnd(func(context.Context)) func()  { return func() {} }
func (alone) Demand(string)                       {}
func (alone) Say(func(text string)) (back func()) { return func() {} }

// base is where names start that are opened; empty is where the process works.
func (e *Estate) base() string {
	if e.Here {
		return ""
	}
	return e.Dir
}

// path returns where a name of the estate is.
func (e *Estate) path(name string) string {
	if e.Here || name == "" {
		return name
	}
	return environ.Path(e.Dir, name)
}

// read reads a file of the estate. Errors name it as people do.
func (e *Estate) read(name string, limit int64) ([]byte, error) {
	text, err := bounds.ReadFile(e.path(name), limit)
	return text, environ.Named(err, name)
}

// dataName is the data directory by the name that people know.
func (e *Estate) dataName() string {
	if d := e.Environ.Get("TF_DATA_DIR"); d != "" {
		return d
	}
	return ".terraform"
}

// dataDir is where installed modules and providers lie.
func (e *Estate) dataDir() string { return e.path(e.dataName()) }

// Directory is what belongs to Millipede in this directory.
func (e *Estate) Directory() layout.Directory {
	if e.Home != nil {
		return *e.Home
	}
	return layout.At(e.base(), e.Environ.Get("TF_DATA_DIR"))
}

// home is the home of the selected workspace, or of the state files that are named.
func (e *Estate) home(f StateOptions) layout.Home {
	if f.File+f.StateOut == "" {
		return e.Directory().Workspace(e.Workspace())
	}
	return e.Directory().File(f.File, f.StateOut)
}

// Workspace is the selected workspace.
func (e *Estate) Workspace() string {
	if w := e.Environ.Get("TF_WORKSPACE"); w != "" {
		return w
	}
	text, err := bounds.ReadFile(filepath.Join(e.dataDir(), "environment"), bounds.Text)
	if w := strings.TrimSpace(string(text)); err == nil && w != "" {
		return w
	}
	return journal.DefaultWorkspace
}

// ValidWorkspace tells whether a workspace may have this name: what a URL and a path hold as it is.
func ValidWorkspace(name string) bool {
	return name != "" && name == url.PathEscape(name) && name != "." && name != ".."
}

// Rules reads millipede.hcl, if there is one. Where a loader is given, it has the text for problems.
func (e *Estate) Rules(loader *config.Loader) (*placement.Rules, diag.List) {
	text, err := e.read(placement.FileName, bounds.Text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diag.Errors("Failed to read "+placement.FileName, err.Error()+".", nil)
	}
	if loader != nil {
		loader.AddSource(placement.FileName, text)
	}
	return placement.Parse(text, placement.FileName)
}

// exists tells whether a file is there.
func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
