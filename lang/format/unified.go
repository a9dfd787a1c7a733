package format

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/millipede-iac/millipede/internal/environ"
)

// UnifiedDiff returns a function for Files.Difference: it returns a difference in the format of `diff -u`. It has the
// output of that program if it is installed, because programs differ in which of several equal lines they match, and
// scripts may compare the text.
func UnifiedDiff(env environ.Variables) func(ctx context.Context, path string, old, now []byte) []byte {
	return func(ctx context.Context, path string, old, now []byte) []byte {
		if text, err := installedDiff(ctx, env, path, old, now); err == nil {
			return text
		}
		text := diff.Diff("old/"+path, old, "new/"+path, now)
		_, text, _ = bytes.Cut(text, []byte("\n")) // the command line
		return text
	}
}

// installedDiff runs the program diff. Its exit status is 1 if there are differences.
func installedDiff(ctx context.Context, env environ.Variables, path string, old, now []byte) (text []byte, err error) {
	program, err := env.Program("", "diff")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(env.TempDir(), "fmt-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	before, after := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	if err := errors.Join(os.WriteFile(before, old, 0o600), os.WriteFile(after, now, 0o600)); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--label=old/"+path, "--label=new/"+path, "-u", before, after)
	cmd.Dir, cmd.Env = dir, env.List()
	text, err = cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && len(text) > 0 {
		return text, nil
	}
	return text, err
}
