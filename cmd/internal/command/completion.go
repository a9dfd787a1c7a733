package command

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
)

// Completing returns the command line to complete, up to the cursor, if a shell has requested it: in bash's
// way, which zsh and fish can use as well (see installCompletion).
func (a *App) Completing() (line string, ok bool) {
	line = a.Getenv("COMP_LINE")
	if point, err := strconv.Atoi(a.Getenv("COMP_POINT")); err == nil && point >= 0 && point < len(line) {
		line = line[:point]
	}
	return line, line != ""
}

// Complete returns the possible completions of the last word of a command line.
func (a *App) Complete(ctx context.Context, line string) []string {
	words := strings.Fields(line)
	last := ""
	if len(words) > 0 && !strings.HasSuffix(line, " ") {
		words, last = words[:len(words)-1], words[len(words)-1]
	}
	words = words[min(1, len(words)):] // the program's own name
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		words = words[1:]
	}
	if option, value, has := strings.Cut(last, "="); has && strings.HasPrefix(last, "-") {
		// Shells treat the text after the equals sign as a separate word.
		if slices.Contains(a.program.FileFlags, strings.TrimLeft(option, "-")) {
			return files(value)
		}
		return nil
	}
	c, rest := a.findCommand(words)
	switch {
	case strings.HasPrefix(last, "-"):
		return beginningWith(last, a.optionsOf(ctx, c))
	case len(rest) == 0 || c == nil:
		if next := a.nextWords(words); len(next) > 0 {
			return beginningWith(last, next)
		}
	}
	switch {
	case c == nil:
		return nil
	case len(rest) > 0 && slices.Contains(a.program.FileFlags, strings.TrimLeft(rest[len(rest)-1], "-")) &&
		strings.HasPrefix(rest[len(rest)-1], "-"),
		slices.Contains(a.program.FileArguments, c.Name):
		return files(last)
	case slices.Contains(a.program.WorkspaceArguments, c.Name):
		return beginningWith(last, a.workspaceNames(ctx))
	}
	return nil
}

// nextWords returns the words that can follow in the name of a command.
func (a *App) nextWords(words []string) []string {
	var out []string
	for _, c := range a.program.Commands {
		name := strings.Fields(c.Name)
		if !c.Hidden && len(name) > len(words) && slices.Equal(name[:len(words)], words) &&
			!slices.Contains(out, name[len(words)]) {
			out = append(out, name[len(words)])
		}
	}
	return out
}

// optionsOf returns the options of a command or, for nil, the global options.
func (a *App) optionsOf(ctx context.Context, c *Command) []string {
	if c == nil {
		return []string{"-chdir", "-help", "-nats", "-version"}
	}
	// A command registers its options when it is asked for help.
	var nobody bytes.Buffer
	asked := New(a.program, strings.NewReader(""), &nobody, &nobody, nil)
	asked.Command, asked.Estate = c.Name, estate.New(estate.Options{})
	c.Run(ctx, asked, []string{"-help"})
	if asked.Flags == nil {
		return nil
	}
	out := []string{"-help"}
	asked.Flags.VisitAll(func(f *flag.Flag) { out = append(out, "-"+f.Name) })
	return out
}

// workspaceNames returns the workspaces that the command workspace list shows; none if it fails.
func (a *App) workspaceNames(ctx context.Context) []string {
	var out, nobody bytes.Buffer
	asked := New(a.program, strings.NewReader(""), &out, &nobody, a.Environ)
	if asked.Run(ctx, []string{"workspace", "list", "-no-color"}) != 0 {
		return nil
	}
	var names []string
	for line := range strings.Lines(out.String()) {
		if name := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*")); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// files returns the files and directories whose names begin with a prefix. Directories end with a slash.
func files(prefix string) []string {
	dir, start := filepath.Split(prefix)
	entries, err := os.ReadDir(filepath.Clean("./" + dir))
	if filepath.IsAbs(dir) {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, start) || start == "" && strings.HasPrefix(name, ".") {
			continue
		}
		if e.IsDir() {
			name += "/"
		}
		out = append(out, dir+name)
	}
	return out
}

func beginningWith(prefix string, of []string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return !strings.HasPrefix(s, prefix) })
}
