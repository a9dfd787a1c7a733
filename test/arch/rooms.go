// Package arch checks that the project follows its architecture: which package may import which, and the documentation
// rules of every package and file.
//
// It checks imports, comments and the names that a file uses; other tests check what the code does.
package arch

const module = "github.com/millipede-iac/millipede"

// rooms are the top folders that have code, from the top down; ARCHITECTURE.md opens with the same table. A room
// imports only rooms below it. A folder that is not here may not have code.
var rooms = []string{
	"test",        // programs and suites that exercise the others
	"deploy",      // tests of what operators install
	"cmd",         // the two programs
	"service",     // many workspaces, many people
	"view",        // what people and programs read
	"coordinator", // decides
	"worker",      // acts
	"wire",        // what the two say to each other
	"backend",     // where the snapshot of a state is kept
	"graph",       // order, and plans
	"state",       // what exists, and its stores
	"encryption",  // who can read it
	"provider",    // talks to plugins
	"install",     // where providers and modules come from
	"lang",        // .tf files to values
	"internal",    // tools that know nothing of Millipede
}

// A keep says which packages of this module, and of others, some packages do not import, and why. Rooms are kept by
// their order; these are the few rules that the order does not give.
type keep struct {
	of     string   // these packages: a folder with everything below it; "x/*" is each folder directly below x, alone
	except []string // but not these
	// do not import these folders, with everything below; "x/*" as in of, other than themselves; "x/." is x alone
	from   []string
	but    []string // except for these packages
	reason string
}

var keeps = []keep{
	{of: "coordinator", from: adapters, reason: "cmd hands it in, as an interface that the coordinator names"},
	{of: "coordinator", from: []string{"worker"}, reason: "only messages pass between the two"},
	{of: "worker", from: adapters, reason: "cmd hands it in, as an interface that the worker names"},
	{of: "coordinator/loop", from: []string{"os", "net", "io", "sync", "log", "coordinator/layout", "coordinator/hub"},
		reason: "the loop is a pure function: it knows no clock, no file and no other goroutine"},
	{of: "coordinator/program", from: []string{"coordinator/loop"}, reason: "it is the contract under the loop"},
	{of: "service/*", except: []string{"service/engine"}, from: []string{"coordinator/estate", "coordinator/operation"},
		reason: "what executes runs is handed to the service by cmd"},
	{of: "service", except: []string{"service/control", "service/gate", "service/httpstate", "service/issuer",
		"service/login", "service/notify", "service/relay", "service/tfe", "service/web", "service/servicetest",
		"service/seat"},
		from: []string{"net/http"}, reason: "the service knows no HTTP; its interfaces do"},
	{of: "service/engine", from: []string{"service/*", "service/."}, but: []string{"service/work", "service/record"},
		reason: "the engine knows the contract alone, so that it can be in another process"},
	{of: "service/seat", from: []string{"service/*", "service/."}, but: []string{"service/work", "service/record",
		"service/tables", "service/seat"}, reason: "the service is handed what carries out its runs"},
	{of: "service/turn", from: []string{"os", "net", "io", "sync", "log", "service/store", "service/tables"},
		reason: "whose turn it is follows from records alone: no store, no clock, no lock"},
	{of: "service/rights", from: []string{"os", "net", "io", "sync", "log", "service/events"},
		reason: "who may do what follows from records and a transaction that reads them"},
	{of: "service/control", from: interfaces, reason: interfacesApart},
	{of: "service/httpstate", from: interfaces, reason: interfacesApart},
	{of: "service/issuer", from: interfaces, reason: interfacesApart},
	{of: "service/login", from: interfaces, reason: interfacesApart},
	{of: "service/tfe", from: interfaces, reason: interfacesApart},
	{of: "service/web", from: interfaces, reason: interfacesApart},
	{of: "backend/*", except: []string{"backend/catalog"}, from: []string{"backend/*"}, but: []string{"backend/bucket"},
		reason: "a kind of backend knows the contract, and what stores of objects share; the catalog alone knows the kinds"},
	{of: "encryption/*", except: []string{"encryption/catalog"}, from: []string{"encryption/*"},
		reason: "a key provider knows the contract; the catalog alone knows the key providers"},
	{of: "wire/*", except: []string{"wire/wiretest"}, from: []string{"wire/*"},
		reason: "each implements the contract without the other"},
	{of: "internal/cloud/*", from: []string{"lang", "install"}, reason: "a client of a cloud knows no configuration"},
}

// interfaces are the packages with which the service speaks HTTP.
var interfaces = []string{"service/control", "service/httpstate", "service/issuer", "service/login", "service/tfe",
	"service/web"}

const interfacesApart = "each interface of the service is served, and read, without the others"

// suites are the contracts' test suites: packages that are not tests themselves, but import testing.
var suites = []string{"service/servicetest", "backend/backendtest", "state/storetest", "state/log/logtest",
	"wire/wiretest"}

// adapters are the implementations that cmd hands to the coordinator and to workers.
var adapters = []string{"provider/plugin", "state/bolt", "wire/jet"}

// confined names, by the beginning of import paths, the only packages that may import them: the libraries of clouds and
// of databases stay in one place each, so that they can be measured, and replaced, alone.
var confined = map[string][]string{
	"github.com/lib/pq":          {"backend/pg"},
	"github.com/Azure/":          {"internal/cloud/azure"},
	"oras.land/":                 {"internal/cloud/oci"},
	"github.com/opencontainers/": {"internal/cloud/oci"},
	"github.com/aws/":            {"internal/cloud/aws"},
	"golang.org/x/net/":          {"internal/cloud", "internal/cloud/aws", "service/web"},
	"golang.org/x/oauth2/google": {"internal/cloud/google"},
	"github.com/prometheus/":     {"cmd/internal/metrics"},
	"github.com/wneessen/":       {"service/notify"},
	"go.etcd.io/bbolt":           {"state/recorded", "state/log", "state/bolt", "service/store"},
}

// recordedOnly are the types of bbolt with which a file is changed past package recorded: such a change would be
// missing in the copies of a group.
var recordedOnly = []string{"go.etcd.io/bbolt.Tx", "go.etcd.io/bbolt.Bucket", "go.etcd.io/bbolt.Cursor"}

// processWide has the identifiers, by package, that read or change something of the process that belongs to one
// operation: its directory, environment, streams, signals, end. Only the commands may use them; everything below gets
// these as values (package environ), so that one process can execute operations in several directories and
// environments. "*" is all of a package.
var processWide = map[string][]string{
	"os": {
		"Args", "Chdir", "Clearenv", "Environ", "Exit", "ExpandEnv", "Getenv", "Getwd", "LookupEnv", "Setenv",
		"Stderr", "Stdin",
		"Stdout", "TempDir", "Unsetenv", "UserCacheDir", "UserConfigDir", "UserHomeDir",
	},
	"os/exec":       {"LookPath"},
	"os/signal":     {"*"},
	"path/filepath": {"Abs"},
	"flag":          {"Arg", "Args", "CommandLine", "NArg", "NFlag", "Parse", "Parsed", "Set", "Usage", "Visit"},
	"log": {
		"Default", "Fatal", "Fatalf", "Fatalln", "Output", "Panic", "Panicf", "Panicln", "Print", "Printf", "Println",
		"SetFlags", "SetOutput", "SetPrefix", "Writer",
	},
	"log/slog": {
		"Debug", "DebugContext", "Default", "Error", "ErrorContext", "Info", "InfoContext", "Log", "LogAttrs",
		"SetDefault", "SetLogLoggerLevel", "Warn", "WarnContext", "With",
	},
	"fmt": {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"net/http": {
		"DefaultClient", "DefaultServeMux", "DefaultTransport", "Get", "Handle", "HandleFunc", "Head", "Post",
		"PostForm", "ProxyFromEnvironment",
	},
	"runtime/debug": {"PrintStack", "SetGCPercent", "SetMaxStack", "SetMemoryLimit"},
	"syscall": {
		"Chdir", "Clearenv", "Environ", "Exec", "Exit", "Getenv", "Getwd", "Setenv", "Stderr", "Stdin", "Stdout", "Umask",
		"Unsetenv",
	},
}

// told has the uses of these identifiers with the operation's own values.
var told = map[string][]string{
	"internal/cloud":     {"net/http.DefaultTransport"}, // cloned, with the operation's proxies
	"internal/environ":   {"os/exec.LookPath"},          // of paths alone
	"internal/failpoint": {"os.Getenv", "os.Stderr"},    // only in programs that are built for tests
}

// maxLines is the limit for the lines of a file. The aim is 500.
const maxLines = 700

// The limits of what a reader can remember: the lines of a function, and the methods of a type.
const (
	maxFunction = 100
	maxMethods  = 90
	maxExported = 42 // as many as the contract of the transport has
)

// An exception allows more, up to a number that only falls.
type exception struct {
	allowed int
	reason  string
}

// long has the functions that are longer than maxFunction.
var long = map[string]exception{
	"service/tfe.server.routes":              {175, "a table of the routes of the API"},
	"internal/cloud/azure.Cloud.methods":     {123, "a table of the ways to sign in"},
	"cmd/coordinator.init":                   {136, "the table of the commands"},
	"worker.Worker.attempt":                  {112, "each step says what survives a crash there, so it is one piece"},
	"state/storetest.interleaved":            {112, "a run of a model, step by step"},
	"service/tfe.call.settings":              {111, "the attributes of a workspace, one after the other"},
	"test/stage/clouds/azure.Server.storage": {110, "a table of requests and answers"},
}

// wide has the types with more than maxMethods methods; an exception for them may be up to slack above their number.
var wide = map[string]exception{
	"service/tfe.call":             {190, "a method for each endpoint of the API"},
	"coordinator/planning.Planner": {137, "the program of a plan: a method for each step of each kind of vertex"},
}

const slack = 10
