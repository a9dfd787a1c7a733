// Package planfile encodes a plan with everything needed to apply it: the configuration from which it was made, the
// state, the apply graph.
//
// The format is specific to Millipede (docs/format/plan.md). The package checks that a file is complete and has a
// supported version, not that the plan still matches the state.
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

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/internal/wholefile"
)

// The versions of the format. Format 1 had no identities for the vertices of the plan graph; see DecodeRecorded. In
// the formats before 5, each object of the state has a list of its dependencies; format 3 was that of plans that are
// Reduced, and format 4 that of plans with changes that are Kept, whether they are Reduced or not.
const (
	oldestVersion  = 1
	formatVersion  = 5
	wholeVersion   = 2
	reducedVersion = 3
	keptVersion    = 4
)

// The entries of the archive. Those of the version and of the engine are text in every format.
const (
	versionEntry = "millipede-plan"
	engineEntry  = "engine"
	planEntry    = "plan"
	configEntry  = "config"
)

// ErrNoPlan means that a file is not a saved plan.
var ErrNoPlan = errors.New("the file is not a saved plan of Millipede")

// VersionError means that the plan was saved in another format, by another version of Millipede, or for the store
// alone.
type VersionError struct {
	Found string // empty if the plan is reduced
	// Engine is the version of Millipede that saved the plan; empty if the file does not contain it, as in format
	// 1.
	Engine string
	// Reduced is set if the plan is reduced: no version can read it without the store.
	Reduced bool
}

func (e *VersionError) Error() string {
	by := "another version of Millipede"
	if e.Engine != "" {
		by = "Millipede " + e.Engine
	}
	if e.Reduced {
		return fmt.Sprintf("the plan was saved by %s for the store of its workspace, and leaves out what the store has", by)
	}
	return fmt.Sprintf("the plan was saved by %s, in format %q; this version of Millipede applies plans in the formats "+
		"%q, %q and %q", by, e.Found, fmt.Sprint(wholeVersion), fmt.Sprint(keptVersion), fmt.Sprint(formatVersion))
}

// Saved is the content of a plan file.
type Saved struct {
	Plan *plan.Plan
	// Engine is the version of Millipede that saved the plan.
	Engine string
	// Older is set if the plan was decoded from an older format, which lacks data needed to apply it. Decode never
	// returns such a plan, DecodeRecorded may; Encode does not accept one.
	Older bool
	// BaseAt is set in a reduced plan: its state contains only the differences from a version of the store, which
	// has the plan's BaseLineage and BaseSerial and ended at this time. Decode never returns such a plan,
	// DecodeRecorded may.
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

// Reduced reports whether the plan needs a version of the store to be complete.
func (s *Saved) Reduced() bool { return !s.BaseAt.IsZero() }

// infinite reports whether a value is or contains an infinite number, which JSON cannot represent.
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
		if infinite(o.Before) { // computed by a destroy that refreshes; such a plan cannot be shown as JSON
			return nil, fmt.Errorf("the output %q was infinity before, which no plan file can hold", o.Name)
		}
	}
	return encode(s, zip.Deflate)
}

// EncodeRecorded returns the bytes of a plan for the journal of its run: those of a plan file, but not compressed,
// because the journal compresses them.
func EncodeRecorded(s Saved) ([]byte, error) { return encode(s, zip.Store) }

func encode(s Saved, method uint16) ([]byte, error) {
	for _, o := range s.Plan.Outputs {
		if infinite(o.After) {
			return nil, fmt.Errorf("the output %q holds infinity, which no state can hold", o.Name)
		}
	}
	if s.Older {
		return nil, errors.New("the plan was read from an older format, which lacks data that an apply needs")
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
	if method == zip.Store {
		out.Grow(len(coded) + len(config) + 1<<10)
	}
	z := zip.NewWriter(&out)
	for _, e := range []struct {
		name string
		data []byte
	}{{versionEntry, []byte(fmt.Sprint(formatVersion))}, {engineEntry, []byte(s.Engine)}, {planEntry, coded},
		{configEntry, config}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: method})
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

// Decode decodes a plan file. Truncated or modified files are an error: each entry has a checksum. The error for a
// plan in another format is a *VersionError.
func Decode(data []byte) (Saved, error) {
	s, err := DecodeRecorded(data)
	if err == nil && s.Older {
		return Saved{}, &VersionError{Found: fmt.Sprint(oldestVersion), Engine: s.Engine}
	}
	if err == nil && s.Reduced() {
		return Saved{}, &VersionError{Engine: s.Engine, Reduced: true}
	}
	return s, err
}

// DecodeRecorded decodes the plan of a run in the journal. Unlike Decode it accepts Reduced plans, for callers that
// have the store, and older formats, because such a run may have pending results and operations in progress: a plan
// that is Older identifies the objects, so that the run can be shown, settled and cancelled, but not resumed.
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
	s := Saved{Engine: string(entries[engineEntry])}
	reduced := false // if the format says that
	switch string(v) {
	case fmt.Sprint(oldestVersion):
		s.Older = true
	case fmt.Sprint(reducedVersion):
		reduced = true
	case fmt.Sprint(wholeVersion), fmt.Sprint(keptVersion), fmt.Sprint(formatVersion):
	default:
		return Saved{}, &VersionError{Found: string(v), Engine: s.Engine}
	}
	if s.Plan, s.BaseAt, err = decodePlan(entries[planEntry]); err != nil {
		return Saved{}, fmt.Errorf("the plan file is damaged: %w", err)
	}
	says := s.Older || reduced || string(v) == fmt.Sprint(wholeVersion)
	if says && s.Reduced() != reduced {
		return Saved{}, errors.New("the plan file is damaged: its format is not what it says")
	}
	if err := coding.Unmarshal(entries[configEntry], maxDepth, &s.Config); err != nil {
		return Saved{}, fmt.Errorf("the plan file is damaged: %w", err)
	}
	return s, nil
}

// maxEntry bounds the unpacked size of one entry.
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

// Write writes a plan file atomically. Only the user can read the file, because it may contain secrets.
func Write(name string, data []byte) error {
	return wholefile.Write(name, wholefile.Private, wholefile.Bytes(data))
}
