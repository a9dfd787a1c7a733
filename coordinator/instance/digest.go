package instance

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/wire"
)

// Inputs returns the digest of the configuration's contribution to the provider's plan of a change. task is the request
// for that plan; its prior object does not count. The digest is zero if the plan must not be recognised by it: if parts
// of the configuration are unknown, if it has ephemeral values (nothing about them may be recorded), or if a test mocks
// the provider.
func (in *Instance) Inputs(task *wire.PlanTask) plan.Inputs {
	ephemeral := in.ephemeral || len(in.Schema.Block.WriteOnlyPaths(in.Bare)) > 0
	if ephemeral || in.Wire.Mock != nil || !in.Bare.IsWhollyKnown() {
		return plan.Inputs{}
	}
	return Digest(&in.Wire, in.Schema, &wire.PlanTask{Type: task.Type, Config: task.Config, Meta: task.Meta,
		IgnorePaths: task.IgnorePaths, IgnoreAll: task.IgnoreAll})
}

// Digest returns the digest of all inputs of an object's plan: the package of its provider and its configuration, the
// type with its schema, the stored object with private data, and the configuration.
func Digest(p *wire.Provider, s *schema.Schema, task *wire.PlanTask) (sum [16]byte) {
	buffer := digests.Get().(*digest)
	defer digests.Put(buffer)
	d := (*buffer)[:0]
	d.text(p.Package.Source)
	d.text(p.Package.Version)
	d.number(int64(len(p.Package.Hashes)))
	for _, h := range p.Package.Hashes {
		d.text(h)
	}
	d.text(p.Package.Unlocked)
	d.text(p.Digest)
	if d.flag(p.Mock != nil); p.Mock != nil {
		d.bytes(p.Mock.Values)
	}
	if p.MayDefer { // otherwise the digests of earlier versions remain valid
		d.flag(true)
	}
	d.number(s.Version)
	d.task(task)
	*buffer = d
	whole := sha256.Sum256(d)
	copy(sum[:], whole[:])
	return sum
}

// digests are buffers for the input of the hash.
var digests = sync.Pool{New: func() any { return new(digest) }}

// digest is the input of the hash: each part contains its length, so that different inputs differ.
type digest []byte

func (d *digest) bytes(b []byte) { *d = append(binary.AppendUvarint(*d, uint64(len(b))), b...) }
func (d *digest) text(s string)  { *d = append(binary.AppendUvarint(*d, uint64(len(s))), s...) }
func (d *digest) number(n int64) { *d = binary.AppendVarint(*d, n) }
func (d *digest) list(l [][]byte) {
	d.number(int64(len(l)))
	for _, b := range l {
		d.bytes(b)
	}
}

func (d *digest) flag(is bool) {
	if is {
		d.number(1)
	} else {
		d.number(0)
	}
}

func (d *digest) task(t *wire.PlanTask) {
	d.text(t.Type)
	if d.flag(t.Prior != nil); t.Prior != nil {
		d.stored(t.Prior)
	}
	if d.flag(t.MovedFrom != nil); t.MovedFrom != nil {
		d.text(t.MovedFrom.Provider)
		d.text(t.MovedFrom.Type)
	}
	if d.flag(t.Import != nil); t.Import != nil {
		d.bytes(coding.Marshal(t.Import))
	}
	for _, is := range []bool{t.Refresh, t.SkipPlan, t.Destroy, t.IgnoreAll, t.IfChanged} {
		d.flag(is)
	}
	d.bytes(t.Config)
	d.bytes(t.Meta)
	d.list(t.IgnorePaths)
	d.list(t.Sensitive)
	d.text(t.Replace)
}

func (d *digest) stored(o *wire.StoredObject) {
	d.number(o.SchemaVersion)
	d.bytes(o.Attrs)
	d.number(int64(len(o.Flatmap)))
	for _, k := range slices.Sorted(maps.Keys(o.Flatmap)) {
		d.text(k)
		d.text(o.Flatmap[k])
	}
	d.bytes(o.Private)
	d.bytes(o.Identity)
	d.number(o.IdentityVersion)
	d.flag(o.Tainted)
}
