package document

import (
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/coordinator/suite"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// The messages for the first and the second interrupt of tests.
const (
	InterruptedText = "\nInterrupt received.\nPlease wait for Millipede to exit or data loss may occur.\nGracefully " +
		"shutting down...\n"
	CancelledText = "\nTwo interrupts received. Exiting immediately. Note that data loss may have occurred.\n"
)

// TestSummary counts the runs of a suite by status.
type TestSummary struct {
	Status  string `json:"status"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Errored int    `json:"errored"`
	Skipped int    `json:"skipped"`
}

// TestSummaryOf counts the runs of a suite.
func TestSummaryOf(s *suite.Suite) TestSummary {
	out := TestSummary{Status: s.Status.String()}
	for _, f := range s.Files {
		for _, r := range f.Runs {
			switch r.Status {
			case suite.Skip:
				out.Skipped++
			case suite.Pass:
				out.Passed++
			case suite.Fail:
				out.Failed++
			case suite.Error:
				out.Errored++
			}
		}
	}
	return out
}

func (s TestSummary) Text() string {
	head := fmt.Sprintf("Failure! %d passed, %d failed", s.Passed, s.Failed+s.Errored)
	switch s.Status {
	case "pending", "skip":
		head = "Executed 0 tests"
	case "pass":
		head = fmt.Sprintf("Success! %d passed, %d failed", s.Passed, s.Failed+s.Errored)
	}
	if s.Skipped > 0 {
		head += fmt.Sprintf(", %d skipped", s.Skipped)
	}
	return head + "."
}

// Leftover is an object that a test has left behind.
type Leftover struct {
	Instance   string `json:"instance"`
	DeposedKey string `json:"deposed_key,omitempty"`
}

// LeftBehind reports whether a test has left managed objects behind.
func LeftBehind(s *state.State) bool { return len(Leftovers(s)) > 0 }

// Leftovers are the objects of a state, if any of them is managed.
func Leftovers(s *state.State) []Leftover {
	addrs := s.Addrs()
	if !slices.ContainsFunc(addrs, func(a addr.Instance) bool { return a.Resource.Mode == addr.Managed }) {
		return nil
	}
	var out []Leftover
	for _, a := range addrs {
		i := s.Instance(a)
		if i.Current != nil {
			out = append(out, Leftover{Instance: a.String()})
		}
		for _, key := range i.DeposedKeys() {
			out = append(out, Leftover{a.String(), string(key)})
		}
	}
	return out
}
