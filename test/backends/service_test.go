package backends

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// startService starts a service with a new data directory. It returns the environment with which commands trust the
// service and have its token, and the service's host.
func startService(t *testing.T) (env map[string]string, host string) {
	t.Helper()
	d := &directory{t: t, program: program, dir: t.TempDir()}
	p := d.start("serve", "-listen=127.0.0.1:0", "-data="+d.path("data"), "-key-file="+d.path("key"))
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	said := func(part string) string {
		line, err := p.Await(ctx, part)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
	host = strings.TrimPrefix(said("tofu login "), "tofu login ")
	token, err := os.ReadFile(filepath.Join(d.dir, "data", "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	rc := d.path("rc")
	d.write("rc", fmt.Sprintf("credentials %q { token = %q }\n", host, strings.TrimSpace(string(token))))
	authority := filepath.Join(d.dir, "data", "tls", "ca.pem")
	return map[string]string{"SSL_CERT_FILE": authority, "TF_CLI_CONFIG_FILE": rc}, host
}

// instructions returns the indented parts of a text, which a user is to copy into a file or a shell.
func instructions(text string) (out []string) {
	inside := false
	for line := range strings.Lines(text) {
		line, indented := strings.CutPrefix(line, "  ")
		switch {
		case !indented:
			inside = false
		case inside:
			out[len(out)-1] += line
		default:
			out, inside = append(out, line), true
		}
	}
	return out
}

// follow runs commands as they were printed, in a shell without a terminal.
func (d *directory) follow(commands string) {
	d.t.Helper()
	for command := range strings.Lines(commands) {
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir = d.dir
		cmd.Env = []string{"PATH=" + filepath.Dir(d.program) + ":" + os.Getenv("PATH"), "HOME=" + d.dir, "NO_COLOR=1",
			"TMPDIR=" + os.TempDir()}
		for name, value := range d.env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		p, err := process.Start(command, cmd)
		if err != nil {
			d.t.Fatal(err)
		}
		if code, text := d.ends(p); code != 0 {
			d.t.Fatalf("%s: exit status %d\n%s", command, code, text)
		}
	}
}

// The instructions for the way back from a service said "init -reconfigure". It asks which workspace to select, because
// the workspaces have other names in the backend. Without a terminal it failed; after a wrong answer the next apply
// would have created everything again.
func TestStatesMoveToAServiceAndBackAsTheCommandSays(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of commands are run")
	}
	env, host := startService(t)
	for _, kind := range []string{"local", "s3", "pg", "http"} {
		t.Run(kind, func(t *testing.T) {
			w := &world{}
			if make := worlds[kind]; make != nil {
				w = make(t)
			}
			w.kind = kind
			d := w.directory(t, w.body, configuration)
			d.env = map[string]string{"TF_CLOUD_HOSTNAME": host, "TF_CLOUD_ORGANIZATION": "main"}
			for _, all := range []map[string]string{w.env, env} {
				for name, value := range all {
					d.env[name] = value
				}
			}
			d.must("init", "-input=false")
			d.must("apply", "-auto-approve")
			d.must("apply", "-auto-approve", "-var=value=2")
			d.must("apply", "-auto-approve", "-var=value=3")
			if !w.oneState {
				d.must("workspace", "new", "stage")
				d.must("apply", "-auto-approve", "-var=value=3")
			}
			d.moves("moved-"+kind, w.oneState)
		})
	}
}

// moves moves the states of a directory to a service and back, as the command migrate instructs. Before, the variable
// and the serial of the default workspace are 3. If the backend has workspaces, stage is selected.
func (d *directory) moves(name string, oneState bool) {
	d.t.Helper()
	backend, err := os.ReadFile(d.path("backend.tf"))
	if err != nil {
		d.t.Fatal(err)
	}
	says := d.must("migrate", "-var=value=3", name)
	if !strings.Contains(says, "default -> main/"+name+": serial 3") || !strings.Contains(says, "3 version(s) written") {
		d.t.Errorf("the versions of the state were not migrated:\n%s", says)
	}
	if again := d.must("migrate", "-var=value=3", name); !strings.Contains(again, "everything was there") {
		d.t.Errorf("a second migration wrote something:\n%s", again)
	}
	parts := instructions(says)
	if len(parts) != 5 {
		d.t.Fatalf("there are %d instructions, not 5:\n%s", len(parts), says)
	}
	cloud, there, back, pull, push := parts[0], parts[1], parts[2], parts[3], parts[4]

	d.write("backend.tf", cloud)
	d.follow(there)
	d.unchanged("-var=value=3")
	d.write("backend.tf", string(backend))
	d.follow(back)
	d.unchanged("-var=value=3")

	d.write("backend.tf", cloud)
	d.follow(there)
	d.must("apply", "-auto-approve", "-var=value=4")
	d.follow(pull)
	d.write("backend.tf", string(backend))
	d.follow(push)
	d.unchanged("-var=value=4")
	if oneState {
		return
	}
	if selected := strings.TrimSpace(d.must("workspace", "show")); selected != "stage" {
		d.t.Errorf("the workspace %s is selected", selected)
	}
	d.must("workspace", "select", "default")
	d.unchanged("-var=value=3")
}
