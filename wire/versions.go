package wire

import (
	"fmt"
	"iter"
)

// The versions of the protocol that the code of this package has. docs/format/wire.md says what a new one is for.
const (
	// ProtocolVersion is the highest version.
	ProtocolVersion = 6
	// LowestVersion is the lowest version.
	LowestVersion = 6
	// lowestResult is the lowest version of results that are read. Those of an earlier one than LowestVersion may still
	// be in a stream, or in the journal of a worker, when the programs are replaced. Version 5 has the same fields.
	lowestResult = 5
)

// Versions is a range of versions of the protocol that a program speaks. It has every version in between.
type Versions struct{ Lowest, Highest int }

// built may be set when a program is built, to "LOWEST-HIGHEST", so that tests have programs of other versions:
//
//	-ldflags "-X github.com/millipede-iac/millipede/wire.built=5-6"
var built string

var spoken = func() Versions {
	v := Versions{LowestVersion, ProtocolVersion}
	if built == "" {
		return v
	}
	if _, err := fmt.Sscanf(built, "%d-%d", &v.Lowest, &v.Highest); err != nil || v.Lowest < 1 || v.Highest < v.Lowest {
		panic("wire: the program was built for the versions " + built + ", which are none")
	}
	return v
}()

// Spoken returns the versions that this program speaks.
func Spoken() Versions { return spoken }

// Has reports whether a version is one of v.
func (v Versions) Has(version int) bool { return v.Lowest <= version && version <= v.Highest }

// Meets reports whether v and o have a version in common.
func (v Versions) Meets(o Versions) bool { return v.Lowest <= o.Highest && o.Lowest <= v.Highest }

// String returns the versions for people: "5", or "5 to 6".
func (v Versions) String() string {
	if v.Lowest == v.Highest {
		return fmt.Sprint(v.Highest)
	}
	return fmt.Sprintf("%d to %d", v.Lowest, v.Highest)
}

// Choose returns the version to use with a group of workers, of which anyone may take a message: the one that most of
// their slots speak, and the highest of several. workers yields what each speaks, and its slots. It returns 0 if none
// has a version in common with v.
func (v Versions) Choose(workers iter.Seq2[Versions, int]) int {
	slots := make([]int, v.Highest-v.Lowest+1)
	for of, n := range workers {
		for version := max(v.Lowest, of.Lowest); version <= min(v.Highest, of.Highest); version++ {
			slots[version-v.Lowest] += max(n, 1)
		}
	}
	best := 0
	for i, n := range slots {
		if n > 0 && (best == 0 || n >= slots[best-v.Lowest]) {
			best = v.Lowest + i
		}
	}
	return best
}

// UnsuitedError means that workers serve a pool, and none of them speaks a version of this program.
type UnsuitedError struct {
	Pool string
	// Why names the workers with their versions, and says what to do.
	Why string
}

func (e *UnsuitedError) Error() string {
	return fmt.Sprintf("no worker of pool %q speaks a version of the protocol of this program: %s", e.Pool, e.Why)
}

// Is reports that the error is an ErrNoWorker: a suited worker may come.
func (e *UnsuitedError) Is(target error) bool { return target == ErrNoWorker }

// Versions returns what the worker speaks. Up to version 5 a worker named one version, which was all that it spoke.
func (h Heartbeat) Versions() Versions {
	if h.Lowest < 1 || h.Lowest > h.Protocol {
		return Versions{h.Protocol, h.Protocol}
	}
	return Versions{h.Lowest, h.Protocol}
}

// Unsuited returns why a program that speaks some versions gives no work to the worker, and what to do; empty if it
// does.
func (h Heartbeat) Unsuited(own Versions) string {
	of := h.Versions()
	if own.Meets(of) {
		return ""
	}
	program := "Millipede " + h.Version
	if h.Version == "" {
		program = "an unnamed version of Millipede"
	}
	what := "replace this worker by one of the version of this program"
	if of.Lowest > own.Highest {
		what = "update this program, or replace the worker by one of its version"
	}
	return fmt.Sprintf("worker %s is %s and speaks version %s of the protocol, this program version %s: %s", h.Worker,
		program, of, own, what)
}
