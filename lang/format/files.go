package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/lang/diag"
)

// formatted are the suffixes of the files that fmt formats.
var formatted = []string{".tf", ".tofu", ".tfvars", ".tftest.hcl", ".tofutest.hcl", ".tfquery.hcl",
	".tofuquery.hcl"}

// Files formats files and directories. Its fields must not be changed once the first file has been formatted.
type Files struct {
	// Open returns the path to open for a file name; messages use the name. nil means that they are the same.
	Open func(name string) string
	// Check changes no files. Diff and List write the changes and the names of the files to Out. Write writes the
	// files. Recursive descends into directories.
	Check, Diff, List, Write, Recursive bool
	// Difference returns the difference between two texts of a file, for Diff.
	Difference func(ctx context.Context, path string, old, now []byte) []byte

	// Sources receives the parsed files. Out receives the output.
	Sources map[string]*hcl.File
	Out     bytes.Buffer
	// Found is set if some file was not formatted.
	Found bool
}

func (w *Files) open(name string) string {
	if w.Open == nil {
		return name
	}
	return w.Open(name)
}

// Stdin formats standard input; the result is written to Out.
func (w *Files) Stdin(ctx context.Context, in io.Reader) diag.List {
	src, err := bounds.ReadAll(in, "standard input", bounds.Text)
	if err != nil {
		return diag.Errors("Failed to read standard input", err.Error()+".", nil)
	}
	w.List, w.Write = false, false
	return w.file(ctx, "<stdin>", src, true)
}

// Path formats an argument: a file, or the files in a directory.
func (w *Files) Path(ctx context.Context, path string) diag.List {
	info, err := os.Stat(w.open(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return diag.Errors("Invalid file or directory path", fmt.Sprintf("No file or directory at %s.", path), nil)
	case err != nil:
		return diag.Errors("Invalid file or directory path", err.Error()+".", nil)
	case info.IsDir():
		return w.dir(ctx, path)
	case !slices.ContainsFunc(formatted, func(ext string) bool { return strings.HasSuffix(path, ext) }):
		return diag.Errors("Invalid file extension", fmt.Sprintf("The file %s cannot be formatted: its name has to "+
			"end in one of %s.", path, strings.Join(formatted, ", ")), nil)
	}
	return w.named(ctx, path)
}

// dir formats the configuration files in a directory, and with -recursive those below it.
func (w *Files) dir(ctx context.Context, dir string) diag.List {
	entries, err := os.ReadDir(w.open(dir))
	if err != nil {
		return diag.Errors("Failed to read directory", err.Error()+".", nil)
	}
	var diags diag.List
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") &&
			strings.HasSuffix(name, "#") {
			continue
		}
		path := filepath.Join(dir, name)
		switch {
		case e.IsDir() && w.Recursive:
			diags = diags.Append(w.dir(ctx, path))
		case e.IsDir():
		case slices.ContainsFunc(formatted, func(ext string) bool { return strings.HasSuffix(name, ext) }):
			diags = diags.Append(w.named(ctx, path))
		}
	}
	return diags
}

func (w *Files) named(ctx context.Context, path string) diag.List {
	src, err := bounds.ReadFile(w.open(path), bounds.Text)
	if err != nil {
		return diag.Errors("Failed to read file", err.Error()+".", nil)
	}
	return w.file(ctx, path, src, false)
}

// file formats one source and lists, writes or checks the result. If none of these is requested, the result is
// written to Out.
func (w *Files) file(ctx context.Context, path string, src []byte, stdin bool) diag.List {
	w.Sources[path] = &hcl.File{Bytes: src}
	result, diags := Source(path, src)
	if diags.HasErrors() {
		return diags
	}
	if changed := !bytes.Equal(src, result); changed {
		w.Found = true
		if w.List {
			fmt.Fprintln(&w.Out, path)
		}
		if w.Diff {
			w.Out.Write(w.Difference(ctx, path, src, result))
		}
		if w.Write {
			if err := rewrite(w.open(path), result); err != nil {
				return diags.Append(diag.New(diag.Error, "Failed to write file", err.Error()+".", nil))
			}
		}
	}
	if !w.List && !w.Write && !w.Check && !w.Diff || stdin && !w.Check && !w.Diff {
		w.Out.Write(result)
	}
	return diags
}

// rewrite replaces the content of a file; its mode is kept.
func rewrite(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, info.Mode().Perm())
}
