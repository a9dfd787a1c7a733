//go:build unix

package backend_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
)

func TestOpenTofuAndMillipedeKeepEachOtherOut(t *testing.T) {
	tofu := os.Getenv("TOFU")
	if tofu == "" {
		t.Skip("TOFU does not name an OpenTofu binary")
	}
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), tofu, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// The provisioner runs while OpenTofu holds the lock: it signals that in one pipe, and waits for the other.
	for _, pipe := range []string{"started", "go"} {
		ok(t, unix.Mkfifo(filepath.Join(dir, pipe), 0o600))
	}
	ok(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(`
		resource "terraform_data" "a" {
			provisioner "local-exec" {
				command = "echo > started; read x < go"
			}
		}`), 0o600))
	if out, err := run("init", "-no-color"); err != nil {
		t.Fatal(out)
	}
	b := backend.NewLocal(backend.LocalOptions{Dir: dir})
	lock(t, b, "default", journal.LockInfo{ID: "ours", Who: "millipede@here", Operation: "apply"})
	out, err := run("apply", "-auto-approve", "-no-color")
	if err == nil || !strings.Contains(out, "Error acquiring the state lock") ||
		!strings.Contains(out, "millipede@here") {
		t.Fatalf("OpenTofu got in: %v: %s", err, out)
	}
	ok(t, b.Unlock(t.Context(), "default", "ours"))

	done := make(chan string)
	go func() {
		out, _ := run("apply", "-auto-approve", "-no-color")
		done <- out
	}()
	content(t, filepath.Join(dir, "started"))
	var held *journal.Held
	if _, err := b.Lock(t.Context(), "default", journal.LockInfo{ID: "ours"}); !errors.As(err, &held) ||
		held.Holder.Operation != "OperationTypeApply" {
		t.Errorf("we got in: %v", err)
	}
	ok(t, os.WriteFile(filepath.Join(dir, "go"), []byte("\n"), 0o600))
	if out := <-done; !strings.Contains(out, "Apply complete") {
		t.Error(out)
	}
	lock(t, b, "default", journal.LockInfo{ID: "ours"})
	if !strings.Contains(read(t, b, "default"), "terraform_data") {
		t.Error("the state is not there")
	}
	ok(t, b.Unlock(t.Context(), "default", "ours"))
}
