package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A scenario is a case of the scenarios suite.
type scenario struct {
	Name      string
	Providers []string
	Keep      []string // TYPE.ATTRIBUTE that are not random here
	Redact    []string // ADDRESS-PATTERN.ATTRIBUTE-PATTERN whose values are not compared
	Steps     []step
}

// A step changes files and runs commands.
type step struct {
	Name    string
	Files   map[string]*string // content, or nil to delete
	Args    [][]string
	Stdin   string
	Env     map[string]string
	Observe []string // files whose content is compared after the commands
	Expect  struct {
		Commands []struct {
			Exit     json.RawMessage
			Actions  json.RawMessage
			Values   json.RawMessage
			Messages []string
		}
		Files json.RawMessage
	}
}

// levels are compared one by one; a case passes if the first three have no difference.
var levels = []string{"exit", "actions", "values", "messages"}

// scenarios runs the scenarios of a folder.
func scenarios(ctx context.Context, o options) (passed, total int, err error) {
	files, err := filepath.Glob(filepath.Join(o.cases, "*", "case.json"))
	if err != nil {
		return 0, 0, err
	}
	if len(files) == 0 {
		return 0, 0, fmt.Errorf("no scenario is in %s", o.cases)
	}
	var list []scenario
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, 0, err
		}
		var s scenario
		if err := json.Unmarshal(text, &s); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", file, err)
		}
		lacking := o.without != nil && slices.ContainsFunc(s.Providers, func(p string) bool { return !o.without[p] })
		if o.chosen(s.Name) && !lacking {
			list = append(list, s)
		}
	}
	found := make([]map[string][]string, len(list))
	if err := each(ctx, len(list), o.jobs, func(ctx context.Context, i int) (err error) {
		found[i], err = play(ctx, o, &list[i])
		if err != nil {
			err = fmt.Errorf("%s: %w", list[i].Name, err)
		}
		return err
	}); err != nil {
		return 0, 0, err
	}
	for i, s := range list {
		failed := false
		for _, level := range levels {
			failed = failed || level != "messages" && len(found[i][level]) > 0
		}
		if !failed {
			passed++
		}
		for _, level := range levels {
			for n, d := range found[i][level] {
				if o.verbose || failed && level != "messages" && n == 0 {
					fmt.Printf("%s: %s: %s\n", s.Name, level, d)
				}
			}
		}
	}
	return passed, len(list), nil
}

// play runs a scenario in a new directory with a new home, and returns the differences by level.
func play(ctx context.Context, o options, s *scenario) (map[string][]string, error) {
	top, err := os.MkdirTemp("", "scenario-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(top) }() // nothing of it is needed
	if top, err = filepath.EvalSymlinks(top); err != nil {
		return nil, err
	}
	home, work := filepath.Join(top, "home"), filepath.Join(top, "work")
	for _, dir := range []string{filepath.Join(home, "tmp"), work} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	answers := make([]answer, len(s.Steps))
	for i, step := range s.Steps {
		if err := change(work, step.Files); err != nil {
			return nil, err
		}
		for _, args := range step.Args {
			got, err := execute(ctx, o.limit, work, environment(home, step.Env), step.Stdin, o.program, args...)
			if err != nil {
				return nil, err
			}
			answers[i].commands = append(answers[i].commands, observe(args, got))
		}
		if answers[i].files, err = read(work, step.Observe); err != nil {
			return nil, err
		}
	}
	n := newNormaliser(s, map[string]string{work: "<cwd>", home: "<home>", top: "<top>"})
	n.normalise(answers)
	return compare(s, answers)
}

// answer has the outcomes of the commands of a step, and the files afterwards.
type answer struct {
	commands []observed
	files    map[string]any // nil for a file that is not there
}

func compare(s *scenario, answers []answer) (map[string][]string, error) {
	found := map[string][]string{}
	add := func(level, where string, list []string) {
		for _, d := range list {
			found[level] = append(found[level], where+": "+d)
		}
	}
	for i, step := range s.Steps {
		if len(step.Expect.Commands) != len(step.Args) {
			return nil, fmt.Errorf("step %d has no recorded answers", i+1)
		}
		for j, want := range step.Expect.Commands {
			got := answers[i].commands[j]
			where := step.Name + ": " + strings.Join(step.Args[j], " ")
			if exit := string(want.Exit); exit != fmt.Sprint(got.exit) && !(exit == `"timeout"` && got.exit == timedOut) {
				add("exit", where, []string{fmt.Sprintf("recorded is %s, here it is %d (%s)", exit, got.exit,
					strings.Join(got.messages, "; "))})
			}
			for level, part := range map[string]struct {
				want json.RawMessage
				got  any
			}{"actions": {want.Actions, got.actions}, "values": {want.Values, got.values}} {
				recorded, err := orEmpty(part.want)
				if err != nil {
					return nil, err
				}
				if part.got == nil {
					part.got = map[string]any{}
				}
				add(level, where, differences("", recorded, part.got))
			}
			if !slices.Equal(want.Messages, got.messages) {
				add("messages", where, []string{fmt.Sprintf("recorded are %q, here they are %q", want.Messages,
					got.messages)})
			}
		}
		recorded, err := orEmpty(step.Expect.Files)
		if err != nil {
			return nil, err
		}
		files := map[string]any{}
		for name, content := range answers[i].files {
			files[name] = content
		}
		add("values", step.Name+": files", differences("", recorded, files))
	}
	return found, nil
}

func orEmpty(text json.RawMessage) (any, error) {
	if len(text) == 0 || string(text) == "null" {
		return map[string]any{}, nil
	}
	return decode(string(text))
}

// change writes and deletes files of a directory.
func change(dir string, files map[string]*string) error {
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if content == nil {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(*content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read returns the content of files, without the comments of configurations.
func read(dir string, names []string) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case os.IsNotExist(err):
			out[name] = nil
			continue
		case err != nil:
			return nil, err
		}
		out[name] = string(text)
		if strings.HasSuffix(name, ".tf") {
			out[name] = withoutComments(string(text))
		}
	}
	return out, nil
}

// withoutComments drops empty lines and those that are a comment.
func withoutComments(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "#") {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
	}
	return strings.Join(lines, "\n")
}

// environment is that of every command: nothing of this process's but the path and where providers are found.
func environment(home string, more map[string]string) []string {
	env := []string{"HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp"), "TZ=UTC", "LC_ALL=C.UTF-8", "NO_COLOR=1",
		"TF_INPUT=0", "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1"}
	for _, name := range []string{"PATH", "TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR", "SYSTEMROOT"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range more {
		env = append(env, name+"="+value)
	}
	return env
}
