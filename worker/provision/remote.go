package provision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/worker/remote"
)

// remoteExec runs scripts on another machine.
func (r Runner) remoteExec(ctx context.Context, c call) diag.List {
	scripts, err := r.scripts(c)
	if err != nil {
		return c.failed(err)
	}
	return r.connected(ctx, c, c.say, func(client *remote.Client) error {
		for _, script := range scripts {
			out := &lines{say: c.say}
			err := client.RunScript(script, out)
			out.end()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// file copies a file, a directory or a text to another machine.
func (r Runner) file(ctx context.Context, c call) diag.List {
	destination := text(c.config, "destination")
	if content := c.config.GetAttr("content"); !content.IsNull() {
		data := []byte(content.AsString())
		return r.connected(ctx, c, nil, func(client *remote.Client) error {
			return client.Copy(destination,
				remote.Bytes("", data))
		})
	}
	source := provisioner.Files(c.Type, c.config, r.Environment)
	if len(source) != 1 {
		return c.failed(errors.New("there is neither a source nor a content"))
	}
	tree, err := c.source(source[0])
	if err != nil {
		return c.failed(err)
	}
	return r.connected(ctx, c, nil, func(client *remote.Client) error {
		if tree.Dir {
			return client.CopyDir(destination, tree, strings.HasSuffix(source[0], "/"))
		}
		return client.Copy(destination, tree)
	})
}

// connected calls do with a connection to the machine of the connection block.
func (r Runner) connected(ctx context.Context, c call, tell func(string), do func(*remote.Client) error) diag.List {
	if len(c.Connection) == 0 {
		// The words are OpenTofu's.
		return c.failed(errors.New("Missing connection configuration for provisioner"))
	}
	block, err := coding.DecodeValue(c.Connection, provisioner.Connection.ImpliedType())
	if err != nil || block.IsNull() {
		return c.failed(fmt.Errorf("the connection cannot be read: %w", err))
	}
	settings, err := remote.NewSettings(block, r.Environment.Get("SSH_AUTH_SOCK"), c.dir)
	if err != nil {
		return c.failed(err)
	}
	client, err := remote.Connect(ctx, settings, tell)
	if err != nil {
		return c.failed(err)
	}
	if err := do(client); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("it was stopped: %w", cause)
		} else if c.Type == "file" {
			// The words are OpenTofu's.
			err = fmt.Errorf("Upload failed: %w", err)
		}
		return c.failed(errors.Join(err, client.Close()))
	}
	if err := client.Close(); err != nil {
		return c.failed(err)
	}
	return nil
}

func (c call) failed(err error) diag.List {
	return diag.Errors(c.Type+" provisioner error", err.Error()+".", nil)
}

// scripts returns the scripts to run: the lines of inline as one, or files.
func (r Runner) scripts(c call) ([][]byte, error) {
	if inline := c.config.GetAttr("inline"); !inline.IsNull() {
		var all strings.Builder
		for _, v := range inline.AsValueSlice() {
			if missing(v) {
				return nil, errors.New("inline holds a null or an empty string")
			}
			all.WriteString(v.AsString() + "\n")
		}
		return [][]byte{[]byte(all.String())}, nil
	}
	if len(c.Files) > 0 {
		var out [][]byte
		for _, f := range c.Files {
			out = append(out, f.Data)
		}
		return out, nil
	}
	if list := c.config.GetAttr("scripts"); !list.IsNull() && slices.ContainsFunc(list.AsValueSlice(), missing) {
		return nil, errors.New("scripts holds a null or an empty string")
	}
	var out [][]byte
	for _, name := range provisioner.Files(c.Type, c.config, r.Environment) {
		data, err := bounds.ReadFile(c.here(name), bounds.Text)
		if err != nil {
			// The words are OpenTofu's.
			return nil, fmt.Errorf("Failed to open script '%s': %w", name, err)
		}
		out = append(out, data)
	}
	return out, nil
}

// here returns a path for this machine: relative paths refer to the coordinator's directory.
func (c call) here(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.dir, name)
}

// missing reports whether a value is null or empty.
func missing(v cty.Value) bool { return v.IsNull() || v.AsString() == "" }

// source returns the file or directory at a path: the one sent by the coordinator, or else the one on this machine.
func (c call) source(name string) (*remote.Tree, error) {
	base := filepath.Base(name)
	if len(c.Files) == 0 {
		return onDisk(c.here(name), base, 0)
	}
	trees := map[string]*remote.Tree{}
	for _, f := range c.Files {
		t := remote.Bytes(path.Base(f.Path), f.Data)
		if f.Dir {
			t = &remote.Tree{Name: path.Base(f.Path), Dir: true}
		}
		if f.Path == "" {
			t.Name = base
		} else if parent := trees[parentOf(f.Path)]; parent != nil {
			parent.Entries = append(parent.Entries, t)
		}
		trees[f.Path] = t
	}
	if trees[""] == nil {
		return nil, errors.New("the task holds no source")
	}
	return trees[""], nil
}

// parentOf returns the directory of a path; empty for the top.
func parentOf(p string) string {
	if dir := path.Dir(p); dir != "." {
		return dir
	}
	return ""
}

// deepest bounds the depth of directories, because symbolic links may form a cycle.
const deepest = 64

// onDisk returns a file or a directory of this machine. Symbolic links are followed.
func onDisk(name, as string, depth int) (*remote.Tree, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return &remote.Tree{Name: as, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(name) }},
			nil
	}
	if depth > deepest {
		return nil, fmt.Errorf("%s lies %d directories deep: does a link lead back to where it is?", name, depth)
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	t := &remote.Tree{Name: as, Dir: true}
	for _, e := range entries {
		inside, err := onDisk(filepath.Join(name, e.Name()), e.Name(), depth+1)
		if err != nil {
			return nil, err
		}
		t.Entries = append(t.Entries, inside)
	}
	return t, nil
}
