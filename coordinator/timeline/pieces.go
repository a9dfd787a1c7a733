package timeline

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// Piece is one of the parts in which a large run is loaded: a page draws the Outline, and requests the Shape and the
// Story afterwards.
type Piece int

// The pieces.
const (
	// Shape has the vertices with their dependencies, statuses and times.
	Shape Piece = iota
	// Story has the waits of each vertex, and its attempts.
	Story
	// Outline is the Shape that a page draws first of a large run: it has at most a few hundred vertices, most of which
	// stand for groups of vertices. The outline of a run that is not large is its Shape.
	Outline
)

// chunk is the number of vertices that are written while the recorder is locked: it bounds how long the run waits.
const chunk = 2000

// Write writes a piece of the run as it is, as one JSON value followed by a line break. now is as with Model.
// Concurrent changes may be included or not; they are among the changes since the cursor of the piece.
func (r *Recorder) Write(w io.Writer, piece Piece, now int64) error {
	r.mu.Lock()
	top := form{Version: Version, Cursor: r.cursor, Head: r.headAt(now), Counts: r.counts, Shortages: r.shorts}
	n := len(r.entries)
	r.mu.Unlock()
	out := newTables(piece, n)
	for from := 0; from < n; from += chunk {
		r.mu.Lock()
		for i := from; i < min(n, from+chunk); i++ {
			out.add(&r.entries[i].Vertex)
		}
		r.mu.Unlock()
	}
	return out.write(w, &top)
}

// Write writes a piece of a model, as Recorder.Write does.
func (m *Model) Write(w io.Writer, piece Piece) error {
	out := newTables(piece, len(m.Vertices))
	for i := range m.Vertices {
		out.add(&m.Vertices[i])
	}
	return out.write(w, m.form())
}

func (m *Model) form() *form {
	return &form{Version: Version, Cursor: m.Cursor, Head: m.Head, Counts: m.Counts, Shortages: m.Shortages}
}

// form has the fields at the beginning of a piece.
type form struct {
	Version   int        `json:"version"`
	Cursor    uint64     `json:"cursor"`
	Head      Head       `json:"head"`
	Counts    Counts     `json:"counts"`
	Shortages []Shortage `json:"shortages,omitempty"`
	Outline   bool       `json:"outline,omitempty"` // the vertices are those of an Outline
}

// CountsOf reads the counts at the beginning of a Shape, without the rest of it.
func CountsOf(shape []byte) (Counts, error) {
	in := json.NewDecoder(bytes.NewReader(shape))
	if _, err := in.Token(); err != nil {
		return Counts{}, err
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return Counts{}, err
		}
		if key == "counts" {
			var c Counts
			return c, in.Decode(&c)
		}
		var passed json.RawMessage
		if err := in.Decode(&passed); err != nil {
			return Counts{}, err
		}
	}
	return Counts{}, io.ErrUnexpectedEOF
}

// tables collects the columns of a piece.
type tables interface {
	add(v *Vertex)
	write(w io.Writer, top *form) error
}

func newTables(piece Piece, n int) tables {
	switch {
	case piece == Story:
		return &story{names: newNames()}
	case piece == Outline && n > large:
		return newOutline(n)
	}
	s := &shape{names: newNames(), more: map[int]more{}, status: make([]byte, 0, n)}
	for _, c := range s.columns() {
		*c.list = make(column, 0, 6*n)
	}
	return s
}

// names is the table of the names that many vertices share. Entry 0 is the empty name.
type names struct {
	at   map[string]int
	list []string
}

func newNames() names { return names{at: map[string]int{"": 0}, list: []string{""}} }

func (n *names) of(name string) int {
	i, ok := n.at[name]
	if !ok {
		i = len(n.list)
		n.list = append(n.list, name)
		n.at[name] = i
	}
	return i
}

// column is a JSON list of numbers or texts without its brackets.
type column []byte

func (c *column) number(n int64) {
	if len(*c) > 0 {
		*c = append(*c, ',')
	}
	*c = strconv.AppendInt(*c, n, 10)
}

func (c *column) index(n int) { c.number(int64(n)) }

func (c *column) text(s string) {
	if len(*c) > 0 {
		*c = append(*c, ',')
	}
	if plain(s) {
		*c = append(append(append(*c, '"'), s...), '"')
		return
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is a string
	}
	*c = append(*c, quoted...)
}

// plain reports whether a text needs no escaping in JSON and HTML.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// shape collects the Shape.
type shape struct {
	names
	n                                                     int
	number, module, block, key, typ, action, pool, worker column
	status                                                []byte
	ready, started, ended, took                           column
	degree, after                                         column
	more                                                  map[int]more
}

func (s *shape) add(v *Vertex) {
	block, key := local(v)
	rest := moreOf(v)
	rest.Attempt, rest.Attempts, rest.Waits = "", 0, nil // they are in the other piece
	s.put(v, v.Module, block, key, rest)
}

// local returns the address of a vertex within its module: the block, and the key with its brackets.
func local(v *Vertex) (block, key string) {
	if v.Module == "" {
		return splitKey(v.Address)
	}
	return splitKey(strings.TrimPrefix(v.Address, v.Module+"."))
}

func (s *shape) put(v *Vertex, module, block, key string, rest more) {
	s.number.index(v.Number)
	s.module.index(s.of(module))
	s.block.index(s.of(block))
	s.key.text(key)
	s.typ.index(s.of(v.Type))
	s.action.index(s.of(v.Action))
	s.pool.index(s.of(v.Pool))
	s.worker.index(s.of(v.Worker))
	s.status = append(s.status, byte(v.Status))
	s.ready.number(v.Ready)
	s.started.number(v.Started)
	s.ended.number(v.Ended)
	s.took.number(v.Took)
	s.degree.index(len(v.After))
	for _, d := range v.After {
		s.after.index(d)
	}
	if !rest.empty() {
		s.more[s.n] = rest
	}
	s.n++
}

// splitKey splits the address of an instance within its module into the block and the key with its brackets.
func splitKey(local string) (block, key string) {
	if !strings.HasSuffix(local, "]") {
		return local, ""
	}
	quoted := false
	for i := 0; i < len(local); i++ {
		switch c := local[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '[' && !quoted:
			return local[:i], local[i:]
		}
	}
	return local, ""
}

// columns returns the columns with their names.
func (s *shape) columns() []named {
	return []named{{"number", &s.number}, {"module", &s.module}, {"block", &s.block}, {"key", &s.key}, {"type", &s.typ},
		{"action", &s.action}, {"pool", &s.pool}, {"worker", &s.worker}, {"ready", &s.ready}, {"started", &s.started},
		{"ended", &s.ended}, {"took", &s.took}, {"degree", &s.degree}, {"after", &s.after}}
}

func (s *shape) write(w io.Writer, top *form) error {
	return object(w, top, map[string]any{"more": s.more}, s.list, s.columns(), string(s.status), "vertices")
}

// story collects the Story.
type story struct {
	names
	number, waits, attempts column
	kinds                   []byte
	name, from, to          column
	last                    column
}

func (s *story) add(v *Vertex) {
	if len(v.Waits) == 0 && v.Attempt == "" && v.Attempts == 0 {
		return
	}
	s.number.index(v.Number)
	s.waits.index(len(v.Waits))
	for _, x := range v.Waits {
		s.kinds = append(s.kinds, byte(x.Kind))
		s.name.index(s.of(x.Name))
		s.from.number(x.From)
		s.to.number(x.To)
	}
	s.attempts.index(v.Attempts)
	s.last.text(v.Attempt)
}

func (s *story) write(w io.Writer, top *form) error {
	return object(w, top, nil, s.list, []named{{"number", &s.number}, {"waits", &s.waits}, {"name", &s.name},
		{"from", &s.from}, {"to", &s.to}, {"attempts", &s.attempts}, {"last", &s.last}}, string(s.kinds), "story")
}

type named struct {
	name string
	list *column
}

// object writes a piece: the common fields, the names, the columns, and a text of letters.
func object(w io.Writer, top *form, more map[string]any, list []string, columns []named, letters, title string) error {
	head, err := json.Marshal(top)
	if err != nil {
		return err
	}
	table, err := json.Marshal(list)
	if err != nil {
		return err
	}
	quoted, err := json.Marshal(letters)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	put := func(parts ...[]byte) {
		for _, p := range parts {
			if err == nil && b.Len()+len(p) > 1<<16 {
				_, err = w.Write(b.Bytes())
				b.Reset()
			}
			if err == nil && len(p) > 1<<16 {
				_, err = w.Write(p)
				continue
			}
			b.Write(p)
		}
	}
	put(head[:len(head)-1], []byte(`,"names":`), table, []byte(`,"`+title+`":{"letters":`), quoted)
	for _, c := range columns {
		put([]byte(`,"`+c.name+`":[`), *c.list, []byte("]"))
	}
	for name, v := range more {
		text, failed := json.Marshal(v)
		if failed != nil {
			return failed
		}
		put([]byte(`,"`+name+`":`), text)
	}
	put([]byte("}}\n"))
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}
