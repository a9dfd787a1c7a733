package handover_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/cmd/internal/handover"
)

// TestMain is also the program that hands its environment over: it prints the environment that it has, and the one that
// others see.
func TestMain(m *testing.M) {
	if os.Getenv("HANDOVER_TEST") == "" && !slices.ContainsFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "MILLIPEDE_ENVIRONMENT_FROM=")
	}) {
		os.Exit(m.Run())
	}
	all, err := handover.Environ(os.Environ(), handover.Except([]string{"PATH"}))
	if err != nil {
		panic(err)
	}
	seen, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		panic(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	memory := 0
	for _, fd := range open {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.Contains(to, "memfd:environment") {
			memory++
		}
	}
	fmt.Printf("pid %d\nall %q\nseen %q\nmemory %d\nargs %q\n", os.Getpid(), all, seen, memory, os.Args[1:])
	os.Exit(7)
}

// The environment of a service held the password of NATS and the keys of clouds. The functions of any run could read it
// in /proc/self/environ, although the service had removed the variables.
func TestTheSecretsOfAnEnvironmentAreNotVisibleAfterItIsHandedOver(t *testing.T) {
	c := exec.Command(os.Args[0], "one", "two words")
	large := strings.Repeat("x", 100_000)
	c.Env = []string{"HANDOVER_TEST=1", "PATH=/bin", "SECRET=canary", "LARGE=" + large, "EMPTY="}
	out, err := c.Output()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != 7 {
		t.Fatalf("%v: %s", err, out)
	}
	text := string(out)
	for _, want := range []string{
		fmt.Sprintf("pid %d\n", c.ProcessState.Pid()), "memory 0\n", `args ["one" "two words"]`,
		`all ["HANDOVER_TEST=1" "PATH=/bin" "SECRET=canary" "LARGE=` + large + `" "EMPTY="]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %.80s in\n%.300s", want, text)
		}
	}
	_, seen, _ := strings.Cut(text, "\nseen ")
	seen, _, _ = strings.Cut(seen, "\n")
	if strings.Contains(seen, "canary") || strings.Contains(seen, "LARGE") || !strings.Contains(seen, "PATH=/bin") {
		t.Errorf("others see %.300s", seen)
	}
}
