package logging

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// stamp is the layout of the time in a line, as in the logs of plugins.
const stamp = "2006-01-02T15:04:05.000Z0700"

// lines is a handler that writes lines like those of plugins' logs, by whose levels programs find them: the time, the
// level in brackets, the message, and the attributes.
type lines struct {
	*sheet
	attributes slog.Handler // writes them to attrs
}

// sheet is shared by a handler and the handlers derived from it.
type sheet struct {
	mu    sync.Mutex // guards attrs and the order of lines
	out   io.Writer
	attrs bytes.Buffer
}

func newLines(out io.Writer, level slog.Level) slog.Handler {
	s := &sheet{out: out}
	return &lines{s, slog.NewTextHandler(&s.attrs, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			builtin := a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey
			if len(groups) == 0 && builtin {
				return slog.Attr{}
			}
			return a
		}})}
}

// Enabled implements slog.Handler.
func (l *lines) Enabled(ctx context.Context, level slog.Level) bool {
	return l.attributes.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attrs.Reset()
	if err := l.attributes.Handle(ctx, r); err != nil {
		return err
	}
	separator := ""
	if l.attrs.Len() > len("\n") {
		separator = ": "
	}
	at := r.Time
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	_, err := fmt.Fprintf(l.out, "%s %-7s %s%s%s", at.Format(stamp), "["+levelName(r.Level)+"]", r.Message, separator,
		l.attrs.Bytes())
	return err
}

// WithAttrs implements slog.Handler.
func (l *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lines{l.sheet, l.attributes.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (l *lines) WithGroup(name string) slog.Handler {
	return &lines{l.sheet, l.attributes.WithGroup(name)}
}
