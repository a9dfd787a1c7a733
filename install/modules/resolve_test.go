package modules

import (
	"os"
	"path/filepath"
	"testing"
)

// The directory of a local module was recorded on the shortest way, such as ../../b for ../../../mods/b. path.module
// has the recorded path, so every attribute that is made from it was replaced, in both programs from then on. OpenTofu
// records the expected paths.
func TestTheDirectoryOfALocalModuleIsRecordedAsItIsWritten(t *testing.T) {
	base := write(t, map[string]string{
		"live/prod/app/main.tf": `module "a" { source = "../../../live/mods/a" }`,
		"live/mods/a/main.tf":   `module "b" { source = "./../../mods/b" }`,
		"live/mods/b/main.tf":   `output "x" { value = path.module }`,
	})
	r, diags := install(filepath.Join(base, "live/prod/app"), ".", Options{})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	for path, want := range map[string]string{"a": "../../../live/mods/a", "a.b": "../../../live/mods/b"} {
		for _, n := range r.Tree.Modules {
			if string(n.Path) == path && filepath.ToSlash(n.SourceDir) != want {
				t.Errorf("module %s is in %s, want %s", path, n.SourceDir, want)
			}
		}
	}
}

func TestSymbolicLinksAreFollowedAndTheRestOfThePathStays(t *testing.T) {
	root := write(t, map[string]string{"w/root/main.tf": "", "w/mods/real/main.tf": "", "w/mods/real/sub/main.tf": ""})
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(root, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	link("real", "w/mods/same")
	link("../../w/mods/same", "w/mods/chain")
	link("w/mods", "short")
	link("loop", "w/mods/loop")
	link("root", "w/linked")
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	link(filepath.Join(real, "w/mods"), "w/absolute")
	for dir, want := range map[string]string{
		"../mods/real":             "../mods/real",
		"../../w/mods/real":        "../../w/mods/real",
		"../../w/mods/same":        "../../w/mods/real",
		"../mods/same/sub":         "../mods/real/sub",
		"../mods/chain/sub":        "../../w/mods/real/sub",
		"../../short/real":         "../../w/mods/real",
		"../../short/chain":        "../../w/mods/real",
		"../absolute/same/sub":     filepath.ToSlash(filepath.Join(real, "w/mods/real/sub")),
		filepath.Join(real, "w"):   filepath.ToSlash(filepath.Join(real, "w")),
		".":                        ".",
		"../mods/nosuch":           "",
		"../mods/real/main.tf/sub": "",
		"../mods/loop":             "",
	} {
		for _, base := range []string{"w/root", "w/linked"} {
			t.Chdir(filepath.Join(root, base))
			if system, _ := filepath.EvalSymlinks(filepath.FromSlash(dir)); filepath.ToSlash(system) != want {
				t.Errorf("%s from %s is %q in the working directory, want %q", dir, base, system, want)
			}
			got, err := resolve(filepath.Join(root, base), filepath.FromSlash(dir))
			if (err != nil) != (want == "") || filepath.ToSlash(got) != want {
				t.Errorf("%s from %s is %q, %v; want %q", dir, base, got, err, want)
			}
		}
	}
}
