package provision

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/launch"
	"github.com/millipede-iac/millipede/lang/diag"
)

// localExec runs a command, by default in a shell. Its standard output and standard error become the provisioner's
// output.
func (r Runner) localExec(ctx context.Context, c call) diag.List {
	command := text(c.config, "command")
	if command == "" {
		return diag.Errors("Invalid local-exec provisioner command", "The command must be a non-empty string.", nil)
	}
	dir, done, err := c.directory(text(c.config, "working_dir"), r.Environment.TempDir())
	if err != nil {
		return diag.Errors("local-exec provisioner error", fmt.Sprintf("The command of %s was not run: %s.",
			c.address, err), nil)
	}
	defer done()
	args := append(interpreter(c.config), command)
	if quiet := c.config.GetAttr("quiet"); !quiet.IsNull() && quiet.True() {
		c.say("local-exec: Executing: Suppressed by quiet=true")
	} else {
		c.say(fmt.Sprintf("Executing: %q", args))
	}

	out := &lines{say: c.say}
	program, err := r.Environment.Program(dir, args[0])
	if err != nil {
		return diag.Errors("local-exec provisioner error", fmt.Sprintf("The command of %s was not run: %s.",
			c.address, err), nil)
	}
	cmd := launch.Command(ctx, dir, r.Environment.With(variables(c.config)...), program, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdout, cmd.Stderr = out, out // one pipe, to keep the order
	ownGroup(cmd)
	err = cmd.Run()
	out.end()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("it was stopped: %w", cause)
	}
	if c.secret {
		return diag.Errors("local-exec provisioner error",
			fmt.Sprintf("The command of %s failed: %s. The command and its output are not shown, because its "+
				"configuration holds sensitive values.", c.address, err), nil)
	}
	return diag.Errors("local-exec provisioner error",
		fmt.Sprintf("Error running command '%s': %s. Output: %s", command, err, out.tail), nil)
}

func interpreter(config cty.Value) []string {
	var out []string
	if list := config.GetAttr("interpreter"); !list.IsNull() {
		for _, v := range list.AsValueSlice() {
			if !v.IsNull() {
				out = append(out, v.AsString())
			}
		}
	}
	switch {
	case len(out) > 0:
		return out
	case runtime.GOOS == "windows":
		return []string{"cmd", "/C"}
	default:
		return []string{"/bin/sh", "-c"}
	}
}

func variables(config cty.Value) []string {
	env := config.GetAttr("environment")
	if env.IsNull() {
		return nil
	}
	var out []string
	for name, v := range env.AsValueMap() {
		if !v.IsNull() {
			out = append(out, name+"="+v.AsString())
		}
	}
	slices.Sort(out)
	return out
}

// text returns the value of a string argument; empty if it is not set.
func text(config cty.Value, name string) string {
	if v := config.GetAttr(name); !v.IsNull() {
		return v.AsString()
	}
	return ""
}

// Bounds of the stored output of a program.
const (
	maxLine = 64 << 10 // a longer line is reported in parts
	maxTail = 8 << 10  // the end of the output, for error messages
)

// lines is a writer that reports its input line by line, and keeps the end. It is not safe for concurrent use.
type lines struct {
	say  func(string)
	open []byte // the incomplete line
	tail []byte
}

func (l *lines) Write(data []byte) (int, error) {
	l.tail = append(l.tail, data...)
	if over := len(l.tail) - maxTail; over > 0 {
		l.tail = slices.Clone(l.tail[over:])
	}
	l.open = append(l.open, data...)
	for {
		line, rest, ended := bytes.Cut(l.open, []byte("\n"))
		if !ended && len(l.open) < maxLine {
			return len(data), nil
		}
		if !ended {
			line, rest = l.open[:maxLine], l.open[maxLine:]
		}
		l.say(string(bytes.TrimSuffix(line, []byte("\r"))))
		l.open = slices.Clone(rest)
	}
}

// end reports a last line without a line break.
func (l *lines) end() {
	if len(l.open) > 0 {
		l.say(string(l.open))
		l.open = nil
	}
}
