package tfstate

import (
	"bufio"
	"bytes"
	"io"
	"sync"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Texts writes versions of one state one after the other, and encodes only the parts that have changed since the last
// one: it remembers the text of each resource, and of each instance in it. States share the resources and the instances
// that are the same, so they are compared by their addresses in memory. Safe for concurrent use; the zero value is
// ready.
type Texts struct {
	mu   sync.Mutex
	last map[addr.AbsResource]*resourceText // of the last version; nil if it was too large
}

// maxTexts is the size of the largest state whose texts are remembered, in bytes.
const maxTexts = 64 << 20

// resourceText is the encoded form of a resource.
type resourceText struct {
	of      *state.Resource
	keyed   bool // each object names its provider's instance
	text    []byte
	objects map[objectKey]objectText
}

type objectKey struct {
	key     addr.Key
	deposed state.DeposedKey
}

// objectText is the part of a resource's text that has one object.
type objectText struct {
	of       *state.Instance
	from, to int
}

// Write is the function Write for the compact form. Nobody may modify the resources of s afterwards.
func (t *Texts) Write(w io.Writer, s *state.State, version string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := bufio.NewWriterSize(w, 64<<10)
	e := encoder{out: out, last: t.last, next: map[addr.AbsResource]*resourceText{}}
	e.state(s, version)
	if e.err == nil {
		e.err = out.Flush()
	}
	t.last = nil
	size := 0
	for _, r := range e.next {
		size += len(r.text)
	}
	if e.err == nil && size <= maxTexts {
		t.last = e.next
	}
	return e.err
}

// remembered writes a resource that has not changed since the last version. It returns false for others. The buffer is
// empty.
func (e *encoder) remembered(abs addr.AbsResource, r *state.Resource) bool {
	was := e.last[abs]
	if was == nil || was.of != r {
		return false
	}
	e.next[abs] = was
	if e.err == nil {
		_, e.err = e.out.Write(was.text)
	}
	return true
}

// objectsOnce is objects for a version whose texts are remembered. The buffer has the resource from its beginning.
func (e *encoder) objectsOnce(abs addr.AbsResource, r *state.Resource, objects []object, keyed bool) {
	was := e.last[abs]
	if was != nil && (was.keyed != keyed || was.of.Provider != r.Provider) {
		was = nil
	}
	now := &resourceText{of: r, keyed: keyed, objects: make(map[objectKey]objectText, len(objects))}
	for i, o := range objects {
		if i > 0 {
			e.text(",")
		}
		at, from := objectKey{o.key, o.deposed}, len(e.buf)
		if text, ok := was.object(at, o.instance); ok {
			e.buf = append(e.buf, text...)
		} else {
			e.entry(abs, r, o, keyed)
		}
		now.objects[at] = objectText{o.instance, from, len(e.buf)}
	}
	e.text("]}")
	now.text = bytes.Clone(e.buf)
	e.next[abs] = now
	e.flush()
}

// object returns the text of an object, unless its instance has changed.
func (t *resourceText) object(at objectKey, of *state.Instance) ([]byte, bool) {
	if t == nil {
		return nil, false
	}
	o, ok := t.objects[at]
	if !ok || o.of != of {
		return nil, false
	}
	return t.text[o.from:o.to], true
}
