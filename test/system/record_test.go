package system

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// call is a call that a test provider received: the fields of its record that tests ask for.
type call struct {
	Op, Type, Name, ID, Worker, Pool string
	// ended tells that the provider answered; failed that it answered with an error.
	ended, failed bool
}

// calls reads the record: the calls of an operation, in the order of their starts.
func (s *site) calls(op string) []call {
	s.t.Helper()
	text, err := os.ReadFile(s.record)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	type key struct{ pid, call int64 }
	open := map[key]int{}
	var out []call
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is still being written
		}
		var e struct {
			PID, Call                               int64
			Op, Phase, Type, Name, ID, Worker, Pool string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			s.t.Fatalf("the record: %v in %s", err, line)
		}
		if e.Op != op {
			continue
		}
		k := key{e.PID, e.Call}
		if e.Phase == "start" {
			open[k] = len(out)
			out = append(out, call{Op: e.Op, Type: e.Type, Name: e.Name, ID: e.ID, Worker: e.Worker, Pool: e.Pool})
			continue
		}
		c := &out[open[k]]
		c.ended, c.failed = true, e.Phase == "error"
		if e.ID != "" {
			c.ID = e.ID
		}
	}
	return out
}

// finished counts the calls of an operation that succeeded.
func (s *site) finished(op string) int {
	s.t.Helper()
	n := 0
	for _, c := range s.calls(op) {
		if c.ended && !c.failed {
			n++
		}
	}
	return n
}

// begun counts the calls of an operation that were started.
func (s *site) begun(op string) int {
	s.t.Helper()
	return len(s.calls(op))
}

// onceEach claims that no operation was started twice for one object.
func (s *site) onceEach(op string) {
	s.t.Helper()
	starts := map[string]int{}
	for _, c := range s.calls(op) {
		starts[c.Type+" "+c.Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(starts)) {
		if starts[name] > 1 {
			s.t.Errorf("the %s of %s was started %d times", op, name, starts[name])
		}
	}
}

// most is the largest number of creations, updates and deletions that ran at one moment, by the record. flags choose
// among them, as the command record has them.
func (s *site) most(flags ...string) int {
	s.t.Helper()
	args := append([]string{"-ops=create,update,delete"}, flags...)
	out, err := exec.Command(built.record, append(args, s.record)...).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	var summary struct {
		MaxConcurrent map[string]int `json:"max_concurrent"`
	}
	if err := json.Unmarshal(out, &summary); err != nil {
		s.t.Fatal(err)
	}
	return summary.MaxConcurrent["all"]
}

// instance is an object of the state.
type instance struct{ address, typ, id string }

// snapshot is the part of the state file that tests ask for.
type snapshot struct {
	// objects are those of managed resources, in the file's order.
	objects []instance
	// doubts are the addresses in doubt, with the operation whose outcome is not known.
	doubts map[string]string
}

// state reads the state file.
func (s *site) state() snapshot {
	s.t.Helper()
	var file struct {
		Resources []struct {
			Module, Mode, Type, Name string
			Instances                []struct {
				Key        json.RawMessage `json:"index_key"`
				Attributes struct{ ID string }
			}
		}
		Millipede struct {
			InDoubt []struct{ Address, Operation string } `json:"in_doubt"`
		}
	}
	if err := json.Unmarshal([]byte(s.read("terraform.tfstate")), &file); err != nil {
		s.t.Fatal(err)
	}
	out := snapshot{doubts: map[string]string{}}
	for _, r := range file.Resources {
		if r.Mode != "managed" {
			continue
		}
		for _, i := range r.Instances {
			a := r.Type + "." + r.Name
			if r.Module != "" {
				a = r.Module + "." + a
			}
			if len(i.Key) > 0 {
				a += "[" + string(i.Key) + "]"
			}
			out.objects = append(out.objects, instance{a, r.Type, i.Attributes.ID})
		}
	}
	for _, d := range file.Millipede.InDoubt {
		out.doubts[d.Address] = d.Operation
	}
	return out
}

// agree claims that state and cloud tell the same: the state's objects of fleet are those of the cloud, each once,
// except for those that the state has in doubt.
func (s *site) agree() {
	s.t.Helper()
	after := s.state()
	inState := map[string]string{}
	for _, i := range after.objects {
		if !strings.HasPrefix(i.typ, "fleet") {
			continue
		}
		if other := inState[i.id]; other != "" {
			s.t.Errorf("the state has the object %s twice, at %s and %s", i.id, other, i.address)
		}
		inState[i.id] = i.address
	}
	inCloud := s.objects()
	for id, address := range inState {
		if inCloud[id] == "" {
			s.t.Errorf("the state has %s (%s), which the cloud has not", address, id)
		}
	}
	for id := range inCloud {
		if inState[id] == "" && after.doubts[machine(nameOf(id))] == "" {
			s.t.Errorf("the cloud has %s, which the state has not", id)
		}
	}
}

// nameOf returns the name of the object with an id, which is the name, a dash and twelve digits.
func nameOf(id string) string { return id[:strings.LastIndexByte(id, '-')] }

// wants fails the test unless the text holds each of the parts.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("there is no %q in:\n%s", p, tail(text))
		}
	}
}
