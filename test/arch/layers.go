// Package arch checks that the project follows its architecture: which package may import which, and the documentation
// rules of every package and file.
//
// It checks imports, comments and the names that a file uses; other tests check what the code does.
package arch

const module = "github.com/millipede-iac/millipede"

// layers is the table of packages in the architecture, section 2. A package may import only packages of lower
// layers. A package that is not here may not exist, so a new one, and a new arrow, is an edit that a reader sees.
var layers = map[string]int{
	"internal/coding":     0,
	"internal/unpacking":  0,
	"internal/cloud/call": 0,
	"internal/cloud":      1, // above environ
	"internal/bounds":     -1,
	"internal/bug":        0,
	"internal/reach":      0,
	"lang/syntax":         0, // above bounds
	"internal/environ":    0,
	"internal/filelock":   0,
	"internal/wholefile":  0,
	"internal/pattern":    -1, // expressions that are compiled when they are used; below everything
	"lang/diag":           0,
	"lang/marks":          0,
	"lang/schema":         0,
	"provider/tfplugin5":  0,
	"provider/tfplugin6":  0,
	"state/seal":          0,
	"internal/failpoint":  0, // names moments; empty unless built for tests
	"internal/trace":      0, // where spans begin and end
	"internal/trace/otlp": 2, // how they are sent

	"internal/cloud/aws":     1, // who asks, and how: what is asked is for the packages that ask
	"internal/cloud/google":  1,
	"internal/cloud/alibaba": 1,
	"internal/cloud/azure":   1,
	"internal/cloud/tencent": 1,
	"internal/cloud/tfc":     0, // it finds neither hosts nor tokens
	"graph/dag":              1,
	"lang/arguments":         1,
	"lang/addr":              1,
	"lang/format":            1,
	"lang/funcs":             1, // for the sake of lang/marks; see docs/adr/0001

	"provider/provisioner": 1,

	"internal/cloud/oci":         2, // cliconfig reads the credentials that it takes
	"lang/arguments/awsidentity": 2, // arguments that backends and key providers share
	"graph/sched":                2,
	"lang/eval":                  2,
	"provider":                   2,
	"install/lock":               2,
	"install/cliconfig":          3,
	"state":                      2,

	"graph/plan":       3,
	"lang/generate":    3,
	"provider/mock":    3,
	"install/services": 4,
	"lang/config":      3,

	"graph":          4,
	"graph/moves":    4,
	"install/getter": 5,
	"encryption":     4,
	"state/journal":  4,
	"state/locks":    2, // who may change what at the same time; pure
	"wire":           4,

	"encryption/awskms":     5,
	"encryption/azurevault": 5,
	"encryption/gcpkms":     5,
	"encryption/openbao":    5,
	"encryption/catalog":    6, // the table of the key services, which are packages of layer 5

	"coordinator/layout":  5, // paths and a socket: nothing of ours is below it
	"coordinator/program": 5,
	"coordinator/rebase":  5, // compares and rewrites plans
	"coordinator/renewal": 5,
	"coordinator/values":  5,
	"install/modules":     6,
	"install/providers":   5,
	"provider/rpc":        5,
	"state/bolt":          5,
	"state/mem":           5,
	"state/storetest":     5,
	"state/tfstate":       5,
	"wire/jet":            5,
	"wire/mem":            5,
	"wire/wiretest":       5,
	"worker/journal":      5,
	"worker/remote":       5,

	"coordinator/instance":  6,
	"coordinator/hub":       6, // the runs of a process on one connection
	"coordinator/loop":      6, // decides; knows no clock and no I/O
	"coordinator/placement": 6,
	"graph/plan/planfile":   6,
	"worker/packages":       6,
	"worker/provision":      6,
	"provider/builtin":      6,
	"provider/plugin":       6,
	"backend":               6,
	"worker/change":         6,

	"coordinator/applying":   7,
	"coordinator/planning":   7,
	"coordinator/validating": 7,

	"backend/azurerm":     7,
	"backend/consul":      7,
	"backend/cos":         7,
	"backend/gcs":         7,
	"backend/http":        7,
	"backend/kubernetes":  7,
	"backend/oss":         7,
	"backend/pg":          7,
	"backend/s3":          7,
	"backend/remote":      7,
	"backend/backendtest": 7,

	"backend/catalog": 8, // the table of the backends, which are packages of layer 7

	"coordinator":         7,
	"coordinator/history": 7, // what loop and journal tell, as a timeline
	"worker":              7,

	"coordinator/operation": 8,

	"coordinator/estate": 9,
	"coordinator/remote": 1, // asks the service of cloud/tfc, and knows nothing of runs here
	"coordinator/suite":  9,

	"service/authority":   1,
	"service/gate":        0,
	"service/identity":    0,
	"service/skim":        0,
	"service/record":      0,
	"service/outline":     1,
	"service/events":      1,
	"service/store":       1,
	"service":             2,
	"service/control":     3,
	"service/httpstate":   3,
	"service/issuer":      3,
	"service/login":       3,
	"service/notify":      3,
	"service/servicetest": 3,
	"service/tfe":         3,
	"service/web":         3,
	"service/engine":      12, // carries runs of the service out with the library of the command line

	"cmd/internal/metrics": 8,

	"view":                 11,
	"view/document":        10,
	"view/outlet":          0,
	"coordinator/timeline": 0, // plain data
	"coordinator/picture":  1, // drawings of it
}

// trees are folders whose packages need no entry of their own. Those of one tree may import each other.
var trees = map[string]int{
	"cmd":  13,
	"test": 14,
}

// suites are the contracts' test suites: packages that are not tests themselves, but import testing.
var suites = []string{"service/servicetest", "backend/backendtest", "state/storetest", "wire/wiretest"}

// actors never import each other, nor an adapter: cmd hands them the implementations of the interfaces that they name.
var (
	actors   = []string{"coordinator", "worker"}
	adapters = []string{"provider/plugin", "state/bolt", "wire/jet"}
)

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
}

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
