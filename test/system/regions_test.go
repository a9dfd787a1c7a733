package system

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// The commands in the document were tried when it was written, and not after later changes.
func TestTheCommandsOfTheDocumentSetUpThreeRegions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	commands := walk(t)
	// The commands that build the programs are skipped: TestMain has run the same ones.
	building, commands, found := strings.Cut(commands, `cp -r "$OLDPWD/deploy/nats" .`+"\n")
	site.Wants(t, building, "make build", "go -C test/tools build", "export PATH=")
	if !found {
		t.Fatal("the document does not copy the configuration of NATS")
	}
	shipped := os.DirFS(filepath.Join(site.Built.Root, "deploy", "nats"))
	if err := os.CopyFS(filepath.Join(dir, "nats"), shipped); err != nil {
		t.Fatal(err)
	}
	// Only the ports are changed, because several tests run at the same time.
	server := "nats/nats-server.conf"
	for port, says := range map[string]string{"4222": server, "8443": ""} {
		free := freePort(t)
		commands = strings.ReplaceAll(commands, ":"+port, ":"+free)
		if says != "" {
			text, err := os.ReadFile(filepath.Join(dir, says))
			if err == nil {
				moved := strings.ReplaceAll(string(text), ":"+port, ":"+free)
				err = os.WriteFile(filepath.Join(dir, says), []byte(moved), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", "set -eu\n"+commands)
	shell.Dir = dir
	shell.Env = []string{"HOME=" + dir, "PATH=" + filepath.Dir(site.Built.NATSServer) + ":" +
		filepath.Dir(site.Built.Coordinator) + ":" + os.Getenv("PATH")}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its background processes can be killed with it
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = 10 * time.Second
	said, err := shell.CombinedOutput()
	if err != nil {
		var logs strings.Builder
		all, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, name := range all {
			text, _ := os.ReadFile(name)
			fmt.Fprintf(&logs, "\n---- %s:\n%s", filepath.Base(name), text)
		}
		t.Fatalf("%v: %s%s", err, said, logs.String())
	}
	for _, region := range []string{"eu", "us", "ap"} {
		site.Wants(t, string(said), "module."+region+".terraform_data.here: (local-exec): this is "+region+"\n")
	}
	site.Wants(t, string(said), "Apply complete! Resources: 3 added, 0 changed, 0 destroyed.",
		"Destroy complete! Resources: 3 destroyed.")
}

// walk returns the commands of the section, unchanged.
func walk(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(site.Built.Root, "docs", "service.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## From nothing to three regions\n")
	section, _, found := strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("the document has no such section")
	}
	var commands strings.Builder
	for line := range strings.Lines(section) {
		if command, is := strings.CutPrefix(line, "    "); is {
			commands.WriteString(command)
		}
	}
	return commands.String()
}

// freePort returns a port on which nobody listens. It is below the range from which the system chooses ports, so that
// no connection or other test gets it before it is used.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(10_000)) //nolint:gosec // not for security
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}
