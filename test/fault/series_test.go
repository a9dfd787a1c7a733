package fault

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/disk"
	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/test/stage/process"
	"github.com/millipede-iac/millipede/test/stage/proxy"
	"github.com/millipede-iac/millipede/test/stage/site"
)

var seed = flag.Uint64("seed", 1, "the seed of the series; it determines which faults are injected, and when")

const (
	// perCommand is the maximum number of faults during one command, so that it can complete.
	perCommand = 10
	// crowd is how many machines a command works on.
	crowd = 24
)

// series is a trial in which all kinds of processes and disks fail, in an order that the seed determines.
type series struct {
	*trial
	chance  *rand.Rand
	server  *nats.Server
	workers []*site.Worker
	proxies []*proxy.Proxy
	// disks has the disks of the workers' journals; estate and streams are those of the coordinator and of the server.
	// They are nil if this process has no permission to mount.
	disks           []*disk.Volume
	estate, streams *disk.Volume
	made            map[string]int // faults, by kind
	total           int

	command []string
	running *process.Process
}

// Machines are created, changed and destroyed repeatedly while processes are killed, paused and disconnected. After
// each completed command, all guarantees are checked.
func TestASeriesOfFaultsLosesNothingAndDoesNothingTwice(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	s := &series{trial: newTrial(t, 0, 0), chance: rand.New(rand.NewPCG(*seed, 0)), made: map[string]int{}}
	s.server = s.Server()
	s.streams = streams(s.Site, s.server)
	s.estate = volume(t, filepath.Join(s.Dir, ".millipede"), estateSize)
	for range 2 {
		s.addWorker()
	}
	s.Must("init")
	for round := 0; s.total < *kills; round++ {
		s.generation = "g" + strconv.Itoa(round)
		for _, step := range []struct {
			size    string
			command []string
			count   int
		}{{"small", apply, crowd}, {"large", apply, crowd}, {"large", destroy, 0}} {
			s.Write("main.tf", machines(s.generation, crowd, 100+s.chance.IntN(300), step.size))
			s.suffer(step.command)
			s.goOn(step.command)
			s.holds()
			if after := s.State(); len(after.Objects) != step.count {
				t.Errorf("after %q, %d machines are in the state, not %d", step.command, len(after.Objects), step.count)
			}
			if t.Failed() {
				t.Fatalf("after %d faults %v, in round %d", s.total, s.made, round)
			}
		}
	}
	if left := s.Objects(); len(left) > 0 {
		t.Errorf("the cloud still has %v", left)
	}
	t.Logf("%d faults %v; %d creations, %d updates and %d deletions; %d creations in doubt; 0 violations",
		s.total, s.made, s.Begun("create"), s.Begun("update"), s.Begun("delete"), s.doubts)
}

// addWorker starts a worker that reaches the server through a proxy.
func (s *series) addWorker() {
	s.T.Helper()
	p, err := proxy.Start(strings.TrimPrefix(s.NATS, "nats://"))
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() {
		if err := p.Close(); err != nil {
			s.T.Error(err)
		}
	})
	w := s.NewWorker("default")
	w.URL = "nats://" + p.Address()
	s.disks = append(s.disks, volume(s.T, filepath.Join(w.Dir, "journal"), journalSize))
	w.Start()
	s.workers, s.proxies = append(s.workers, w), append(s.proxies, p)
}

// suffer runs a command, and the commands that resume its run, under faults. It returns when the command has ended or
// the maximum number of faults is reached, after all faults were repaired.
func (s *series) suffer(command []string) {
	s.T.Helper()
	s.command = command
	s.running = s.Start(command...)
	for n := 0; n < perCommand && s.total < *kills; n++ {
		if s.over(s.between(20, 900)) {
			return
		}
		broken := []repair{s.strike()}
		if s.chance.IntN(4) == 0 {
			broken = append(broken, s.strike())
		}
		wait(s.lasting())
		slices.SortStableFunc(broken, func(a, b repair) int { return a.order - b.order })
		for _, r := range broken {
			r.do()
		}
	}
	site.Exit(s.T, s.running)
}

// over waits a while, and reports whether the command has ended.
func (s *series) over(d time.Duration) bool {
	select {
	case <-s.running.Done():
		return true
	case <-time.After(d):
		return false
	}
}

func (s *series) between(least, most int) time.Duration {
	return time.Duration(least+s.chance.IntN(most-least)) * time.Millisecond
}

// lasting draws how long a fault lasts: mostly a shorter time than that of a lease, sometimes a longer one.
func (s *series) lasting() time.Duration {
	if s.chance.IntN(8) == 0 {
		return s.between(4500, 7500)
	}
	return s.between(0, 1200)
}

// repair is the repair of a fault. Repairs are made by order, so that processes find at their start what they need.
type repair struct {
	order int
	do    func()
}

// strike injects one fault, and returns its repair.
func (s *series) strike() repair {
	s.T.Helper()
	i := s.chance.IntN(len(s.workers))
	w, p := s.workers[i], s.proxies[i]
	kind := []string{"coordinator killed", "coordinator killed", "worker killed", "worker killed", "plugin killed",
		"server killed",
		"worker paused", "coordinator paused", "worker cut off", "worker unheard",
		"disk of a worker full", "disk of the coordinator full", "disk of the server full"}[s.chance.IntN(13)]
	var mend func()
	order := 0
	switch kind {
	case "coordinator killed":
		order = 2
		must(s.T, s.running.Kill())
		mend = func() { s.again() }
	case "coordinator paused":
		mend = s.pause(s.running)
	case "worker killed":
		order = 1
		must(s.T, w.Kill())
		mend = func() {
			select {
			case <-w.Done(): // not if the worker was killed twice, and the other repair has restarted it already
				w.Start()
			default:
			}
		}
	case "worker paused":
		mend = s.pause(w.Process)
	case "plugin killed":
		victim := s.plugin(w)
		if victim == 0 {
			return repair{do: func() {}} // no plugin runs, so there is no fault
		}
		_ = syscall.Kill(victim, syscall.SIGKILL) // an error means that the plugin has just ended
		mend = func() {}
	case "server killed":
		must(s.T, s.server.Kill())
		mend = func() {
			if err := s.server.Kill(); err != nil { // after two kills, the other repair may have restarted it already
				s.T.Fatal(err)
			}
			must(s.T, s.server.Restart(site.Waiting(s.T)))
		}
	case "worker cut off":
		p.Cut()
		mend = p.Mend
	case "worker unheard":
		p.Hold()
		mend = p.Mend
	case "disk of a worker full":
		order, mend = -1, s.fill(s.disks[i])
	case "disk of the coordinator full":
		order = 2
		freed := s.fill(s.estate)
		mend = func() {
			freed()
			s.againIfEnded()
		}
	case "disk of the server full":
		order = -1 // a killed server can only be restarted after its disk has space
		freed := s.fill(s.streams)
		mend = func() { // after a failed write, the server refuses all writes until it is restarted
			freed()
			must(s.T, s.server.Kill())
			must(s.T, s.server.Restart(site.Waiting(s.T)))
		}
	}
	s.total++
	s.made[kind]++
	return repair{order, mend}
}

// fill fills a disk; the returned function frees the space.
func (s *series) fill(v *disk.Volume) func() {
	s.T.Helper()
	if v == nil {
		return func() {}
	}
	must(s.T, v.Fill())
	return func() { must(s.T, v.Free()) }
}

// againIfEnded resumes a run that has ended by itself because nothing could be recorded.
func (s *series) againIfEnded() {
	s.T.Helper()
	if s.over(50 * time.Millisecond) {
		s.again()
	}
}

// again resumes the run whose coordinator was killed, or repeats the command if the run had not begun.
func (s *series) again() {
	s.T.Helper()
	select {
	case <-s.running.Done():
	default:
		return // after two kills, the other repair has resumed the run already
	}
	next := resume
	for range 3 {
		s.running = s.Start(next...)
		if !s.over(300 * time.Millisecond) {
			return
		}
		next = follows(site.Result{Code: site.Exit(s.T, s.running), Text: s.running.Output()}, next, s.command)
	}
}

// pause stops a process; the returned function continues it.
func (s *series) pause(p *process.Process) func() {
	select {
	case <-p.Done():
		return func() {}
	default:
	}
	_ = p.Signal(syscall.SIGSTOP) // an error means that the process has just ended
	return func() { _ = p.Signal(syscall.SIGCONT) }
}

// plugin returns the process ID of a worker's plugin; 0 if there is none, or if the system does not tell.
func (s *series) plugin(w *site.Worker) int {
	s.T.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	var found []int
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", w.PID()))
	must(s.T, err)
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			must(s.T, err)
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		return 0
	}
	slices.Sort(found)
	return found[s.chance.IntN(len(found))]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
