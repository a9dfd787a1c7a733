package environ

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// The variables that concern the coordinator, or would give its access away. Those that are named here as a beginning
// are meant with whatever follows.
var (
	private          = []string{"TF_LOG", "TF_LOG_CORE", "TF_LOG_PATH", "TF_ENCRYPTION", "TF_REATTACH_PROVIDERS"}
	privateBeginning = []string{"TF_VAR_", "TF_CLI_ARGS", "TF_TOKEN_", "MILLIPEDE_"}
)

// Private tells whether a variable never travels to a worker: it concerns the coordinator, or holds its access to NATS
// or to registries.
func Private(name string) bool {
	return slices.Contains(private, name) || name == "NATS_URL" || slices.Contains(natsAccess, name) ||
		slices.ContainsFunc(privateBeginning, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// natsAccess are the variables by which all NATS programs are told who they are.
var natsAccess = []string{"NATS_CREDS", "NATS_NKEY", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", "NATS_CA",
	"NATS_CERT", "NATS_KEY"}

// Travelling returns the variables that may travel with the tasks of an operation: all that are not Private.
func (v Variables) Travelling() Variables {
	return slices.DeleteFunc(v.Settled(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return Private(name)
	})
}

// Selected returns the variables that may travel and whose names match one of the patterns, in which * stands for any
// text. It returns nil when there are none.
func (v Variables) Selected(patterns []string) Variables {
	var out Variables
	for _, entry := range v.Travelling() {
		name, _, _ := strings.Cut(entry, "=")
		if slices.ContainsFunc(patterns, func(p string) bool { return doublestar.MatchUnvalidated(p, name) }) {
			out = append(out, entry)
		}
	}
	return out
}
