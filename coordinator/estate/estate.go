// Package estate opens one configuration in one directory with everything that belongs to it: its store, its snapshot
// and backend, its locks, its providers, its workers, its saved plans and its runs.
//
// It returns data and diagnostics. It prints nothing, ends no process, and imports no adapter: the caller injects
// the functions that open stores, connect to workers and ask the user. Any number of estates can be open in one
// process.
package estate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Options are the dependencies and options of an estate. Fields are required unless their comment names a default.
type Options struct {
	// Dir is the absolute directory of the configuration, where relative names start. Here says that it is the working
	// directory of the process, so that files are opened, and errors name them, as people wrote them.
	Dir  string
	Here bool
	// Home is the directory for Millipede's own files; nil for the one that the environment names, or by default
	// the one beside the configuration.
	Home *layout.Directory
	// Backend replaces the backend of the configuration; nil for that.
	Backend backend.Backend
	// Seeds seals the seed of the coordinator's key pair; nil for the configured encryption of the state.
	Seeds Sealer
	// Cwd is what path.cwd shows; empty is Dir.
	Cwd string
	// Temp is the directory for temporary files.
	Temp string
	// Files are the files that the configuration may read; nil is all of them.
	Files *reach.Files
	// Environ is the environment of the operations.
	Environ environ.Variables
	// Isolated: plugins and provisioners get Environ and nothing else. Otherwise they get their worker's
	// environment, and the variables that millipede.hcl names.
	Isolated bool
	// Brought is, with Isolated, the part of Environ for remote workers, added to their own environment: variables
	// that concern the operation, not the coordinator's machine. Nil means Environ only, without their own.
	Brought environ.Variables
	// Version is the version of Millipede, EngineVersion the version of OpenTofu whose behaviour it has.
	Version, EngineVersion string
	// Platform is the operating system and the architecture, such as linux_amd64.
	Platform string
	// Who returns the name under which locks are held; PID is the ID of the process.
	Who func() string
	PID int

	Now   func() time.Time
	NewID func() string // makes ids that are unique for ever

	Stores Stores
	// Private: only this process opens the stores, so there are no sockets for others. Stores.Copy then also copies
	// stores that are open.
	Private   bool
	Connector Connector
	// Own returns the function that executes the tasks that only the coordinator's process can, because they read
	// other states.
	Own func(builtin.StateReader, builtin.ConfigCheck) func(context.Context, *wire.Task) *wire.Result
	// Reattached returns the providers that are already running, each with the name that replaces its version.
	Reattached func() (map[addr.Provider]string, error)
	// Compute is that of coordinator.Options; may be nil.
	Compute func(vertex int, fn func())
	CLI     *cliconfig.Config
	// Hashes caches the hashes of packages in this process; may be nil.
	Hashes   *providers.Hashes
	Services *services.Services
	// Memory contains the snapshots of inmem backends, which end with the process.
	Memory *backend.Memory

	// Stop asks operations to stop; Process is how the estate affects the process.
	Stop    operation.Stop
	Process Process
	// Ask asks the user for the value of a variable; nil if there is no user to ask.
	Ask func(*config.Variable) (string, error)
	// Tell shows the user a text while an operation is in progress; nil discards it.
	Tell func(text string)
	// Use is the purpose of the estate.
	Use Use
	// AnyVersion lets services accept states although a workspace is for another version of OpenTofu.
	AnyVersion bool
}

// Sealer encrypts and decrypts a key. *encryption.Target is one.
type Sealer interface {
	Seal(ctx context.Context, key []byte) ([]byte, error)
	// Open decrypts the result of Seal. stale says that Seal would encrypt it differently now. valid checks a key
	// that was never sealed; it may be nil.
	Open(ctx context.Context, sealed []byte, valid func() error) (key []byte, stale bool, err error)
}

// Use is the purpose of an estate, as far as it affects how it is opened.
type Use struct {
	// LooksOnly: an engine is opened, but nothing is changed. Then an encrypted state's key is not required only to
	// write the coordinator's identity.
	LooksOnly bool
	// ShowsMethods: warnings are shown about encryption methods that encrypt nothing.
	ShowsMethods bool
	// ClearFiles: named state files are never encrypted.
	ClearFiles bool
	// Unreadable is the summary of the error if a state cannot be decrypted.
	Unreadable Unreadable
	// Raises: the store that the command opens is raised to the newest level of features.
	Raises bool
}

// Unreadable is the summary of the error if a state cannot be decrypted; the zero value stands for the usual one.
type Unreadable struct {
	// Summary replaces the usual summary; with Named, the reason follows it behind a colon.
	Summary string
	Named   bool
	// Own uses the summary of the backend.
	Own bool
}

// Process is how an estate affects the process that it is opened in.
type Process interface {
	// Hold keeps the first request to stop from ending the process until release is called.
	Hold() (release func())
	// AtEnd registers fn, which is called when the process is ended at once; its context ends soon. forget removes it.
	AtEnd(fn func(context.Context)) (forget func())
	// Demand requests a stop, for a reason that is shown to the user.
	Demand(reason string)
	// Say uses tell for texts about interrupts, until back is called.
	Say(tell func(text string)) (back func())
}

// Stores opens the stores of workspaces.
type Stores interface {
	// Open opens a store, or creates it. It returns *journal.Held if another process still has it after the
	// timeout. The caller closes the store.
	Open(path string, info journal.LockInfo, timeout time.Duration, o StoreOptions) (Store, error)
	// Copy copies a store that no process has open; otherwise it returns *journal.Held.
	Copy(path, to string) error
}

// StoreOptions are the options of opening a store.
type StoreOptions struct {
	// Target encrypts the store's key; nil leaves the store unencrypted.
	Target *encryption.Target
	// Volatile: the store ends with the process, so nothing needs to be durable.
	Volatile bool
	// Workspace is a workspace that a new store has; empty for only the default one.
	Workspace string
}

// Store is an opened store.
type Store interface {
	journal.Store
	layout.Source
	// Split writes the store of each workspace to the file that storeOf returns.
	Split(storeOf func(workspace string) string) error
}

// Connector connects estates to a transport with workers.
type Connector interface {
	// Connect connects. An embedded server and its worker store their files in the Home of the options; without
	// one, in a temporary directory. The caller closes the connection.
	Connect(ctx context.Context, o ConnectOptions) (Connection, diag.List)
	// Elsewhere reports whether the workers belong to a separate server, so that they outlive this process.
	Elsewhere(rules *placement.Rules) bool
}

// ConnectOptions are the options of connecting.
type ConnectOptions struct {
	Rules    *placement.Rules
	Home     *layout.Home
	Packages map[addr.Provider]providers.Package
}

// Connection is a transport with everything that was started for it.
type Connection interface {
	Transport() wire.Transport
	// Embedded reports whether the workers are in this process.
	Embedded() bool
	// Common returns what all estates on the connection share; nil if only this one uses it.
	Common() *Common
	// Warnings returns sentences about unsafe settings of the server's streams.
	Warnings(ctx context.Context) []string
	// Close waits for the operations of embedded workers, and ends what was started.
	Close() diag.List
}

// Common is what all estates on one connection share.
type Common struct {
	// Hub is the hub that their runs use, in the name of one coordinator.
	Hub *hub.Hub
	// Pair is the key pair of that coordinator. It must be the same after a crash, for runs that are resumed.
	Pair nkeys.KeyPair
}

// Estate is one configuration with everything that belongs to it. Its methods are not safe for concurrent use; estates
// do not affect each other.
//
// Its parts are layers, each of which uses only those below it:
//
//	Estate               the configuration, the engine, opened states, plans and runs
//	homes    | packages  the stores of the states | the providers that are installed
//	backends |           the backends, and the encryption of the states in them
//	folder               the options, and the files that say where everything else is
type Estate struct {
	*homes
	*packages
}

// backends opens the backends of a directory, and encrypts what is kept in them.
type backends struct {
	*folder
	sealing *encryption.Encryption // the encryption of states and plans, once it is set up
	// services are the open backends that are services, so that each is discovered only once.
	services map[string]backend.Backend
}

// homes opens the stores of a directory: each state has a home of its own.
type homes struct{ *backends }

// packages installs the providers of a directory.
type packages struct{ *folder }

// New returns the estate of a directory. It opens nothing.
func New(o Options) *Estate {
	if o.Process == nil {
		o.Process = noProcess{}
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	f := &folder{o}
	return &Estate{&homes{&backends{folder: f}}, &packages{f}}
}

// noProcess implements Process for an estate that does not affect its process.
type noProcess struct{}

func (noProcess) Hold() func()                        { return func() {} }
func (noProcess) AtEnd(func(context.Context)) func()  { return func() {} }
func (noProcess) Demand(string)                       {}
func (noProcess) Say(func(text string)) (back func()) { return func() {} }

// ValidWorkspace reports whether a name is valid for a workspace: it needs no escaping in URLs and paths.
func ValidWorkspace(name string) bool {
	return name != "" && name == url.PathEscape(name) && name != "." && name != ".."
}

// CheckWorkspaceName returns an error if a name is not valid for a workspace.
func CheckWorkspaceName(name string) diag.List {
	if ValidWorkspace(name) {
		return nil
	}
	return diag.Errors("Invalid workspace name", fmt.Sprintf("The workspace name %q is not allowed. The name must "+
		"contain only URL safe characters, and no path separators.", name), nil)
}

// exists reports whether a file exists.
func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
