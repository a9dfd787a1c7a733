// Package planfile saves a plan with everything that carrying it out needs: the configuration that it was made from,
// the state, the apply graph.
//
// The format is ours (docs/format/plan.md); other engines cannot read it. The package checks that a file is whole and
// of a version that it knows, not that the plan still fits the state.
package planfile

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coding"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/wholefile"
)

// formatVersion is the version of the format. Format 1 had no names for the vertices of the plan graph; see
// DecodeRecorded.
const (
	formatVersion  = 2
	oldestVersion  = 1
	reducedVersion = 3 // of plans that are Reduced; a file that people get has none
)

// The entries of the archive. That of the version, and that of the engine, are text in every format.
const (
	versionEntry = "millipede-plan"
	engineEntry  = "engine"
	planEntry    = "plan"
	configEntry  = "config"
)

// ErrNoPlan means that a file is no saved plan at all.
var ErrNoPlan = errors.New("the file is not a saved plan of Millipede")

// VersionError means that the plan was saved in another format, by another version of Millipede.
type VersionError struct {
	Found string
	// Engine is the version of Millipede that saved the plan; empty where the file does not say so, as in format 1.
	Engine string
}

func (e *VersionError) Error() string {
	by := "another version of Millipede"
	if e.Engine != "" {
		by = "Millipede " + e.Engine
	}
	return fmt.Sprintf("the plan was saved by %s, in format %q; this version of Millipede applies plans in format %q",
		by, e.Found, fmt.Sprint(formatVersion))
}

// Saved is the content of a plan file.
type Saved struct {
	Plan *plan.Plan
	// Engine is the version of Millipede that saved the plan.
	Engine string
	// Older tells that the plan was read from an older format, which leaves out what only carrying it out needs.
	// Decode returns no such plan, DecodeRecorded may; Encode takes none.
	Older bool
	// BaseAt is set in a plan that is reduced: its state has only what differs from a version of the store, that of
	// the plan's BaseLineage and BaseSerial, which ended at this time. Decode returns no such plan, DecodeRecorded
	// may.
	BaseAt time.Time
	// Config are the source files of all modules by name, as the loader named them, and the module manifest.
	Config Config
}

// Config is a snapshot of a configuration.
type Config struct {
	Files    map[string][]byte `msgpack:"f"`
	Manifest []byte            `msgpack:"m"`
	Dir      string            `msgpack:"d"`
	// Lock is the dependency lock file.
	Lock []byte `msgpack:"l"`
}

// Reduced reports whether the plan needs a version of the store to be whole.
func (s *Saved) Reduced() bool { return !s.BaseAt.IsZero() }

// infinite reports whether a value is or holds an infinite number, which JSON cannot write.
func infinite(v cty.Value) bool {
	found := false
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) { // the callback never fails
		if v.Type() == cty.Number && v.IsKnown() && !v.IsNull() {
			bare, _ := v.Unmark()
			found = found || bare.AsBigFloat().IsInf()
		}
		return !found, nil
	})
	return found
}

// Encode returns the bytes of a plan file.
func Encode(s Saved) ([]byte, error) {
	for _, o := range s.Plan.Outputs {
		if infinite(o.After) {
			return nil, fmt.Errorf("the output %q holds infinity, which no state can hold", o.Name)
		}
	}
	if s.Older {
		return nil, errors.New("the plan was read from an older format, which leaves out what carrying it out needs")
	}
	format := formatVersion
	if s.Reduced() {
		format = reducedVersion
	}
	coded, err := encodePlan(s.Plan, s.BaseAt)
	if err != nil {
		return nil, err
	}
	config, err := msgpack.Marshal(&s.Config)
	if err != nil {
		return nil, fmt.Errorf("coding the configuration: %w", err)
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range []struct {
		name string
		data []byte
	}{{versionEntry, []byte(fmt.Sprint(format))}, {engineEntry, []byte(s.Engine)}, {planEntry, coded},
		{configEntry, config}} {
		w, err := z.Create(e.name)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Decode reads the bytes of a plan file. A file that is cut or altered is an error: each entry has a checksum. The
// error of a plan in another format is a *VersionError.
func Decode(data []byte) (Saved, error) {
	s, err := DecodeRecorded(data)
	if err == nil && s.Older {
		return Saved{}, &VersionError{Found: fmt.Sprint(oldestVersion), Engine: s.Engine}
	}
	if err == nil && s.Reduced() {
		return Saved{}, &VersionError{Found: fmt.Sprint(reducedVersion), Engine: s.Engine}
	}
	return s, err
}

// DecodeRecorded reads the plan of a run as the journal keeps it. Other than Decode it reads plans that are
// Reduced, for who has the store, and older formats, because results of such a run may wait, and its operations may
// still go on: a plan that is Older says which objects they are about, so that the run can be shown, settled and
// cancelled, but not carried on.
func DecodeRecorded(data []byte) (Saved, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return Saved{}, ErrNoPlan
	}
	entries := map[string][]byte{}
	for _, f := range z.File {
		content, err := readEntry(f)
		if err != nil {
			return Saved{}, fmt.Errorf("the plan file is damaged: %w", err)
		}
		entries[f.Name] = content
	}
	v, ok := entries[versionEntry]
	if !ok {
		return Saved{}, ErrNoPlan
	}
	s := Saved{Engine: string(entries[engineEntry]), Older: string(v) == fmt.Sprint(oldestVersion)}
	reduced := string(v) == fmt.Sprint(reducedVersion)
	if string(v) != fmt.Sprint(formatVersion) && !s.Older && !reduced {
		return Saved{}, &VersionError{Found: string(v), Engine: s.Engine}
	}
	if s.Plan, s.BaseAt, err = decodePlan(entries[planEntry]); err != nil {
		return Saved{}, fmt.Errorf("the plan file is damaged: %w", err)
	}
	if s.Reduced() != reduced {
		return Saved{}, errors.New("the plan file is damaged: its format is not what it says")
	}
	if err := coding.Unmarshal(entries[configEntry], maxDepth, &s.Config); err != nil {
		return Saved{}, fmt.Errorf("the plan file is damaged: %w", err)
	}
	return s, nil
}

// maxEntry bounds what one entry may unpack to.
const maxEntry = 4 << 30

func readEntry(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxEntry+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxEntry {
		return nil, fmt.Errorf("the entry %s is too large", f.Name)
	}
	return data, nil
}

// Write makes a plan file of its bytes, atomically. Only the user can read the file: it may hold secrets.
func Write(name string, data []byte) error {
	return wholefile.Write(name, wholefile.Private, wholefile.Bytes(data))
}
