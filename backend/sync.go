package backend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// SyncedStore is the store with which snapshots are synchronised; journal.Store is one.
type SyncedStore interface {
	journal.Workspaces
	journal.States
	journal.Versions
	journal.Marks
	journal.Values
}

// Sync synchronises the snapshots of a backend with a store. It is based on a mark in the store, which describes
// the snapshot when the two last agreed:
//
//	snapshot since the mark | store since the mark | Pull
//	unchanged               | unchanged            | does nothing
//	unchanged               | changed              | does nothing; the next Push writes
//	changed or removed      | unchanged            | adopts
//	removed                 | changed              | does nothing; the next Push writes
//	changed                 | changed              | fails, unless both are the same, or Settle is set
//	emptied                 | unchanged            | fails
//	emptied                 | changed              | does nothing; the next Push writes
//
// A snapshot is emptied if its file exists and is empty, but had content when the mark was made: this happens on a
// full disk, while a user who wants the state to be empty removes the file. An empty file that never had content
// does not count as a snapshot.
type Sync struct {
	Store   SyncedStore
	Backend Backend
	// Version is the version of OpenTofu that is recorded as the writer of snapshots.
	Version string
	// Texts makes Push encode only the resources that have changed since the last one with the same Texts; nil: Push
	// encodes all.
	Texts *tfstate.Texts
	// Settle makes Pull record both states as versions if both have changed, the snapshot's as the newer one: for
	// commands that replace the whole state anyway.
	Settle bool
	// Restore is the command that restores an earlier version, with a placeholder for the serial; default
	// "coordinator state restore %d".
	Restore string
}

// Pull adopts others' changes to the snapshot. It is called at the start of a command, under the locks if it takes
// any. The message is for the user, and may be empty; problems that the user can solve are a list of diagnostics in
// the error. First, changes of an interrupted command become a version.
func (y *Sync) Pull(ctx context.Context, workspace, lockID string) (message string, err error) {
	p, err := y.compare(ctx, workspace, lockID)
	if err != nil {
		return "", err
	}
	switch {
	case !p.changed:
		return "", nil
	case p.ahead && p.data == nil:
		return "", nil
	}
	if p.emptied {
		return "", emptied(p, y.restore(p.head.Serial)).Err()
	}
	if p.data == nil {
		return y.adoptRemoval(ctx, p, lockID)
	}
	theirs, diags := tfstate.Parse(p.data)
	if diags.HasErrors() {
		return "", unreadable(diags, p, y.restore(p.head.Serial))
	}
	if p.head.Lineage == theirs.Lineage && p.head.Serial == theirs.Serial {
		ours, err := y.Store.Load(ctx, workspace)
		if err != nil {
			return "", err
		}
		if same, err := y.same(ours, theirs, p.form); same || err != nil {
			return "", errors.Join(err, y.mark(ctx, p, p.head, hash(p.data))) // only the mark was missing
		}
	}
	if p.ahead && y.Settle {
		return y.settle(ctx, p, lockID, theirs)
	}
	if p.ahead {
		return "", conflict(p, theirs, y.restore(p.head.Serial)).Err()
	}
	return y.adopt(ctx, p, lockID, theirs)
}

// Push writes the snapshot if the store has a newer version. It is called when a command that changed the state
// ends, after the version has ended. If it fails, the state is safe in the store, and the next Push writes.
func (y *Sync) Push(ctx context.Context, workspace string) error {
	d := y.Backend.Describe(workspace)
	head, err := y.head(ctx, workspace)
	if err != nil {
		return err
	}
	m, err := y.Store.Mark(ctx, workspace)
	if err != nil {
		return err
	}
	if head.Lineage == "" || agrees(m, d.Where, head) && !d.Stale {
		return nil
	}
	s, err := y.Store.LoadVersion(ctx, workspace, head.Serial)
	if err != nil {
		return err
	}
	digest, err := writeState(ctx, y.Backend, workspace, func(w io.Writer) error {
		if y.Texts != nil && d.Form == tfstate.Compact {
			return y.Texts.Write(w, s, y.Version)
		}
		return tfstate.Write(w, s, y.Version, d.Form)
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", d.Where, err)
	}
	// A crash here is harmless: the next Pull finds that the snapshot equals the store.
	return y.mark(ctx, &comparison{workspace: workspace, where: d.Where}, head, digest)
}

// Replace replaces the whole state of the workspace in the store; the next Push writes it, even if its lineage and
// serial are those of the snapshot, as those of an older version can be once it is put back.
func (y *Sync) Replace(ctx context.Context, workspace, lockID string, s *state.State, cause journal.Cause) error {
	m, err := y.Store.Mark(ctx, workspace)
	if err != nil {
		return err
	}
	if m.Lineage == s.Lineage && m.Serial == s.Serial {
		m.Lineage, m.Serial = "", 0
		// A crash here is harmless: the next Push writes the old state again.
		if err := y.Store.SetMark(ctx, workspace, m); err != nil {
			return err
		}
	}
	return y.Store.Replace(ctx, workspace, lockID, s, cause)
}

// Empty replaces the snapshot by an empty file, and the state by an empty one. It is used after the state was copied to
// another backend.
func (y *Sync) Empty(ctx context.Context, workspace string, cause string) error {
	if err := Plain(y.Backend).Write(ctx, workspace, nil); err != nil {
		return err
	}
	// After a crash before the mark, the next Pull says that the file is empty; the store has the state.
	none, err := y.vacate(ctx, workspace, "", journal.Because(cause))
	if err != nil {
		return err
	}
	return y.mark(ctx, &comparison{workspace: workspace, where: y.Backend.Describe(workspace).Where}, none, hash(nil))
}

// vacate makes an empty state without a lineage the newest version, and returns that version. Its serial is greater
// than all before it, since a plan names the version for which it was made by lineage and serial. Without a lineage,
// serial 0 is the time before the first version: everything that has existed since then would count as created and
// removed after the plan.
func (y *Sync) vacate(ctx context.Context, workspace, lockID string, cause journal.Cause) (journal.VersionInfo, error) {
	versions, err := y.Store.Versions(ctx, workspace)
	if err != nil {
		return journal.VersionInfo{}, err
	}
	none := state.Empty()
	for _, v := range versions {
		none.Serial = max(none.Serial, v.Serial)
	}
	none.Serial++
	return journal.VersionInfo{Serial: none.Serial}, y.Store.Replace(ctx, workspace, lockID, none, cause)
}

// ErroredFile is the name, as in OpenTofu, of the file for a state that could not be written to its backend.
const ErroredFile = "errored.tfstate"

// Rescue returns the snapshot for a local file, encrypted like the backend's snapshots. It is used after Push has
// failed.
func (y *Sync) Rescue(ctx context.Context, workspace string) ([]byte, error) {
	head, err := y.head(ctx, workspace)
	if err != nil {
		return nil, err
	}
	s, err := y.Store.LoadVersion(ctx, workspace, head.Serial)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := tfstate.Write(&text, s, y.Version, tfstate.Indented); err != nil {
		return nil, err
	}
	if e, ok := y.Backend.(*encrypted); ok {
		return e.seal(ctx, text.Bytes(), tfstate.Indented)
	}
	return text.Bytes(), nil
}

// announced is the bucket in the store with, by workspace, the hash of a snapshot that is about to be written
// during a run.
const announced = "announced-snapshots"

// announce records that a snapshot that is not a version is about to be written. If the process is killed right
// after the write, the next Pull thereby knows that the snapshot is its own.
func (y *Sync) announce(ctx context.Context, workspace, digest string) error {
	return y.Store.PutValue(ctx, announced, workspace, []byte(digest))
}

// own reports whether a snapshot was announced by a run that was killed, or whose write had no response.
func (y *Sync) own(ctx context.Context, p *comparison) (bool, error) {
	value, err := y.Store.GetValue(ctx, announced, p.workspace)
	return p.data != nil && string(value) == hash(p.data), err
}

// comparison has the data about both sides from which Pull decides.
type comparison struct {
	workspace string
	where     string
	form      tfstate.Form
	data      []byte // of the snapshot; nil if there is none, or if it matches the mark
	head      journal.VersionInfo
	marked    journal.SnapshotMark
	changed   bool // the snapshot differs from the mark
	ahead     bool // the store differs from the mark
	emptied   bool // the snapshot had content, and its file has none; data is nil then
}

func (y *Sync) compare(ctx context.Context, workspace, lockID string) (*comparison, error) {
	d := y.Backend.Describe(workspace)
	p := &comparison{workspace: workspace, where: d.Where, form: d.Form}
	known, err := y.known(ctx, workspace, d)
	if !known && err == nil {
		p.data, err = y.Backend.Read(ctx, workspace)
	}
	var sealed *Sealed
	if errors.As(err, &sealed) {
		return nil, err
	}
	if err != nil {
		return nil, diag.Errors("Failed to load state", fmt.Sprintf("Reading the snapshot %s: %s.", d.Where, err),
			nil).Err()
	}
	blank := p.data != nil && len(p.data) == 0
	if blank {
		p.data = nil
	}
	err = y.Store.Commit(ctx, journal.Commit{Workspace: workspace, Fence: lockID, EndUnfinished: true,
		Cause: "interrupted"})
	if errors.Is(err, journal.ErrNoWorkspace) {
		err = y.createMissing(ctx, p, err)
	}
	if err != nil {
		return nil, err
	}
	if p.head, err = y.head(ctx, workspace); err != nil {
		return nil, err
	}
	if p.marked, err = y.Store.Mark(ctx, workspace); err != nil {
		return nil, err
	}
	elsewhere := p.marked.Where != p.where // the mark is of another snapshot, or there is none
	if p.ahead = !agrees(p.marked, p.where, p.head) && len(p.head.Lineage) > 0; known {
		return p, nil
	}
	p.emptied = blank && !elsewhere && p.marked.SHA256 != hash(nil)
	p.changed = elsewhere && p.data != nil || !elsewhere && p.marked.SHA256 != hash(p.data)
	if p.changed && p.ahead {
		own, err := y.own(ctx, p)
		if err != nil {
			return nil, err
		}
		p.changed = !own
	}
	return p, nil
}

// known reports whether the snapshot matches the mark, as far as that is possible without loading it.
func (y *Sync) known(ctx context.Context, workspace string, d Description) (bool, error) {
	s, ok := streaming(y.Backend, workspace)
	if !ok {
		return false, nil
	}
	m, err := y.Store.Mark(ctx, workspace)
	if err != nil || m.Where != d.Where || m.SHA256 == "" {
		return false, nil //nolint:nilerr // the next access to the store reports the error
	}
	digest, err := s.Digest(ctx, workspace)
	return digest == m.SHA256, err
}

// createMissing creates a workspace that exists only in the backend.
func (y *Sync) createMissing(ctx context.Context, p *comparison, unknown error) error {
	names, err := y.Backend.Workspaces(ctx)
	if err != nil {
		return err
	}
	if p.data == nil && !slices.Contains(names, p.workspace) {
		return unknown
	}
	return y.Store.CreateWorkspace(ctx, p.workspace)
}

// head returns the last ended version; the zero version if there is none.
func (y *Sync) head(ctx context.Context, workspace string) (journal.VersionInfo, error) {
	versions, err := y.Store.Versions(ctx, workspace)
	if err != nil || len(versions) == 0 {
		return journal.VersionInfo{}, err
	}
	return versions[0], nil
}

// agrees reports whether, by the mark, a snapshot contains a version.
func agrees(m journal.SnapshotMark, where string, v journal.VersionInfo) bool {
	return m.Where == where && m.Lineage == v.Lineage && m.Serial == v.Serial
}

// same reports whether two states have equal snapshots.
func (y *Sync) same(a, b *state.State, form tfstate.Form) (bool, error) {
	var texts [2]bytes.Buffer
	for i, s := range []*state.State{a, b} {
		if err := tfstate.Write(&texts[i], s, y.Version, form); err != nil {
			return false, err
		}
	}
	return bytes.Equal(texts[0].Bytes(), texts[1].Bytes()), nil
}

// mark records that the snapshot contains a version.
func (y *Sync) mark(ctx context.Context, p *comparison, v journal.VersionInfo, digest string) error {
	return y.Store.SetMark(ctx, p.workspace, journal.SnapshotMark{
		Where: p.where, Lineage: v.Lineage, Serial: v.Serial, SHA256: digest,
	})
}

// adoptRemoval makes an empty state the newest version.
func (y *Sync) adoptRemoval(ctx context.Context, p *comparison, lockID string) (string, error) {
	s, err := y.Store.Load(ctx, p.workspace)
	if err != nil {
		return "", err
	}
	none, err := y.vacate(ctx, p.workspace, lockID, journal.Cause{Text: p.where + " was removed", Elsewhere: true})
	if err != nil {
		return "", err
	}
	if err := y.mark(ctx, p, none, hash(nil)); err != nil {
		return "", err
	}
	if s.IsEmpty() {
		return "", nil
	}
	return fmt.Sprintf("%s was removed, so the state is empty now. The previous state had %s and is kept: \"%s\" "+
		"restores it.",
		p.where, instances(len(s.Addrs())), y.restore(p.head.Serial)), nil
}

// adopt makes the snapshot's state the newest version.
func (y *Sync) adopt(ctx context.Context, p *comparison, lockID string, theirs *state.State) (string, error) {
	ours, err := y.Store.Load(ctx, p.workspace)
	if err != nil {
		return "", err
	}
	kept := carryDoubts(theirs, ours)
	if err := y.Store.Replace(ctx, p.workspace, lockID, theirs,
		journal.Cause{Text: "adopted from " + p.where, Elsewhere: true}); err != nil {
		return "", err
	}
	read := journal.VersionInfo{Lineage: theirs.Lineage, Serial: theirs.Serial}
	if err := y.mark(ctx, p, read, hash(p.data)); err != nil {
		return "", err
	}
	var says []string
	switch {
	case p.head.Lineage == "":
	case theirs.Lineage != p.head.Lineage:
		says = append(says, fmt.Sprintf("%s now holds another state (lineage %s instead of %s), which was adopted.",
			p.where, theirs.Lineage, p.head.Lineage))
	case theirs.Serial <= p.head.Serial:
		says = append(says, fmt.Sprintf("%s was replaced by another version of the state (serial %d, it was %d), "+
			"which was adopted.", p.where, theirs.Serial, p.head.Serial))
	}
	if len(says) > 0 && !ours.IsEmpty() {
		says = append(says, fmt.Sprintf("The previous state had %s and is kept: \"%s\" restores it.",
			instances(len(ours.Addrs())), y.restore(p.head.Serial)))
	}
	if kept > 0 {
		says = append(says, fmt.Sprintf("Another engine changed the state while %s in doubt; the doubts are kept.",
			instances(kept)))
	}
	return strings.Join(says, " "), nil
}

// settle records the snapshot's state as a version after those of the store, so that both are kept.
func (y *Sync) settle(ctx context.Context, p *comparison, lockID string, theirs *state.State) (string, error) {
	theirs.Serial = max(theirs.Serial, p.head.Serial) + 1
	if err := y.Store.Replace(ctx, p.workspace, lockID, theirs,
		journal.Cause{Text: "adopted from " + p.where, Elsewhere: true}); err != nil {
		return "", err
	}
	// The mark says that the snapshot does not contain a version, so the next Push always writes.
	if err := y.mark(ctx, p, journal.VersionInfo{}, hash(p.data)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s and the store had both changed. Both states are kept: that of the store with the serial %d, "+
		"that of the snapshot with the serial %d.", p.where, p.head.Serial, theirs.Serial), nil
}

// carryDoubts restores doubts that another engine dropped when it wrote the state, and returns their number. If it
// has changed the object since, the doubt counts as resolved.
func carryDoubts(theirs, ours *state.State) int {
	kept := 0
	for _, a := range ours.Addrs() {
		i := ours.Instance(a)
		carry := func(key state.DeposedKey, o *state.Object) {
			if o == nil || o.Status != state.InDoubt || o.Doubt == nil {
				return
			}
			known := theirs.Object(a, key)
			unseen := known == nil && o.Attrs == nil && o.Flatmap == nil
			untouched := known != nil && known.Doubt == nil && o.Attrs != nil && bytes.Equal(known.Attrs, o.Attrs)
			if unseen || untouched {
				theirs.Apply(state.SetObject{Addr: a, Deposed: key, Provider: ours.ProviderOf(a), Object: o})
				kept++
			}
		}
		carry(state.CurrentObject, i.Current)
		for key, o := range i.Deposed {
			carry(key, o)
		}
	}
	return kept
}

func (y *Sync) restore(serial uint64) string {
	if y.Restore == "" {
		return fmt.Sprintf(diag.Program()+" state restore %d", serial)
	}
	return fmt.Sprintf(y.Restore, serial)
}

func instances(n int) string {
	if n == 1 {
		return "one instance"
	}
	return fmt.Sprintf("%d instances", n)
}

// unreadable returns the error about a snapshot that cannot be read, with advice.
func unreadable(diags diag.List, p *comparison, restore string) error {
	out := make(diag.List, len(diags))
	for i, d := range diags {
		c := *d
		c.Detail += fmt.Sprintf("\n\nThis is the snapshot %s, which is not what was last written there. Put it "+
			"right, or move it away", p.where)
		if p.head.Lineage != "" {
			c.Detail += fmt.Sprintf(": then \"%s\" brings the last known state back", restore)
		}
		c.Detail += "."
		out[i] = &c
	}
	return out.Err()
}

// emptied returns the error about a snapshot whose content was lost, with advice.
func emptied(p *comparison, restore string) diag.List {
	return diag.Errors("The state file is empty", fmt.Sprintf(
		"The snapshot %s has no content any more, and Millipede has not emptied it: perhaps a disk was full. "+
			"Nothing is taken to be removed for that reason; the state in the store is intact (serial %d).\n\n"+
			"If another program has changed the state since, put its file back, from a backup for instance. "+
			"Otherwise remove the empty file; then \"%s\" "+
			"writes it again from the store.\n\n"+
			"If the state is really meant to be empty, removing the file is enough.", p.where, p.head.Serial, restore),
		nil)
}

// conflict returns the error that the state was changed in two places.
func conflict(p *comparison, theirs *state.State, restore string) diag.List {
	return diag.Errors("State changed in two places", fmt.Sprintf(
		"The snapshot %s was changed by another program (serial %d, lineage %s) while the store had changes that "+
			"were not yet written to it "+
			"(serial %d, lineage %s), most likely because a command was interrupted. Neither may be dropped "+
			"silently.\n\n"+
			"To keep what the store has, run \"%s\". To keep the snapshot, run \""+diag.Program()+" state push -force "+
			"FILE\" with a copy of it. The other state stays readable as an earlier version.",
		p.where, theirs.Serial, theirs.Lineage, p.head.Serial, p.head.Lineage, restore), nil)
}

// hash returns the digest of a snapshot; empty if there is none.
func hash(data []byte) string {
	if data == nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
