package fault

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// limited simulates a full disk for a command: none of its files may grow beyond a number of kilobytes.
func limited(c *exec.Cmd, kilobytes int) *exec.Cmd {
	script := fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, kilobytes*2) // POSIX counts blocks of 512 bytes
	out := exec.Command("sh", append([]string{"-c", script, c.Path}, c.Args[1:]...)...)
	out.Dir, out.Env = c.Dir, c.Env
	return out
}

func TestAFullDiskIsAnErrorAndLosesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no limit of this kind")
	}
	// The store of an empty state has some 100 KiB; the streams and the worker's journal begin small. With each limit,
	// another one of these files is the first that cannot grow, at another moment.
	limits := []int{130}
	if *kills > fewKills {
		limits = []int{40, 100, 130, 160, 200}
	}
	for _, kilobytes := range limits {
		t.Run(fmt.Sprintf("%d KiB", kilobytes), func(t *testing.T) {
			t.Parallel()
			s := newTrial(t, 40, 10)
			s.Must("init")
			p := site.Started(t, "coordinator apply on a full disk", limited(s.Command(apply...), kilobytes))
			code := site.Exit(t, p)
			if code != 0 && (code != 1 || !strings.Contains(p.Output(), "Error: ") ||
				strings.Contains(p.Output(), "goroutine ")) {
				t.Errorf("exit status %d\n%s", code, site.Tail(p.Output()))
			}
			t.Logf("exit status %d, %d machines were created", code, s.Finished("create"))
			s.goOn(apply)
			s.complete(40)
		})
	}
}
