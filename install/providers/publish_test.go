package providers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/install/lock"
)

func TestAMirrorServesWhatItWasMadeFrom(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "linux")
	w.packed(w.mirror, clock, "0.9.0", "darwin_arm64", "darwin")
	w.unpacked(w.mirror, clock, "0.10.0", platform, "newer")
	o := w.options(requires(clock, "~> 0.9.0"))
	copied := filepath.Join(w.home, "copied")
	for range 2 { // a second time nothing changes
		if diags := Mirror(t.Context(), o, copied, []string{platform, "darwin_arm64"}); len(diags) > 0 {
			t.Fatal(diags.Err())
		}
	}
	base := filepath.Join(copied, clock.Host, clock.Namespace, clock.Type)
	for name, want := range map[string]string{
		"index.json": "{\n  \"versions\": {\n    \"0.9.0\": {}\n  }\n}",
		"terraform-provider-time_0.9.0_darwin_arm64.zip": "",
		"terraform-provider-time_0.9.0_linux_amd64.zip":  "",
		"0.9.0.json": "",
	} {
		text, err := os.ReadFile(filepath.Join(base, name))
		if err != nil || want != "" && string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	o.Locks = w.install(o)
	w.ok(os.RemoveAll(o.DataDir))
	o.CLI.Methods[0].Location = copied
	w.install(o) // the content has the same hash
}

func TestChecksumsOfSeveralPlatformsAreAdded(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "linux")
	w.packed(w.mirror, clock, "0.9.0", "darwin_arm64", "darwin")
	o := w.options(requires(clock))
	o.Locks = w.install(o)
	before := slices.Clone(o.Locks.Get(clock).Hashes)
	locks, diags := Checksums(t.Context(), o, []string{"darwin_arm64", platform})
	if len(diags) > 0 {
		t.Fatal(diags.Err())
	}
	if after := locks.Get(clock).Hashes; len(after) != 2 || !slices.Contains(after, before[0]) {
		t.Errorf("hashes: %q", after)
	}
	if !slices.Equal(o.Locks.Get(clock).Hashes, before) {
		t.Error("the selections that were given have changed")
	}
	_, diags = Checksums(t.Context(), o, []string{"plan9_arm"})
	w.has(diags, "Could not retrieve providers for locking", "plan9_arm")
}

// Packages of several platforms must have the same version, or a lock file would be valid for one platform only.
func TestAllPlatformsGetTheSameVersion(t *testing.T) {
	w := newWorld(t)
	w.unpacked(w.mirror, clock, "0.9.0", platform, "x")
	w.unpacked(w.mirror, clock, "0.9.0", "darwin_arm64", "x")
	w.unpacked(w.mirror, clock, "0.10.0", platform, "x")
	o := w.options(requires(clock))
	o.Locks = &lock.Locks{}
	_, diags := Checksums(t.Context(), o, []string{platform, "darwin_arm64"})
	w.has(diags, "Could not retrieve providers for locking", "darwin_arm64")
	if _, diags = Checksums(t.Context(), o, []string{"darwin_arm64", platform}); len(diags) != 1 {
		t.Errorf("an older version was taken for both: %v", diags)
	}
}
