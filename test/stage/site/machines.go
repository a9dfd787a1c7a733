package site

import (
	"fmt"
	"strings"
)

// FleetOnly is the beginning of a configuration that needs one test provider.
const FleetOnly = `
terraform {
  required_providers {
    fleet = { source = "millipede/fleet" }
  }
}
`

// BulkOnly is the beginning of a configuration that needs only the test provider for very many objects.
const BulkOnly = `
terraform {
  required_providers {
    bulk = { source = "millipede/bulk" }
  }
}
`

// Slow is a configuration of machines whose creation takes a while.
func Slow(count, ms int) string {
	return FleetOnly + fmt.Sprintf(`
resource "fleet_machine" "a" {
  count     = %[1]d
  name      = "a-${count.index}"
  create_ms = %[2]d
  delete_ms = %[2]d
}
`, count, ms)
}

// Cut returns the addresses of the machines whose creation was started and has not ended: at a worker, or at all if
// the name is empty. Once the executing process is gone, they will never end.
func (s *Site) Cut(worker string) []string {
	s.T.Helper()
	var out []string
	for _, c := range s.Calls("create") {
		if !c.Ended && (worker == "" || c.Worker == worker) {
			out = append(out, Machine(c.Name))
		}
	}
	return out
}

// Busy reports whether a worker has finished a creation and started another one.
func (s *Site) Busy(w *Worker) bool {
	s.T.Helper()
	var begun, ended int
	for _, c := range s.Calls("create") {
		switch {
		case c.Worker != w.ID:
		case c.Ended:
			ended++
		default:
			begun++
		}
	}
	return begun > 0 && ended > 0
}

// Machine returns the address of a machine of the slow configuration: its name ends with a dash and its index.
func Machine(name string) string {
	return "fleet_machine.a[" + name[strings.LastIndexByte(name, '-')+1:] + "]"
}

// Surfaced checks that a command failed because operations were cut off: that its output and the state show each of
// them as in doubt, and in addition those that were about to start or had just ended, at most slots in total; that
// no creation was started twice; and that all other machines of count exist.
func (s *Site) Surfaced(r Result, cut []string, count, slots int) {
	s.T.Helper()
	if r.Code != 1 {
		s.T.Errorf("exit status %d of a command that leaves operations in doubt:\n%s", r.Code, Tail(r.Text))
	}
	s.OnceEach("create")
	after := s.State()
	for _, address := range cut {
		if after.Doubts[address] != "create" {
			s.T.Errorf("the creation of %s was cut off, and the state does not have it in doubt", address)
		}
	}
	for address := range after.Doubts {
		Wants(s.T, r.Text, address+" is in doubt")
	}
	if n := len(after.Doubts); n > slots {
		s.T.Errorf("%d operations are in doubt, and only %d can have been under way", n, slots)
	}
	if n := len(after.Objects) + len(after.Doubts); n != count {
		s.T.Errorf("%d machines are in the state and %d in doubt, of %d", len(after.Objects), len(after.Doubts), count)
	}
	s.Agree()
}

// GoesOn resolves the doubts, like a user who looks at the cloud, and checks that a command then creates the
// missing machines of count.
func (s *Site) GoesOn(count int, command ...string) {
	s.T.Helper()
	ids := map[string]string{}
	for id := range s.Objects() {
		ids[Machine(NameOf(id))] = id
	}
	for address := range s.State().Doubts {
		if id := ids[address]; id != "" {
			s.Must("runs", "resolve", address, "-created="+id, "-no-color")
		} else {
			s.Must("runs", "resolve", address, "-not-created", "-no-color")
		}
	}
	s.Must(append(command, "-no-color")...)
	after := s.State()
	if len(after.Objects) != count || len(after.Doubts) > 0 {
		s.T.Errorf("%d of %d machines are in the state, and %v in doubt", len(after.Objects), count, after.Doubts)
	}
	s.Agree()
	s.Must("apply", "-auto-approve", "-no-color") // the cloud does not have all attributes of adopted objects
	s.Unchanged()
}
