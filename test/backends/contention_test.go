package backends

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var contend = flag.Duration("contend", 0, "how long the programs of TestManyProgramsTakeTurns contend for each "+
	"backend; without it each takes two turns")

// contendedAlways has a backend for each way to lock: an object, a lease, a session, and a server that locks. The
// others are contended for with -all and with -contend.
var contendedAlways = []string{"s3", "azurerm", "pg", "http"}

// contested is a configuration that records in a shared directory what it creates, and whose apply fails while another
// one runs. Each apply writes a file at its end, for which the next one creates an object.
const contested = `
variable "shared" {}
variable "turn" {}
resource "terraform_data" "begin" {
  triggers_replace = var.turn
  provisioner "local-exec" {
    command = "mkdir ${var.shared}/inside || { echo ${var.turn} >> ${var.shared}/wrong; exit 1; }"
  }
}
resource "terraform_data" "turn" {
  for_each   = fileset(var.shared, "turn-*")
  input      = each.key
  depends_on = [terraform_data.begin]
  provisioner "local-exec" {
    command = "echo ${each.key} >> ${var.shared}/made"
  }
}
resource "terraform_data" "end" {
  triggers_replace = var.turn
  depends_on       = [terraform_data.turn]
  provisioner "local-exec" {
    command = "touch ${var.shared}/${var.turn}; rmdir ${var.shared}/inside"
  }
}
`

// Three programs (with the variable TOFU, one of them is OpenTofu) apply on one state in turns, as fast as its lock
// allows. Each turn adds an object and a version of the state. If a snapshot were lost, an object would be created
// twice.
func TestManyProgramsTakeTurnsOverEveryBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("dozens of commands are run")
	}
	for kind, make := range worlds {
		if *contend == 0 && !*all && !slices.Contains(contendedAlways, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			if *contend == 0 { // otherwise the kinds run one after the other
				t.Parallel()
			}
			w := make(t)
			w.kind = kind
			shared := t.TempDir()
			first := w.directory(t, w.body, contested)
			others := []*directory{first, w.directory(t, w.body, contested), w.directory(t, w.body, contested)}
			if tofu != "" {
				others[2].program = tofu
			}
			for _, d := range others {
				d.must("init", "-input=false")
			}
			first.must("apply", "-auto-approve", "-var=turn=none", "-var=shared="+shared)
			before := first.serial()
			end := time.Now().Add(*contend)
			turns := [3]int{}
			var all sync.WaitGroup
			for who, d := range others {
				all.Go(func() {
					for n := 0; n < 2 || time.Now().Before(end); n++ {
						turn := fmt.Sprintf("turn-%d-%d", who, n)
						if !d.turn("-var=turn="+turn, "-var=shared="+shared) {
							return
						}
						turns[who]++
					}
				})
			}
			all.Wait()
			if t.Failed() {
				return
			}
			first.turn("-var=turn=last", "-var=shared="+shared)
			total := turns[0] + turns[1] + turns[2] + 1
			t.Logf("turns: %d", turns)
			if wrong, err := os.ReadFile(filepath.Join(shared, "wrong")); err == nil {
				t.Errorf("two applies ran at the same time: %s", wrong)
			}
			made, err := os.ReadFile(filepath.Join(shared, "made"))
			if err != nil {
				t.Fatal(err)
			}
			state := first.must("state", "list")
			for who, n := range turns {
				for i := range n {
					turn := fmt.Sprintf("turn-%d-%d", who, i)
					if count := strings.Count("\n"+string(made), "\n"+turn+"\n"); count != 1 {
						t.Errorf("%s was made %d times", turn, count)
					}
					if !strings.Contains(state, `terraform_data.turn["`+turn+`"]`) {
						t.Errorf("%s is not in the state", turn)
					}
				}
			}
			if after := first.serial(); after != before+total {
				t.Errorf("after %d turns the serial is %d, and was %d", total, after, before)
			}
		})
	}
}

// turn applies. It tries again if OpenTofu did not get the lock: with some backends OpenTofu fails although it was told
// to wait.
func (d *directory) turn(vars ...string) bool {
	d.t.Helper()
	args := append([]string{"apply", "-auto-approve", "-input=false", "-lock-timeout=100s"}, vars...)
	for try := 1; ; try++ {
		code, text := d.ends(d.start(args...))
		if code == 0 {
			return true
		}
		if d.program == program || try == 10 || !strings.Contains(text, "Error acquiring the state lock") {
			d.t.Errorf("%s %s: exit status %d\n%s", d.program, strings.Join(args, " "), code, text)
			return false
		}
	}
}
