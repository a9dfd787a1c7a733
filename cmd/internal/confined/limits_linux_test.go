package confined_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/confined"
	"github.com/millipede-iac/millipede/internal/confine"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confined.Command { // this program is the helper, too
		os.Exit(confined.Execute(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// nobody is a user who has no processes.
const nobody = 64_321

// execute has a shell execute a script under limits, as another user if this one is root. It ends all its processes.
func execute(t *testing.T, l confined.Limits, script string) (string, error) {
	t.Helper()
	everything := confine.Rules{Read: []string{"/"}, Write: []string{"/"}}
	args := append(confined.Arguments(everything, l), "/bin/sh", "-c", script)
	c := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	c.Dir = t.TempDir()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := errors.Join(os.Chmod(c.Dir, 0o777), os.Chmod(filepath.Dir(c.Dir), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }() // what is left of it
	c.WaitDelay = 5 * time.Second
	err := c.Wait()
	return out.String(), err
}

// present counts the processes and threads of the user for whom execute executes.
func present(t *testing.T) (n int64) {
	t.Helper()
	if os.Geteuid() == 0 {
		return 0 // nobody has none
	}
	all, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range all {
		if info, err := os.Stat(task); err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() {
			n++
		}
	}
	return n
}

// A provisioner that started processes without end took all of the machine, and the service could start no engine.
func TestAForkBombEndsAtItsLimit(t *testing.T) {
	const bomb = `i=0; while [ $i -lt 200 ]; do sleep 20 >/dev/null 2>&1 & i=$((i+1)); echo "started $i"; done`
	text, err := execute(t, confined.Limits{Processes: present(t) + 100}, bomb)
	if err == nil || strings.Contains(text, "started 200\n") || !strings.Contains(text, "started 10\n") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// A program wrote a file until the disk was full.
func TestAFileEndsAtItsLimit(t *testing.T) {
	text, err := execute(t, confined.Limits{FileSize: 1 << 20}, `head -c 3000000 /dev/zero > large; wc -c < large`)
	if !strings.Contains(text, "1048576") {
		t.Errorf("%v:\n%s", err, text)
	}
}
