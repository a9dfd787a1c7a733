package applying

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/wire"
)

// copying is a file provisioner that copies the file or directory with a name.
func copying(t *testing.T, source string) *wire.Provisioner {
	t.Helper()
	block := provisioner.Block("file")
	attrs := map[string]cty.Value{}
	for name, a := range block.Attributes {
		attrs[name] = cty.NullVal(a.ImpliedType())
	}
	attrs["source"], attrs["destination"] = cty.StringVal(source), cty.StringVal("/there")
	config, err := coding.EncodeValue(cty.ObjectVal(attrs), block.ImpliedType())
	if err != nil {
		t.Fatal(err)
	}
	return &wire.Provisioner{Type: "file", Config: config}
}

// attachIn adds the files of a provisioner that runs in a directory.
func attachIn(dir string, p *wire.Provisioner) diag.List {
	return (&Applier{Options: Options{Dir: dir}}).attach(p)
}

// written creates files below a new directory; a name that ends in a slash is a directory.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func attached(p *wire.Provisioner) (out []string) {
	for _, f := range p.Files {
		if f.Dir {
			out = append(out, f.Path+"/")
		} else {
			out = append(out, f.Path+"="+string(f.Data))
		}
	}
	slices.Sort(out)
	return out
}

func TestAFileThatAProvisionerCopiesTravelsWithItsTask(t *testing.T) {
	dir := written(t, map[string]string{"one": "1", "tree/a": "A", "tree/deep/b": "B", "tree/empty/": ""})
	for source, want := range map[string][]string{
		"one":  {"=1"},
		"tree": {"/", "a=A", "deep/", "deep/b=B", "empty/"},
	} {
		p := copying(t, filepath.Join(dir, source))
		if diags := attachIn("/", p); diags.HasErrors() || !slices.Equal(attached(p), want) {
			t.Errorf("%s: %q, want %q; %v", source, attached(p), want, diags)
		}
	}
}

func TestARelativePathBeginsInTheDirectoryOfTheOperation(t *testing.T) {
	p := copying(t, "tree/a")
	dir := written(t, map[string]string{"tree/a": "A"})
	if diags := attachIn(dir, p); diags.HasErrors() || !slices.Equal(attached(p), []string{"=A"}) {
		t.Errorf("got %q; %v", attached(p), diags)
	}
}

func TestALinkIsFollowedToWhatItNames(t *testing.T) {
	dir := written(t, map[string]string{"real/a": "A", "tree/": ""})
	if err := os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "tree", "link")); err != nil {
		t.Skip("this system makes no links: ", err)
	}
	p := copying(t, filepath.Join(dir, "tree"))
	if diags := attachIn("/", p); diags.HasErrors() || !slices.Equal(attached(p), []string{"/", "link/", "link/a=A"}) {
		t.Errorf("got %q; %v", attached(p), diags)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "real", "back")); err != nil {
		t.Fatal(err)
	}
	if diags := attachIn("/", copying(t, filepath.Join(dir, "tree"))); !diags.HasErrors() {
		t.Error("a cyclic link was followed without an error")
	}
}

func TestWhatIsNotHereIsLeftToTheWorker(t *testing.T) {
	p := copying(t, filepath.Join(t.TempDir(), "made-later"))
	if diags := attachIn("/", p); len(diags) > 0 || p.Files != nil {
		t.Errorf("got %q; %v", attached(p), diags)
	}
	if diags := attachIn("/", &wire.Provisioner{Type: "file", Config: []byte{0xc1}}); len(diags) > 0 {
		t.Errorf("an error that the worker has to report was reported by the coordinator: %v", diags)
	}
}

func TestWhatIsNoFileIsNotRead(t *testing.T) {
	diags := attachIn("/", copying(t, os.DevNull))
	if !diags.HasErrors() || !strings.Contains(diags.Err().Error(), "neither a file nor a directory") {
		t.Error(diags)
	}
}

func TestWhatIsTooLargeToTravelStaysHere(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(attachMost + 1); err != nil { // a hole: it takes no room
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p := copying(t, name)
	if diags := attachIn("/", p); len(diags) > 0 || p.Files != nil {
		t.Errorf("%d files are sent; %v", len(p.Files), diags)
	}
}
