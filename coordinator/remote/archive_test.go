package remote_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/remote"
)

// packed returns the content of an archive of a directory: the content of files, "-> TARGET" for links.
func packed(t *testing.T, dir string) map[string]string {
	t.Helper()
	var b bytes.Buffer
	if err := remote.Pack(t.Context(), dir, &b); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			out[h.Name] = "-> " + h.Linkname
		default:
			out[h.Name] = string(text)
		}
	}
}

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The directory of Millipede contains states and the coordinator's key: it must not be uploaded with a configuration.
func TestWhatIsUploaded(t *testing.T) {
	all := map[string]string{
		"main.tf": "m", "x.auto.tfvars": "v", ".terraform.lock.hcl": "l", ".git/config": "g",
		".terraform/modules/modules.json": "j", ".terraform/providers/p": "p", ".millipede/workspaces/default/state.db": "s",
		"sub/.git/config": "g", "sub/a.tf": "a", "sub/keep/b.tf": "b", "logs/a.log": "l", "logs/deep/b.log": "l",
	}
	for claim, c := range map[string]struct {
		ignore string
		want   []string
	}{
		"by default": {"", []string{".terraform.lock.hcl", ".terraform/modules/modules.json", "logs/a.log",
			"logs/deep/b.log", "main.tf", "sub/a.tf", "sub/keep/b.tf", "x.auto.tfvars"}},
		"a name anywhere, a directory, a comment": {"# what is said\n*.log\nsub/\n", []string{".terraform.lock.hcl",
			".terraform/modules/modules.json", "main.tf", "x.auto.tfvars"}},
		"taken back": {"sub/*\n!sub/keep\n/logs/*.log\n", []string{".terraform.lock.hcl",
			".terraform/modules/modules.json", "logs/deep/b.log", "main.tf", "sub/keep/b.tf", "x.auto.tfvars"}},
		"the root alone": {"/a.tf\n/main.tf\nlogs/**\n", []string{".terraform.lock.hcl",
			".terraform/modules/modules.json", "sub/a.tf", "sub/keep/b.tf", "x.auto.tfvars"}},
		"what is always left out stays out, unless it is asked for": {"!.terraform/providers/\nlogs\nsub\n",
			[]string{".terraform.lock.hcl", ".terraform/modules/modules.json", ".terraform/providers/p", "main.tf",
				"x.auto.tfvars"}},
	} {
		files := maps.Clone(all)
		if c.ignore != "" {
			files[".terraformignore"] = c.ignore
			c.want = append(c.want, ".terraformignore")
		}
		got := packed(t, tree(t, files))
		maps.DeleteFunc(got, func(name, _ string) bool { return name[len(name)-1] == '/' })
		slices.Sort(c.want)
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, c.want) {
			t.Errorf("%s: uploaded %q, want %q", claim, names, c.want)
		}
	}
}

func TestLinksThatLeadOutAreReplaced(t *testing.T) {
	outside := tree(t, map[string]string{"dir/x.tf": "x", "file.tf": "f"})
	dir := tree(t, map[string]string{"main.tf": "m", "sub/a.tf": "a"})
	for name, to := range map[string]string{
		"in.tf": "main.tf", "sub/up.tf": "../main.tf", "out.tf": filepath.Join(outside, "file.tf"),
		"outdir": filepath.Join(outside, "dir"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	got := packed(t, dir)
	want := map[string]string{"main.tf": "m", "sub/": "", "sub/a.tf": "a", "in.tf": "-> main.tf",
		"sub/up.tf": "-> ../main.tf", "out.tf": "f", "outdir/": "", "outdir/x.tf": "x"}
	if !maps.Equal(got, want) {
		t.Errorf("uploaded %q, want %q", got, want)
	}
}

// A directory that contains a link to one of its parents would never end.
func TestLinksThatLeadBackEnd(t *testing.T) {
	outside := tree(t, map[string]string{"x.tf": "x"})
	dir := tree(t, map[string]string{"main.tf": "m"})
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(outside, "again")); err != nil {
		t.Fatal(err)
	}
	if err := remote.Pack(t.Context(), dir, io.Discard); err == nil {
		t.Error("a directory with a cyclic link was packed")
	}
}
