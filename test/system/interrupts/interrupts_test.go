// Package interrupts sends signals to real commands, at many moments, once and twice.
//
// The function examine checks what users rely on. -moments sets how many moments are tried; the default is small.
package interrupts

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/process"
	"github.com/millipede-iac/millipede/test/stage/site"
)

var moments = flag.Int("moments", 2, "how many moments of each command are tried")

func TestMain(m *testing.M) { site.Main(m) }

// many is a configuration whose commands mostly compute, rather than wait for providers.
const many = `
resource "terraform_data" "a" {
  count = 4000
  input = count.index
}
`

// stage is a command, with the site in which it runs.
type stage struct {
	configuration string
	remote        bool // the worker is a separate process
	// before prepares the site for the command.
	before func(s *site.Site)
	args   []string
	// finishes is set if the command completes its operations after the first signal, so that only the second signal
	// has a time limit.
	finishes bool
	// types is the text on standard input, which then stays open. If it is empty, there is no standard input.
	types string
}

// start starts the command.
func (st stage) start(s *site.Site) *process.Process {
	s.T.Helper()
	c := s.Command(append(st.args, "-no-color")...)
	if st.types != "" {
		c.Args = c.Args[:len(c.Args)-1] // console does not have the option -no-color
		r, w, err := os.Pipe()
		if err != nil {
			s.T.Fatal(err)
		}
		s.T.Cleanup(func() { _, _ = r.Close(), w.Close() })
		if _, err := w.WriteString(st.types); err != nil {
			s.T.Fatal(err)
		}
		c.Stdin = r
	}
	return site.Started(s.T, strings.Join(st.args, " "), c)
}

// busy is an expression that takes seconds.
const busy = `length([for a in range(1024) : [for b in range(1024) : sha256("${a} ${b}")]])`

// tested gives the site a test of its configuration.
func tested(s *site.Site) { s.Write("many.tftest.hcl", "run \"a\" {}\nrun \"b\" {}\n") }

// spent is how long a command may continue after the last signal, on an idle machine.
const spent = 2 * time.Second

func applied(s *site.Site) { s.Must("apply", "-auto-approve", "-no-color") }

// importable applies the configuration, and adds a block whose object can be imported.
func importable(s *site.Site) {
	applied(s)
	s.Write("one.tf", "resource \"terraform_data\" \"one\" {\n}\n")
}

// saved saves a plan.
func saved(s *site.Site) { s.Must("plan", "-out=saved", "-no-color") }

// cutShort interrupts an apply, so that its run can be resumed.
func cutShort(s *site.Site) {
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=2")
	site.Eventually(s.T, "something is created", func() bool { return s.Begun("create") > 0 })
	if err := p.Signal(os.Interrupt); err != nil {
		s.T.Fatal(err)
	}
	site.Exit(s.T, p)
}

// Only the phase that was running noticed a signal; the next phase began all the same. An apply of 4,000 resources
// printed "Gracefully shutting down..." and then "Apply complete!", with exit status 0.
func TestACommandThatIsInterruptedEndsSoonAndLosesNothing(t *testing.T) {
	for name, st := range map[string]stage{
		"plan of many":           {configuration: many, args: []string{"plan"}},
		"validate of many":       {configuration: many, args: []string{"validate"}},
		"apply of many":          {configuration: many, args: []string{"apply", "-auto-approve"}},
		"destroy of many":        {configuration: many, before: applied, args: []string{"destroy", "-auto-approve"}},
		"refresh of many":        {configuration: many, before: applied, args: []string{"refresh"}},
		"apply of slow machines": {configuration: site.Slow(8, 700), args: []string{"apply", "-auto-approve"}},
		"resume of slow machines": {configuration: site.Slow(8, 700), before: cutShort,
			args: []string{"runs", "resume"}},
		"apply with other workers": {configuration: site.Slow(8, 700), remote: true,
			args: []string{"apply", "-auto-approve"}},
		"destroy of slow machines": {configuration: site.Slow(8, 700), before: applied,
			args: []string{"destroy", "-auto-approve"}},
		"destroy with other workers": {
			configuration: site.Slow(8, 700), remote: true, before: applied, args: []string{"destroy", "-auto-approve"},
		},
		"refresh with other workers": {configuration: site.Slow(8, 700), remote: true, before: applied,
			args: []string{"refresh"}},
		"import among many": {
			configuration: many, before: importable, args: []string{"import", "terraform_data.one", "id"},
		},
		"test of many":          {configuration: many, before: tested, args: []string{"test"}, finishes: true},
		"console at the prompt": {configuration: many, args: []string{"console"}, types: "1\n"},
		"console at work":       {configuration: many, args: []string{"console"}, types: busy + "\n"},
		"moving many": {configuration: many, before: applied, args: []string{"state", "mv",
			"terraform_data.a", "terraform_data.b"}},
		"showing many":         {configuration: many, before: applied, args: []string{"show", "-json"}},
		"a saved plan of many": {configuration: many, before: saved, args: []string{"apply", "saved"}},
		"init":                 {configuration: site.Slow(1, 1), args: []string{"init"}},
		"providers lock":       {configuration: site.Slow(1, 1), args: []string{"providers", "lock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range *moments {
				after := time.Duration(i+1) * 2400 * time.Millisecond / time.Duration(*moments+1)
				signal := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[i%2]
				t.Run(fmt.Sprintf("%s after %s", signal, after.Round(time.Millisecond)), func(t *testing.T) {
					examine(t, st, after, signal, i%4 > 1)
				})
			}
		})
	}
}

func examine(t *testing.T, st stage, after time.Duration, signal syscall.Signal, twice bool) {
	s := site.New(t, st.configuration)
	if st.remote {
		s.Server()
		s.Worker("default")
	}
	s.Must("init")
	if st.before != nil {
		st.before(s)
	}
	p := st.start(s)
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-p.Done(): // the command has ended before the signal
		s.Agree()
		return
	case <-timer.C:
	}
	at := time.Now()
	limit := spent
	send := func() {
		if err := p.Signal(signal); err != nil && !strings.Contains(err.Error(), "already finished") {
			t.Fatal(err)
		}
	}
	send()
	if twice {
		if _, err := p.Await(site.Waiting(t), "nterrupt received"); err == nil {
			send()
		}
		at, limit = time.Now(), time.Second
	}
	code := site.Exit(t, p)
	if took := time.Since(at); took > site.Slowness*limit+time.Second && (twice || !st.finishes) {
		t.Errorf("the command continued for %s after the signal", took)
	}
	_, later, told := strings.Cut(p.Output(), "nterrupt received")
	if told && code == 0 {
		t.Error("the command was interrupted, but its exit status is 0")
	}
	const onTheWay = 64 // operations that the loop had started already when the signal came
	if n := strings.Count(later, ": Creating...") + strings.Count(later, ": Destroying..."); n > onTheWay {
		t.Errorf("%d operations were started after the signal", n)
	}
	if !twice { // after two signals, operations of the embedded worker may be in doubt
		s.Agree()
	}
}
