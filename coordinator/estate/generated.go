package estate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Generate generates missing blocks for the import blocks that a plan with some targets or excludes covers, and
// continues with a configuration that contains them. Without a file to write them to it does nothing. After errors it
// returns the generated part nevertheless.
func (r *Operation) Generate(ctx context.Context, name string, targets, excludes []addr.Target) ([]operation.Generated,
	diag.List) {
	if name == "" {
		return nil, nil
	}
	operation.LeaveOut(r.Config.Tree, targets, excludes)
	generated, diags := operation.Do(ctx, r.Engine.Session, "generate",
		func(ctx context.Context, s *operation.Session) ([]operation.Generated, diag.List) {
			return s.Generate(ctx)
		})
	if diags.HasErrors() || len(generated) == 0 {
		return generated, diags
	}
	r.Config.Loader = config.NewLoader(withFile{FS: r.estate.files(), dir: r.Config.Root(),
		name: strings.TrimSuffix(filepath.Base(name), ".tf") + ".tf", text: generatedText(generated)})
	r.watch.Sources(r.Config.Sources)
	more := r.Config.Load()
	if !more.HasErrors() {
		operation.LeaveOut(r.Config.Tree, targets, excludes)
	}
	r.Engine.Tree = r.Config.Tree
	return generated, diags.Append(more)
}

// generatedMark is the comment before each generated block, by which programs find it. generatedHead is the beginning
// of a file of such blocks.
const (
	generatedMark = "# __generated__ by OpenTofu"
	generatedHead = generatedMark + "\n# Look these resources through, and move them to where they belong.\n"
)

// generatedText returns the content of a file of generated blocks.
func generatedText(list []operation.Generated) string {
	var b strings.Builder
	b.WriteString(generatedHead)
	for _, g := range list {
		b.WriteString("\n" + generatedMark)
		if g.ID != "" {
			fmt.Fprintf(&b, " from %q", g.ID)
		}
		b.WriteString("\n" + g.Text + "\n")
	}
	return b.String()
}

// CanGenerate checks that a plan of a mode generates configuration, and that its new file can be created.
func (e *Estate) CanGenerate(name string, mode plan.Mode) diag.List {
	switch {
	case name == "":
		return nil
	case mode != plan.Normal:
		return diag.Errors("Invalid generate-config-out flag", "Neither -destroy nor -refresh-only imports anything, "+
			"so there is nothing to generate configuration for.", nil)
	}
	if _, err := os.Stat(e.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return diag.Errors("Target generated file already exists",
			fmt.Sprintf("The file %s already exists, and generated configuration is written only to a new file. Name "+
				"another file, or move the content of this one and remove it.", name), nil)
	}
	return nil
}

// WriteGenerated writes generated blocks to a file.
func (e *Estate) WriteGenerated(name string, list []operation.Generated) diag.List {
	if len(list) == 0 {
		return nil
	}
	if err := os.WriteFile(e.path(name), []byte(generatedText(list)), 0o666); err != nil {
		return diag.Errors("Failed to create target generated file", err.Error()+".", nil)
	}
	return diag.List{diag.New(diag.Warning, "Config generation is experimental",
		fmt.Sprintf("The blocks in %s describe the present objects. Review them: secret values are left out, and "+
			"the blocks do not refer to other resources.", name), nil)}
}

// withFile is a file system with an additional file in a directory.
type withFile struct {
	config.FS
	dir, name, text string
}

// ReadFile implements config.FS.
func (w withFile) ReadFile(name string) ([]byte, error) {
	if filepath.Clean(name) == filepath.Join(w.dir, w.name) {
		return []byte(w.text), nil
	}
	return w.FS.ReadFile(name)
}

// ReadDir implements config.FS.
func (w withFile) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := w.FS.ReadDir(name)
	if err != nil || filepath.Clean(name) != filepath.Clean(w.dir) {
		return entries, err
	}
	entries = append(slices.Clone(entries), savedFile(w.name))
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
