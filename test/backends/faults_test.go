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

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
	"github.com/millipede-iac/millipede/test/stage/process"
)

const (
	// patience is how many seconds the commands of these tests wait for a response.
	patience = "5"
	// soon is how long a command may take to end while its storage service fails.
	soon = 90 * time.Second
)

// recording is a configuration that records each creation in a file, so that a test notices an object that was created
// twice because its first creation was lost.
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

// scenario is a storage service that fails while two directories use it.
type scenario struct {
	*world
	a, b *directory
	log  string // has a line for each creation
}

var all = flag.Bool("all", false, "run the slow scenarios, too")

// scenarios are the faults of a storage service. After a scenario the state holds its value, which no other scenario
// uses. The slow ones wait for retries, or for timeouts that users set.
var scenarios = []struct {
	claim string
	long  bool
	run   func(m *scenario, value string)
}{
	{claim: "it becomes unreachable during an apply, and reachable again", run: inTheMiddle(unreachable)},
	{claim: "it responds 500 from the middle of an apply on", long: true, run: inTheMiddle(failing)},
	{claim: "it responds 429 from the middle of an apply on", long: true, run: inTheMiddle(busy)},
	{claim: "it hangs from the middle of an apply on", long: true, run: inTheMiddle(silent)},
	{claim: "it denies writes from the middle of an apply on", run: inTheMiddle(forbidden)},
	{claim: "it is unreachable when a command begins", long: true, run: atTheBeginning(unreachable)},
	{claim: "it responds 500 when a command begins", long: true, run: atTheBeginning(failing)},
	{claim: "it responds 429 when a command begins", long: true, run: atTheBeginning(busy)},
	{claim: "it hangs when a command begins", long: true, run: atTheBeginning(silent)},
	{claim: "it responds 429 to every other request", long: true, run: busyHalfTheTime},
	{claim: "every other response is lost", run: responsesLost},
	{claim: "it denies writes during a run, but accepts the last snapshot", long: true, run: forbiddenMeanwhile},
	{claim: "the lock is broken, and somebody else writes", run: lockStolen},
	{claim: "the clock is an hour ahead", run: clockWrong(-time.Hour)},
	{claim: "the clock is an hour behind", run: clockWrong(time.Hour)},
}

func TestNothingIsLostWhenTheStorageOfABackendFails(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of commands are run")
	}
	for kind, make := range worlds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := make(t)
			w.kind = kind
			m := &scenario{world: w, log: t.TempDir() + "/log"}
			env := map[string]string{"TF_VAR_log": m.log, cloud.TimeoutVariable: patience}
			maps.Copy(env, w.env)
			w.env = env
			a, b := w.directory(t, w.body, recording), w.directory(t, w.body, recording)
			for _, d := range []*directory{a, b} {
				d.must("init")
			}
			a.must("apply", "-auto-approve", "-var=value=0")
			done := 0
			for i, r := range scenarios {
				if r.long && !*all {
					continue
				}
				done++
				if !t.Run(r.claim, func(t *testing.T) {
					c, d := *a, *b
					c.t, d.t = t, t
					m.a, m.b = &c, &d
					defer m.repair()
					r.run(m, strconv.Itoa(i+1))
				}) {
					return // the next scenario would begin with the remains of this one
				}
			}
			if n := b.serial(); n <= done {
				t.Errorf("after %d changes the serial is %d", done, n)
			}
		})
	}
}

// converged checks that plans in both directories find nothing to change with the value, and that the value's object
// was created once.
func (m *scenario) converged(value string) {
	m.b.t.Helper()
	m.b.unchanged("-var=value=" + value)
	m.a.unchanged("-var=value=" + value)
	text, err := os.ReadFile(m.log)
	if n := strings.Count("\n"+string(text), "\n"+value+"\n"); err != nil || n != 1 {
		m.b.t.Errorf("the object of the value %s was created %d times: %v", value, n, err)
	}
}

// failsSoon waits for a command, and checks that it fails soon and with a diagnostic.
func (m *scenario) failsSoon(p *process.Process) string {
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

// keptLocally checks that a command has written its state to errored.tfstate, because it could not store it.
func (m *scenario) keptLocally(text, value string) {
	m.a.t.Helper()
	saved, err := os.ReadFile(m.a.path("errored.tfstate"))
	if err != nil || !strings.Contains(text, "errored.tfstate") || !strings.Contains(string(saved), `"`+value+`"`) {
		m.a.t.Fatalf("errored.tfstate holds %s: %v\nThe command said:\n%s", saved, err, text)
	}
}

// unlock releases the lock that a command could not release.
func (m *scenario) unlock() {
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

func inTheMiddle(how outage) func(m *scenario, value string) {
	return func(m *scenario, value string) {
		p, release := m.a.holds(value)
		m.fail(how)
		release()
		m.keptLocally(m.failsSoon(p), value)
		m.repair()
		m.unlock()
		m.a.must("state", "push", "-lock-timeout=60s", "errored.tfstate")
		if err := os.Remove(m.a.path("errored.tfstate")); err != nil {
			m.a.t.Error(err)
		}
		m.converged(value)
	}
}

func atTheBeginning(how outage) func(m *scenario, value string) {
	return func(m *scenario, value string) {
		m.fail(how)
		m.failsSoon(m.a.start("apply", "-auto-approve", "-var=value="+value))
		m.repair()
		m.unlock()
		m.a.must("apply", "-auto-approve", "-lock-timeout=60s", "-var=value="+value)
		m.converged(value)
	}
}

func busyHalfTheTime(m *scenario, value string) {
	if m.database == nil { // a busy database accepts no connections: another scenario has that
		n := 0
		m.faults.Set(func(*http.Request) faults.Fault {
			if n++; n%2 == 0 {
				return faults.Fault{}
			}
			return faults.Fault{Status: http.StatusTooManyRequests, RetryAfter: 1}
		})
	}
	m.a.must("apply", "-auto-approve", "-var=value="+value)
	m.repair()
	m.converged(value)
}

// responsesLost accepts success and failure of the first apply, and checks only what it has done.
func responsesLost(m *scenario, value string) {
	if m.database != nil {
		p, release := m.a.holds(value)
		m.database.cut()
		release()
		m.keptLocally(m.failsSoon(p), value) // the end of the session has released the lock
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
		m.repair()
		m.unlock()
	}
	m.a.must("apply", "-auto-approve", "-lock-timeout=60s", "-var=value="+value)
	m.converged(value)
}

func forbiddenMeanwhile(m *scenario, value string) {
	p, release := m.a.holds(value)
	m.fail(forbidden)
	eventually(m.a.t, "the command reports that it cannot write", func() bool {
		return strings.Contains(p.Output(), "cannot be written at the moment")
	})
	m.repair()
	release()
	if code, text := m.a.ends(p); code != 0 {
		m.a.t.Fatalf("apply ended with %d\n%s", code, text)
	}
	m.converged(value)
}

// lockStolen breaks the lock of a running apply, and applies another value. The first apply must not overwrite that.
func lockStolen(m *scenario, value string) {
	p, release := m.a.holds(value + "-overtaken")
	if m.database != nil {
		m.database.cut()
	} else {
		text := m.b.fails("Error acquiring the state lock", "plan", "-var=value=0")
		m.b.must("force-unlock", "-force", m.b.lockID(text))
	}
	m.b.must("apply", "-auto-approve", "-lock-timeout=60s", "-var=value="+value)
	theirs := m.b.must("state", "pull")
	release()
	m.keptLocally(m.failsSoon(p), value+"-overtaken")
	m.b.unchanged("-var=value=" + value)
	if now := m.b.must("state", "pull"); now != theirs {
		m.a.t.Errorf("the command that had lost the lock has written\n%s", now)
	}
	m.a.fails("State changed in two places", "plan", "-lock-timeout=60s", "-var=value="+value)
	m.a.write("theirs.tfstate", theirs)
	m.a.must("state", "push", "-force", "theirs.tfstate")
	m.converged(value)
}

// clockWrong sets the service's clock to another time than the machine's. A service that checks signatures then rejects
// requests that have the machine's time, and the command has to use the service's.
func clockWrong(by time.Duration) func(m *scenario, value string) {
	return func(m *scenario, value string) {
		if m.database == nil { // the database's protocol has no timestamps
			m.faults.Ahead(by)
			defer m.faults.Ahead(0)
		}
		m.a.must("apply", "-auto-approve", "-var=value="+value)
		m.converged(value)
	}
}
