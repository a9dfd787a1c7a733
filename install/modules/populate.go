package modules

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// own are directory entries that are not configuration: a directory with only these counts as empty.
var own = []string{".terraform", ".millipede"}

// Populate copies a module from any source into the directory Options.Base, which must be empty. The modules that
// it calls are left to Install. Hidden files are not copied.
func Populate(ctx context.Context, from string, o Options) diag.List {
	if o.Loader.HasConfig(".") {
		return diag.Errors("The working directory already contains files",
			"There is configuration here already, which would be mixed with that of the module. To initialize what "+
				"is here, leave the option out.", nil)
	}
	if diags := mustBeEmpty(o.Base); diags.HasErrors() {
		return diags
	}
	source, diags := packageOf(from, o.Base)
	if diags.HasErrors() {
		return diags
	}
	tmp := filepath.Join(o.DataDir, "init-from-module")
	if err := os.RemoveAll(environ.Path(o.Base, tmp)); err != nil {
		return diag.Errors("Failed to create temporary directory", err.Error()+".", nil)
	}
	defer os.RemoveAll(environ.Path(o.Base, tmp))
	name := "<main configuration>"
	r := config.ModuleRequest{Source: source, Path: "root", Call: &config.ModuleCall{Name: "root",
		Range: hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}}}
	at, diags := o.Sources[source.Kind].Fetch(ctx, r, filepath.Join(tmp, "root"))
	if diags.HasErrors() {
		return diags
	}
	if err := copyVisible(environ.Path(o.Base, at.Dir), environ.Path(o.Base, ".")); err != nil {
		return diags.Append(diag.New(diag.Error, "Failed to copy root module", fmt.Sprintf("Copying %q into this "+
			"directory: %s.", from, err), nil))
	}
	return diags.Append(parentCalls(from, o.Loader))
}

// mustBeEmpty reports files in the working directory.
func mustBeEmpty(base string) diag.List {
	entries, err := os.ReadDir(environ.Path(base, "."))
	if err != nil {
		return diag.Errors("Failed to read target directory", err.Error()+".", nil)
	}
	for _, e := range entries {
		if !slices.Contains(own, e.Name()) {
			return diag.Errors("Can't populate non-empty directory",
				fmt.Sprintf("A module can only be copied into an empty directory, and this one has %s.", e.Name()), nil)
		}
	}
	return nil
}

// packageOf parses a source that is not part of a module call. A local directory is treated as a package.
func packageOf(from, base string) (config.ModuleSource, diag.List) {
	source, err := config.ParseModuleSource(from, false)
	if from == "." || from == ".." || err == nil && source.Kind == config.LocalSource {
		source, err = config.ParseModuleSource(filepath.ToSlash(environ.Path(base, filepath.FromSlash(from))), false)
	}
	if err != nil {
		return source, diag.Errors("Invalid module source address", fmt.Sprintf("%q is not a module address: %s.",
			from, err), nil)
	}
	return source, nil
}

// copyVisible copies all files that are not hidden. The directory that they are copied to may lie in the copied one,
// and is then left out.
func copyVisible(from, into string) error {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	itself, err := os.Stat(into)
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil || rel == "." {
			return err
		}
		target := filepath.Join(into, rel)
		switch {
		case strings.HasPrefix(d.Name(), ".") && d.IsDir():
			return fs.SkipDir
		case strings.HasPrefix(d.Name(), "."):
			return nil
		case d.IsDir():
			if info, err := d.Info(); err != nil {
				return err
			} else if os.SameFile(info, itself) {
				return fs.SkipDir
			}
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return os.Symlink(to, target)
		}
		text, err := bounds.ReadFile(name, bounds.Text)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode().Perm()|0o200)
	})
}

// parentCalls reports calls of modules outside the copied directory, which were not copied.
func parentCalls(from string, l *config.Loader) diag.List {
	m, _ := l.LoadModule(".") // its problems are reported when the configuration is loaded
	if m == nil {
		return nil
	}
	var diags diag.List
	for _, call := range m.Calls {
		if call.SourceExpr == nil {
			continue
		}
		v, more := call.SourceExpr.Value(nil)
		if more.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type().FriendlyName() != "string" {
			continue // it depends on variables, and is checked when it is installed
		}
		if strings.HasPrefix(filepath.ToSlash(v.AsString()), "../") {
			diags = diags.Append(diag.New(diag.Error, "Root module references parent directory", fmt.Sprintf(
				"The module %q calls %q, beside it, and only the module itself was copied. To work with a copy, give "+
					"the module %q a source that can be fetched from anywhere.",
				from, v.AsString(), call.Name), call.SourceRange.Ptr()))
		}
	}
	return diags
}
