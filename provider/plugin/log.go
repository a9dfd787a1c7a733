package plugin

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// logLevels are the values of TF_LOG and TF_LOG_PROVIDER. JSON, beside them, is TRACE in another form.
var logLevels = []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"}

// LogFromEnvironment returns the logger for Options.Log according to TF_LOG_PROVIDER, or else TF_LOG, writing to w.
// An empty variable counts as not set. An unknown level counts as TRACE, with a warning on w.
func LogFromEnvironment(getenv func(string) string, w io.Writer) hclog.Logger {
	level := strings.ToUpper(getenv("TF_LOG_PROVIDER"))
	if level == "" {
		level = strings.ToUpper(getenv("TF_LOG"))
	}
	o := &hclog.LoggerOptions{Name: "provider", Level: hclog.Off, Output: w, JSONFormat: level == "JSON"}
	switch {
	case level == "":
	case level == "JSON":
		o.Level = hclog.Trace
	case slices.Contains(logLevels, level):
		o.Level = hclog.LevelFromString(level)
	default:
		o.Level = hclog.Trace
		fmt.Fprintf(w, "[WARN] Invalid log level: %q. Defaulting to level: TRACE. Valid levels are: %v\n",
			level, logLevels)
	}
	return hclog.New(o)
}
