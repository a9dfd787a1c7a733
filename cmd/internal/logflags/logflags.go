// Package logflags opens the log of a long-running program from the options of the program.
//
// It does not choose which events are logged. Commands of the command line have TF_LOG instead.
package logflags

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
)

// Usage are the lines of the help text about the options, without indentation.
const (
	UsageFormat = "text or json. Default: text."
	UsageLevel  = "debug, info, warn or error. Default: info."
)

// Settings are the values of the options.
type Settings struct{ format, level string }

// Flags registers the options.
func (s *Settings) Flags(f *flag.FlagSet) {
	f.StringVar(&s.format, "log-format", "text", "")
	f.StringVar(&s.level, "log-level", "info", "")
}

// Values returns the values of the options.
func (s *Settings) Values() (level, format string) { return s.level, s.format }

// Of returns the settings with these values.
func Of(level, format string) Settings { return Settings{format: format, level: level} }

// New returns the log, which goes to out. The error says which option has a value that it cannot have.
func (s *Settings) New(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.level)); err != nil {
		return nil, fmt.Errorf("-log-level=%s: write debug, info, warn or error", s.level)
	}
	o := &slog.HandlerOptions{Level: level}
	switch s.format {
	case "text":
		return slog.New(slog.NewTextHandler(out, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, o)), nil
	}
	return nil, fmt.Errorf("-log-format=%s: write text or json", s.format)
}
