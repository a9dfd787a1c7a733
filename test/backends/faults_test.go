package backends

import (
	"flag"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/cloud"
	"github.com/millipede-iac/millipede/test/clouds/faults"
	"github.com/millipede-iac/millipede/test/process"
)

const (
	// patient is for how many seconds commands of these tests take silence.
	patient = "5"
	// soon is how long a command may take to end when its place is out of order.
	soon = 90 * time.Second
)

// recording notes each creation in a file, so that one that was forgotten and done again is seen.
const recording = `
variable "value" {}
variable "log" {}
variable "wait" {
  default = false
}
resource "terraform_data" "a" {
  input            = var.value
  triggers_replace = var.value
  provisioner "local-exec" {
    command = "echo ${var.value} >> ${var.log}; touch begun; while ${var.wait} && [ ! -e go ]; do sleep 0.05; done"
  }
}
resource "terraform_data" "b" {
  count = 3
  input = var.value
}
`

// misfortune is a place that goes wrong around two directories.
type misfortune struct {
	*world
	a, b *directory
	log  string // what was made, a line each
}

var all = flag.Bool("all", false, "play the misfortunes that take long, too")

// rows are what may befall a place. value is what the state holds when a row has been played; no row uses that of
// another. Those that take long wait for what is tried again, or for times that users set.
var rows = []struct {
	claim string
	long  bool
	play  func(m *misfortune, value string)
}{
	{claim: "it goes away in the middle of an apply, and comes back", play: inTheMiddle(away)},
	{claim: "it answers 500 from the middle of an apply on", long: true, play: inTheMiddle(failing)},
	{claim: "it answers 429 from the middle of an apply on", long: true, play: inTheMiddle(busy)},
	{claim: "it hangs from the middle of an apply on", long: true, play: inTheMiddle(silent)},
	{claim: "it forbids writing from the middle of an apply on", play: inTheMiddle(forbidden)},
	{claim: "it is away when a command begins", long: true, play: atTheBeginning(away)},
	{claim: "it answers 500 when a command begins", long: true, play: atTheBeginning(failing)},
	{claim: "it answers 429 when a command begins", long: true, play: atTheBeginning(busy)},
	{claim: "it hangs when a command begins", long: true, play: atTheBeginning(silent)},
	{claim: "it is busy for a moment with each request", long: true, play: busyForAMoment},
	{claim: "the answer to every other request is lost", play: answersLost},
	{claim: "it forbids writing during a run, and takes the last snapshot", long: true, play: forbiddenMeanwhile},
	{claim: "the lock is stolen, and somebody else writes", play: stolen},
	{claim: "the clock is an hour ahead", play: clockOff(-time.Hour)},
	{claim: "the clock is an hour behind", play: clockOff(time.Hour)},
}

func TestNothingIsLostWhateverBefallsABackend(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of commands are run")
	}
	for kind, make := range worlds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := make(t)
			w.kind = kind
			m := &misfortune{world: w, log: t.TempDir() + "/log"}
			env := map[string]string{"TF_VAR_log": m.log, cloud.TimeoutVariable: patient}
			maps.Copy(env, w.env)
			w.env = env
			a, b := w.directory(t, w.body, recording), w.directory(t, w.body, recording)
			for _, d := range []*directory{a, b} {
				d.must("init")
			}
			a.must("apply", "-auto-approve", "-var=value=0")
			played := 0
			for i, r := range rows {
				if r.long && !*all {
					continue
				}
				played++
				if !t.Run(r.claim, func(t *testing.T) {
					c, d := *a, *b
					c.t, d.t = t, t
					m.a, m.b = &c, &d
					defer m.mend()
					r.play(m, strconv.Itoa(i+1))
				}) {
					return // the next row would begin with what this one has left
				}
			}
			if n := b.serial(); n <= played {
				t.Errorf("after %d changes the serial is %d", played, n)
			}
		})
	}
}

// settled claims that both directories see what a value asks for, and that it was made once.
func (m *misfortune) settled(value string) {
	m.b.t.Helper()
	m.b.unchanged("-var=value=" + value)
	m.a.unchanged("-var=value=" + value)
	text, err := os.ReadFile(m.log)
	if n := strings.Count("\n"+string(text), "\n"+value+"\n"); err != nil || n != 1 {
		m.b.t.Errorf("it was made %d times: %v", n, err)
	}
}

// ended waits for a command that has to fail soon, and to say what is wrong.
func (m *misfortune) ended(p *process.Process) string {
	m.a.t.Helper()
	begun := time.Now()
	code, text := m.a.ends(p)
	if took := time.Since(begun); took > soon {
		m.a.t.Errorf("the command took %s to end", took)
	}
	if code == 0 || !strings.Contains(text, "Error: ") {
		m.a.t.Fatalf("the command ended with %d\n%s", code, text)
	}
	return text
}

// rescued claims that a command has left its state beside the configuration.
func (m *misfortune) rescued(text, value string) {
	m.a.t.Helper()
	saved, err := os.ReadFile(m.a.path("errored.tfstate"))
	if err != nil || !strings.Contains(text, "errored.tfstate") || !strings.Contains(string(saved), `"`+value+`"`) {
		m.a.t.Fatalf("errored.tfstate holds %s: %v\nThe command said:\n%s", saved, err, text)
	}
}

// free releases the lock that a command could not release.
func (m *misfortune) free() {
	m.b.t.Helper()
	if m.diesWithHolder {
		m.b.must("plan", "-lock-timeout=60s", "-var=value=0")
		return
	}
	code, text := m.b.ends(m.b.start("plan", "-var=value=0"))
	switch {
	case code == 0:
	case strings.Contains(text, "Error acquiring the state lock"):
		m.b.must("force-unlock", "-force", m.b.lockID(text))
	default:
		m.b.t.Fatalf("plan ended with %d\n%s", code, text)
	}
}

func inTheMiddle(how disorder) func(m *misfortune, value string) {
	return func(m *misfortune, value string) {
		p, release := m.a.holds(value)
		m.goes(how)
		release()
		m.rescued(m.ended(p), value)
		m.mend()
		m.free()
		m.a.must("state", "push", "-lock-timeout=60s", "errored.tfstate")
		if err := os.Remove(m.a.path("errored.tfstate")); err != nil {
			m.a.t.Error(err)
		}
		m.settled(value)
	}
}

func atTheBeginning(how disorder) func(m *misfortune, value string) {
	return func(m *misfortune, value string) {
		m.goes(how)
		m.ended(m.a.start("apply", "-auto-approve", "-var=value="+value))
		m.mend()
		m.free()
		m.a.must("apply", "-auto-approve", "-lock-timeout=60s", "-var=value="+value)
		m.settled(value)
	}
}

func busyForAMoment(m *misfortune, value string) {
	if m.database == nil { // a database that is busy lets nobody in, which is the row above
		n := 0
		m.faults.Set(func(*http.Request) faults.Fault {
			if n++; n%2 == 0 {
				return faults.Fault{}
			}
			return faults.Fault{Status: http.StatusTooManyRequests, RetryAfter: 1}
		})
	}
	m.a.must("apply", "-auto-approve", "-var=value="+value)
	m.mend()
	m.settled(value)
}

// answersLost has a command end as it may: what it has done is what counts.
func answersLost(m *misfortune, value string) {
	if m.database != nil {
		p, release := m.a.holds(value)
		m.database.cut()
		release()
		m.rescued(m.ended(p), value) // the lock ended with its session
	} else {
		n := 0
		m.faults.Set(func(*http.Request) faults.Fault {
			n++
			return faults.Fault{Lost: n%2 == 1}
		})
		p := m.a.start("apply", "-auto-approve", "-var=value="+value)
		if code, text := m.a.ends(p); code != 0 && !strings.Contains(text, "Error: ") {
			m.a.t.Errorf("apply ended with %d, and says\n%s", code, text)
		}
		m.mend()
		m.free()
	}
	m.a.must("apply", "-auto-approve", "-lock-timeout=60s", "-var=value="+value)
	m.settled(value)
}

func forbiddenMeanwhile(m *misfortune, value string) {
	p, release := m.a.holds(value)
	m.goes(forbidden)
	eventually(m.a.t, "the command says that it cannot write", func() bool {
		return strings.Contains(p.Output(), "cannot be written at the moment")
	})
	m.mend()
	release()
	if code, text := m.a.ends(p); code != 0 {
		m.a.t.Fatalf("apply ended with %d\n%s", code, text)
	}
	m.settled(value)
}

// stolen breaks the lock of a command at work, and writes in its place. The command must not write over that.
func stolen(m *misfortune, value string) {
	p, release := m.a.holds(value + "-robbed")
	if m.database != nil {
		m.database.cut()
	} else {
		text := m.b.fails("Error acquiring the state lock", "plan", "-var=value=0")
		m.b.must("force-unlock", "-force", m.b.lockID(text))
	}
	m.b.must("apply", "-auto-approve", "-lock-timeout=60s", "-var=value="+value)
	theirs := m.b.must("state", "pull")
	release()
	m.rescued(m.ended(p), value+"-robbed")
	m.b.unchanged("-var=value=" + value)
	if now := m.b.must("state", "pull"); now != theirs {
		m.a.t.Errorf("who had lost the lock has written\n%s", now)
	}
	m.a.fails("State changed in two places", "plan", "-lock-timeout=60s", "-var=value="+value)
	m.a.write("theirs.tfstate", theirs)
	m.a.must("state", "push", "-force", "theirs.tfstate")
	m.settled(value)
}

// clockOff has the service's clock differ from that of the machine. Where nothing is signed, that must not matter.
func clockOff(by time.Duration) func(m *misfortune, value string) {
	return func(m *misfortune, value string) {
		if m.database == nil { // the protocol of a database has no time
			m.faults.Ahead(by)
			defer m.faults.Ahead(0)
		}
		m.a.must("apply", "-auto-approve", "-var=value="+value)
		m.settled(value)
	}
}
