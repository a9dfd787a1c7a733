package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// savedFiles is the file system of a configuration that was saved with a plan; it implements config.FS.
type savedFiles planfile.Config

// ReadFile implements config.FS.
func (s savedFiles) ReadFile(name string) ([]byte, error) {
	if text, ok := s.Files[filepath.Clean(name)]; ok {
		return text, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements config.FS.
func (s savedFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	dir := filepath.Clean(name)
	var out []fs.DirEntry
	for file := range s.Files {
		if filepath.Dir(filepath.Clean(file)) == dir {
			out = append(out, savedFile(filepath.Base(file)))
		}
	}
	if out == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// savedFile is the entry of a saved file.
type savedFile string

func (f savedFile) Name() string               { return string(f) }
func (savedFile) IsDir() bool                  { return false }
func (savedFile) Type() fs.FileMode            { return 0 }
func (f savedFile) Info() (fs.FileInfo, error) { return savedInfo{f}, nil }

type savedInfo struct{ savedFile }

func (savedInfo) Size() int64        { return 0 }
func (savedInfo) Mode() fs.FileMode  { return 0o400 }
func (savedInfo) ModTime() time.Time { return time.Time{} }
func (savedInfo) Sys() any           { return nil }

// savedVariable answers what early evaluation asks for with the values that the plan was made with.
func savedVariable(p *plan.Plan) func(*config.Variable) (cty.Value, diag.List) {
	return func(v *config.Variable) (cty.Value, diag.List) {
		return p.Variables[v.Name].Value, nil
	}
}

// savedInputs returns the variables that a plan was made with. Those that are given now must agree with them;
// ephemeral ones, which no plan holds, must be given again.
func savedInputs(p *plan.Plan, w *workdir) (map[string]values.Input, diag.List) {
	given, diags := w.given.Given(w.tree.Root.Module.Variables)
	out := map[string]values.Input{}
	for name, declared := range w.tree.Root.Module.Variables {
		planned := p.Variables[name]
		now, isGiven := given[name]
		if planned.Ephemeral && isGiven {
			out[name] = values.Input{Value: now.Value}
			continue
		}
		if planned.Ephemeral && planned.Value == cty.NilVal {
			diags = diags.Append(diag.New(diag.Error, "No value for required variable",
				fmt.Sprintf("The variable %q is ephemeral, so the saved plan does not hold its value: give it again, with -var, -var-file or the environment.", name), declared.Range.Ptr()))
			continue
		}
		out[name] = values.Input{Value: planned.Value}
		if !isGiven || planned.Value == cty.NilVal {
			continue
		}
		a, d1 := declared.Convert(name, now)
		b, d2 := declared.Convert(name, config.VariableValue{Value: planned.Value, Source: now.Source})
		if d1.HasErrors() || d2.HasErrors() || !a.RawEquals(b) {
			diags = diags.Append(diag.New(diag.Error, "Mismatch between input and plan variable value",
				fmt.Sprintf("The value of the variable %q differs from the one that the plan was made with. A saved plan is applied with its own values; leave the variable out, or make a new plan.", name), declared.Range.Ptr()))
		}
	}
	return out, diags
}
