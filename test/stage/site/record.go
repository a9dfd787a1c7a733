package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Call is a call that a test provider received: the fields of its record that tests use.
type Call struct {
	Op, Type, Name, ID, Worker, Pool string
	// PID is the provider's process.
	PID int
	// Ended is set if the provider answered; failed if it answered with an error.
	Ended, Failed bool
}

// Calls reads the record: the calls of some operations, in the order of their starts.
func (s *Site) Calls(ops ...string) []Call {
	s.T.Helper()
	text, err := os.ReadFile(s.Record)
	if err != nil && !os.IsNotExist(err) {
		s.T.Fatal(err)
	}
	type key struct{ pid, call int }
	open := map[key]int{}
	wanted := make([][]byte, len(ops))
	for i, op := range ops {
		wanted[i] = []byte(strconv.Quote(op))
	}
	var out []Call
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is still being written
		}
		if !slices.ContainsFunc(wanted, func(w []byte) bool { return bytes.Contains(line, w) }) {
			continue // most of a long record belongs to other operations, and a test reads it a hundred times a second
		}
		var e struct {
			PID, Call                               int
			Op, Phase, Type, Name, ID, Worker, Pool string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			s.T.Fatalf("the record: %v in %s", err, line)
		}
		if !slices.Contains(ops, e.Op) {
			continue
		}
		k := key{e.PID, e.Call}
		if e.Phase == "start" {
			open[k] = len(out)
			out = append(out, Call{Op: e.Op, Type: e.Type, Name: e.Name, ID: e.ID, Worker: e.Worker,
				Pool: e.Pool, PID: e.PID})
			continue
		}
		c := &out[open[k]]
		c.Ended, c.Failed = true, e.Phase == "error"
		if e.ID != "" {
			c.ID = e.ID
		}
	}
	return out
}

// Finished counts the calls of an operation that succeeded.
func (s *Site) Finished(op string) int {
	s.T.Helper()
	n := 0
	for _, c := range s.Calls(op) {
		if c.Ended && !c.Failed {
			n++
		}
	}
	return n
}

// Begun counts the calls of an operation that were started.
func (s *Site) Begun(op string) int {
	s.T.Helper()
	return len(s.Calls(op))
}

// OnceEach checks that no operation was started twice for one object.
func (s *Site) OnceEach(op string) {
	s.T.Helper()
	starts := map[string]int{}
	for _, c := range s.Calls(op) {
		starts[c.Type+" "+c.Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(starts)) {
		if starts[name] > 1 {
			s.T.Errorf("the %s of %s was started %d times", op, name, starts[name])
		}
	}
}

// CreatedOnce checks that n creations were finished, and that none was started twice.
func (s *Site) CreatedOnce(n int) {
	s.T.Helper()
	if finished := s.Finished("create"); finished != n {
		s.T.Errorf("%d creations were finished, not %d", finished, n)
	}
	s.OnceEach("create")
}

// Most returns the largest number of concurrent creations, updates and deletions in the record. flags select among
// them, as for the command record.
func (s *Site) Most(flags ...string) int {
	s.T.Helper()
	args := append([]string{"-ops=create,update,delete"}, flags...)
	out, err := exec.Command(Built.Record, append(args, s.Record)...).Output()
	if err != nil {
		s.T.Fatal(err)
	}
	var summary struct {
		MaxConcurrent map[string]int `json:"max_concurrent"`
	}
	if err := json.Unmarshal(out, &summary); err != nil {
		s.T.Fatal(err)
	}
	return summary.MaxConcurrent["all"]
}

// Instance is an object in the state.
type Instance struct{ Address, Type, ID string }

// Snapshot is the part of the state file that tests use.
type Snapshot struct {
	// Objects are those of managed resources, in the file's order.
	Objects []Instance
	// Doubts are the addresses in doubt, with their operations.
	Doubts map[string]string
}

// State reads the state file.
func (s *Site) State() Snapshot {
	s.T.Helper()
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
	text, err := os.ReadFile(filepath.Join(s.Dir, "terraform.tfstate"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.T.Fatal(err)
	}
	if len(text) == 0 {
		return Snapshot{} // it was created for the lock, or does not exist yet
	}
	if err := json.Unmarshal(text, &file); err != nil {
		s.T.Fatal(err)
	}
	out := Snapshot{Doubts: map[string]string{}}
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
			out.Objects = append(out.Objects, Instance{a, r.Type, i.Attributes.ID})
		}
	}
	for _, d := range file.Millipede.InDoubt {
		out.Doubts[d.Address] = d.Operation
	}
	return out
}

// Agree checks that state and cloud agree: the state's objects of fleet are those of the cloud, each once, except
// for those in doubt.
func (s *Site) Agree() {
	s.T.Helper()
	after := s.State()
	inState := map[string]string{}
	for _, i := range after.Objects {
		if !strings.HasPrefix(i.Type, "fleet") {
			continue
		}
		if other := inState[i.ID]; other != "" {
			s.T.Errorf("the state has the object %s twice, at %s and %s", i.ID, other, i.Address)
		}
		inState[i.ID] = i.Address
	}
	inCloud := s.Objects()
	for id, address := range inState {
		if inCloud[id] == "" {
			s.T.Errorf("the state has %s (%s), which the cloud has not", address, id)
		}
	}
	for id := range inCloud {
		if inState[id] == "" && after.Doubts[Machine(NameOf(id))] == "" {
			s.T.Errorf("the cloud has %s, which the state has not", id)
		}
	}
}

// NameOf returns the name of the object with an id, which consists of the name, a dash and twelve digits.
func NameOf(id string) string { return id[:strings.LastIndexByte(id, '-')] }

// Wants fails the test unless the text contains each of the parts.
func Wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("there is no %q in:\n%s", p, Tail(text))
		}
	}
}
