//go:build unix

package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
	"github.com/millipede-iac/millipede/test/stage/sshd"
)

// remoteProvisioners is a resource with provisioners of each kind, on a machine with a host, a port, a user, a key and
// a directory.
const remoteProvisioners = `
variable "key" {
  type      = string
  sensitive = true
}
variable "broken" {
  default = false
}
resource "terraform_data" "a" {
  input = { dir = %[4]q, port = %[2]d, key = var.key }

  connection {
    host        = %[1]q
    user        = "nobody knows"
    private_key = self.output.key
    script_path = "${self.output.dir}/script_%%RAND%%.sh"
    timeout     = "1m"
  }
  provisioner "file" {
    source      = "conf"
    destination = self.output.dir
    connection {
      port = self.output.port
      user = %[3]q
    }
  }
  provisioner "remote-exec" {
    scripts = ["scripts/one.sh", "scripts/two.sh"]
    connection {
      port = self.output.port
      user = %[3]q
    }
  }
  provisioner "remote-exec" {
    inline     = ["echo only tried", "exit 4"]
    on_failure = continue
    connection {
      port = self.output.port
      user = %[3]q
    }
  }
  provisioner "remote-exec" {
    inline = ["echo hidden ${length(var.key)}", var.broken ? "exit 5" : "true"]
    connection {
      port = self.output.port
      user = %[3]q
    }
  }
  provisioner "remote-exec" {
    when   = destroy
    inline = ["echo gone > ${self.output.dir}/gone"]
    connection {
      port = self.output.port
      user = %[3]q
    }
  }
}
`

func TestProvisionersWorkOnMachinesOverSSHWhereverTheWorkerIs(t *testing.T) {
	t.Parallel()
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		for _, where := range []string{"inside the coordinator", "elsewhere"} {
			t.Run(where, func(t *testing.T) {
				dir := t.TempDir()
				w := site.New(t, fmt.Sprintf(remoteProvisioners, s.Host, s.Port, s.User, dir))
				w.Write("conf/app/settings", "text")
				w.Write("scripts/one.sh", "echo one says $(cat "+dir+"/conf/app/settings)\n")
				w.Write("scripts/two.sh", "#!/bin/sh\necho two\n")
				w.Env = []string{"TF_VAR_key=" + s.PrivateKey, "SSH_AUTH_SOCK="}
				if where == "elsewhere" {
					w.Server()
					w.Worker("default") // it has another working directory
				}
				w.Must("init", "-no-color")
				said := w.Must("apply", "-no-color", "-auto-approve")
				for _, line := range []string{
					"terraform_data.a: Provisioning with 'file'...",
					"terraform_data.a (remote-exec): Connecting to remote host via SSH...",
					"terraform_data.a (remote-exec):   Host: 127.0.0.1",
					"terraform_data.a (remote-exec): Connected!",
					"terraform_data.a (remote-exec): one says text",
					"terraform_data.a (remote-exec): two",
					"terraform_data.a (remote-exec): only tried",
					"terraform_data.a (remote-exec): (output suppressed due to sensitive value in config)",
					"Apply complete! Resources: 1 added, 0 changed, 0 destroyed.",
				} {
					site.Wants(t, said, line)
				}
				if strings.Contains(said, "hidden") || strings.Contains(said, s.PrivateKey[:60]) {
					t.Errorf("a secret is shown:\n%s", said)
				}
				w.Must("destroy", "-no-color", "-auto-approve")
				if _, err := os.Stat(filepath.Join(dir, "gone")); err != nil {
					t.Errorf("the provisioner for the destruction did not run: %v", err)
				}
				failed := w.Run("apply", "-no-color", "-auto-approve", "-var=broken=true")
				if failed.Code != 1 || !strings.Contains(failed.Text, "remote-exec provisioner error") ||
					!strings.Contains(w.Must("show", "-no-color"), "(tainted)") {
					t.Errorf("exit status %d:\n%s", failed.Code, failed.Text)
				}
			})
		}
	})
}

func TestProvisionersRunOnTheWorkerThatMadeTheObject(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	s := site.New(t, site.FleetOnly+fmt.Sprintf(`
resource "fleet_machine" "a" {
  count = 12
  name  = "a-${count.index}"
  provisioner "local-exec" {
    command = "echo ${self.name} $PPID >> %s"
  }
}
`, log))
	s.Server()
	workers := map[string]string{}
	for range 3 {
		w := s.Worker("default")
		workers[fmt.Sprint(w.PID())] = w.ID
	}
	s.Must("init", "-no-color")
	s.Must("apply", "-no-color", "-auto-approve")
	made := map[string]string{}
	for _, c := range s.Calls("create") {
		made[c.Name] = c.Worker
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 12 {
		t.Errorf("%d provisioners ran", len(lines))
	}
	for _, line := range lines {
		name, pid, _ := strings.Cut(line, " ")
		if workers[pid] == "" || workers[pid] != made[name] {
			t.Errorf("%s was created by %s and provisioned by %q", name, made[name], workers[pid])
		}
	}
}
