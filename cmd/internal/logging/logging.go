// Package logging writes the logs that the variables TF_LOG, TF_LOG_CORE, TF_LOG_PROVIDER and TF_LOG_PATH request.
//
// It does not decide which events are logged: callers and plugins do.
package logging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/plugin"
	"github.com/millipede-iac/millipede/wire"
)

// levelTrace is below slog's own levels: TRACE.
const levelTrace = slog.LevelDebug - 4

// levelOff is above all levels at which anything is logged.
const levelOff = slog.LevelError + 100

// Logs are the logs that TF_LOG and related variables request: that of the engine (TF_LOG_CORE) and those of plugins
// (TF_LOG_PROVIDER). They are written to standard error, or appended to the file that TF_LOG_PATH names.
type Logs struct {
	Core    *slog.Logger
	Plugins hclog.Logger
	file    *os.File
}

// Open opens the logs that the environment requests. If the file cannot be opened, it says so, and uses standard error
// instead.
func Open(getenv func(string) string, stderr io.Writer) *Logs {
	l := &Logs{}
	level, json := coreLevel(getenv)
	out := stderr
	wanted := level < levelOff || enabled(getenv("TF_LOG_PROVIDER")) || enabled(getenv("TF_LOG"))
	if name := getenv("TF_LOG_PATH"); name != "" && wanted {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			fmt.Fprintf(stderr, "Error opening log file: %v\n", err)
		} else {
			l.file, out = file, file
		}
	}
	if json {
		l.Core = slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: renamed}))
	} else {
		l.Core = slog.New(newLines(out, level))
	}
	l.Plugins = plugin.LogFromEnvironment(getenv, out)
	return l
}

func enabled(level string) bool { return level != "" && !strings.EqualFold(level, "off") }

// coreLevel returns the level in TF_LOG_CORE or, if that is not set, in TF_LOG. An invalid level means everything; the
// log of the plugins, which has the same rule, warns about it.
func coreLevel(getenv func(string) string) (level slog.Level, json bool) {
	text := getenv("TF_LOG_CORE")
	if text == "" {
		text = getenv("TF_LOG")
	}
	switch strings.ToUpper(text) {
	case "", "OFF":
		return levelOff, false
	case "ERROR":
		return slog.LevelError, false
	case "WARN":
		return slog.LevelWarn, false
	case "INFO":
		return slog.LevelInfo, false
	case "DEBUG":
		return slog.LevelDebug, false
	}
	return levelTrace, strings.EqualFold(text, "json")
}

// renamed sets the name of the level TRACE, which slog does not have, and the field names of plugins' logs in JSON.
func renamed(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		a.Key, a.Value = "@level", slog.StringValue(strings.ToLower(levelName(level)))
	case slog.MessageKey:
		a.Key = "@message"
	case slog.TimeKey:
		a.Key = "@timestamp"
	}
	return a
}

// levelName returns the name of a level in both formats.
func levelName(l slog.Level) string {
	if l == levelTrace {
		return "TRACE"
	}
	return l.String()
}

// Begin logs the command line. version and engine are the versions of the program and of OpenTofu.
func (l *Logs) Begin(version, engine, command string, args []string) {
	l.Core.Info("Millipede", "version", version, "engine", engine)
	l.Core.Info("Go runtime version: " + runtime.Version()) // these are the words that readers of OpenTofu's log know
	l.Core.Info("command", "name", command, "arguments", args)
}

// End logs how the command ended, and closes the file.
func (l *Logs) End(code int) error {
	l.Core.Info("command ended", "code", code)
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Profile begins to record a CPU profile into a file, if one is named. The returned function ends the recording.
func Profile(name string) (end func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// Observe returns a watcher that logs the events of a run, and passes them on to o. If nothing would be logged, it
// returns o.
func (l *Logs) Observe(o coordinator.Watcher) coordinator.Watcher {
	if !l.Core.Enabled(context.Background(), slog.LevelDebug) {
		return o
	}
	return coordinator.Both{o, loggedRun{l.Core}}
}

// loggedRun logs the events of a run.
type loggedRun struct{ log *slog.Logger }

// Started implements coordinator.Observer.
func (l loggedRun) Started(vertex int, d program.Description, pool string, _ time.Time) {
	l.log.Debug("started", "vertex", vertex, "address", d.Address, "action", d.Action, "pool", pool)
}

// Progress implements coordinator.Observer.
func (l loggedRun) Progress(vertex int, d program.Description, elapsed time.Duration) {
	l.log.Debug("goes on", "vertex", vertex, "address", d.Address, "elapsed", elapsed)
}

// Finished implements coordinator.Observer.
func (l loggedRun) Finished(vertex int, d program.Description, n program.Notes, took time.Duration) {
	l.log.Log(context.Background(), levelTrace, "finished", "vertex", vertex, "address", d.Address, "action",
		n.Action, "took", took)
}

// Failed implements coordinator.Observer.
func (l loggedRun) Failed(vertex int, d program.Description, _ program.Notes, took time.Duration) {
	l.log.Error("failed", "vertex", vertex, "address", d.Address, "action", d.Action, "took", took)
}

// Skipped implements coordinator.Observer.
func (l loggedRun) Skipped(vertex int, d program.Description, because string) {
	l.log.Warn("skipped", "vertex", vertex, "address", d.Address, "because", because)
}

// Doubtful implements coordinator.Observer.
func (l loggedRun) Doubtful(vertex int, d program.Description, reason string) {
	l.log.Error("in doubt", "vertex", vertex, "address", d.Address, "reason", reason)
}

// Waiting implements coordinator.Observer.
func (l loggedRun) Waiting(waits []coordinator.Wait) {
	for _, w := range waits {
		l.log.Debug("waits", "vertices", w.Vertices, "first", w.Address, "pool", w.Pool, "limit", w.Limit)
	}
}

// Counts implements coordinator.Observer.
func (l loggedRun) Counts(c coordinator.Counts) {
	l.log.Log(context.Background(), levelTrace, "counts", "done", c.Done, "total", c.Total, "running", c.Running)
}

// Diagnostics implements coordinator.Observer.
func (l loggedRun) Diagnostics(list diag.List) {
	for _, d := range list {
		l.log.Debug("problem", "severity", d.Severity.String(), "summary", d.Summary, "address", d.Address)
	}
}

// Event implements coordinator.Watcher. The output of provisioners may be secret, and is not logged.
func (l loggedRun) Event(e wire.Event) {
	l.log.Debug("event", "address", e.Address, "kind", e.Kind, "name", e.Name)
}
