package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// fileFlags are the options whose value is the name of a file or a folder.
var fileFlags = []string{
	"backup", "chdir", "exclude-file", "from-module", "fs-mirror", "generate-config-out", "json-into",
	"module", "out", "plan",
	"plugin-dir", "state", "state-out", "target-file", "test-directory", "var-file",
}

// fileArguments are the commands whose arguments are names of files or folders.
var fileArguments = []string{"apply", "fmt", "providers mirror", "show", "state push"}

// workspaceArguments are the commands whose argument is the name of a workspace.
var workspaceArguments = []string{"workspace select", "workspace delete", "env select", "env delete"}

// completing returns the command line that a shell wants completed, up to the cursor: bash's way, which zsh and fish
// can be taught (see installCompletion).
func (a *app) completing() (line string, ok bool) {
	line = a.getenv("COMP_LINE")
	if point, err := strconv.Atoi(a.getenv("COMP_POINT")); err == nil && point >= 0 && point < len(line) {
		line = line[:point]
	}
	return line, line != ""
}

// complete returns what the last word of a command line may become.
func (a *app) complete(ctx context.Context, line string) []string {
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
		// Shells take what is behind the sign for a word of its own.
		if slices.Contains(fileFlags, strings.TrimLeft(option, "-")) {
			return files(value)
		}
		return nil
	}
	c, rest := findCommand(words)
	switch {
	case strings.HasPrefix(last, "-"):
		return beginningWith(last, optionsOf(ctx, c))
	case len(rest) == 0 || c == nil:
		if next := nextWords(words); len(next) > 0 {
			return beginningWith(last, next)
		}
	}
	switch {
	case c == nil:
		return nil
	case len(rest) > 0 && slices.Contains(fileFlags, strings.TrimLeft(rest[len(rest)-1], "-")) &&
		strings.HasPrefix(rest[len(rest)-1], "-"),
		slices.Contains(fileArguments, c.name):
		return files(last)
	case slices.Contains(workspaceArguments, c.name):
		return beginningWith(last, a.workspaceNames(ctx))
	}
	return nil
}

// nextWords are the words with which the names of commands go on after these.
func nextWords(words []string) []string {
	var out []string
	for _, c := range commands {
		name := strings.Fields(c.name)
		if !c.hidden && len(name) > len(words) && slices.Equal(name[:len(words)], words) &&
			!slices.Contains(out, name[len(words)]) {
			out = append(out, name[len(words)])
		}
	}
	return out
}

// optionsOf are the options of a command, or, for nil, those before the command.
func optionsOf(ctx context.Context, c *command) []string {
	if c == nil {
		return []string{"-chdir", "-help", "-nats", "-version"}
	}
	// A command tells its options when it is asked for help.
	var nobody bytes.Buffer
	asked := newApp(strings.NewReader(""), &nobody, &nobody, nil)
	asked.command = c.name
	c.run(ctx, asked, []string{"-help"})
	if asked.flags == nil {
		return nil
	}
	out := []string{"-help"}
	asked.flags.VisitAll(func(f *flag.Flag) { out = append(out, "-"+f.Name) })
	return out
}

// workspaceNames are those that the workspace list command shows; none where it fails.
func (a *app) workspaceNames(ctx context.Context) []string {
	var out, nobody bytes.Buffer
	asked := newApp(strings.NewReader(""), &out, &nobody, a.environ)
	if asked.run(ctx, []string{"workspace", "list", "-no-color"}) != 0 {
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

// files are the files and folders whose names begin with a prefix. Folders end with a slash.
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
