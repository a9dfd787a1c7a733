package logging

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"testing"
)

// The log of the engine had a format of its own, in which programs that look for levels in brackets, as in plugins'
// logs, found nothing.
func TestTheLinesOfTheLogHaveTheirLevelInBrackets(t *testing.T) {
	var out bytes.Buffer
	l := Open(func(k string) string { return map[string]string{"TF_LOG": "trace"}[k] }, &out).Core
	for level, want := range map[slog.Level]string{
		levelTrace: `[TRACE] m: a=1 g.b="x y"`, slog.LevelDebug: `[DEBUG] m: a=1 g.b="x y"`,
		slog.LevelInfo: `[INFO]  m: a=1 g.b="x y"`, slog.LevelWarn: `[WARN]  m: a=1 g.b="x y"`,
		slog.LevelError: `[ERROR] m: a=1 g.b="x y"`,
	} {
		out.Reset()
		l.With("a", 1).WithGroup("g").Log(context.Background(), level, "m", "b", "x y")
		line := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:Z|[-+]\d{4}) ` + regexp.QuoteMeta(want) + `\n$`)
		if !line.Match(out.Bytes()) {
			t.Errorf("got %q, want %s", out.String(), want)
		}
	}
	out.Reset()
	l.Info("alone")
	if got := regexp.MustCompile(`\[INFO\]  alone\n$`); !got.Match(out.Bytes()) {
		t.Errorf("got %q", out.String())
	}
}
