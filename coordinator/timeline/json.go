package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// columns is the JSON form of the vertices of a Shape: a list for each field, with an entry for each vertex. For
// text fields with a list of numbers, the numbers are indexes into the table of names.
type columns struct {
	Number  []int    `json:"number"`
	Module  []int    `json:"module"`
	Block   []int    `json:"block"` // the address without the module and the key
	Key     []string `json:"key"`   // with its brackets
	Type    []int    `json:"type"`
	Action  []int    `json:"action"`
	Letters string   `json:"letters"` // the statuses
	Pool    []int    `json:"pool"`
	Worker  []int    `json:"worker"`
	Ready   []int64  `json:"ready"`
	Started []int64  `json:"started"`
	Ended   []int64  `json:"ended"`
	Took    []int64  `json:"took"`
	Degree  []int    `json:"degree"` // the number of entries of after that belong to the vertex
	After   []int    `json:"after"`
	// More has the fields that few vertices have, by the index in the lists above.
	More map[int]more `json:"more,omitempty"`
}

// storyColumns is the JSON form of a Story: the numbers of the vertices that have one, and the concatenation of
// their waits.
type storyColumns struct {
	Number   []int    `json:"number"`
	Waits    []int    `json:"waits"`   // the number of waits of the vertex
	Letters  string   `json:"letters"` // the kinds of the waits
	Name     []int    `json:"name"`
	From     []int64  `json:"from"`
	To       []int64  `json:"to"`
	Attempts []int    `json:"attempts"`
	Last     []string `json:"last"`
}

type more struct {
	Deposed  string     `json:"deposed,omitempty"`
	Attempt  string     `json:"attempt,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	Waits    []waitForm `json:"waits,omitempty"`
	Holds    []string   `json:"holds,omitempty"`
	Failure  string     `json:"failure,omitempty"`
	Because  string     `json:"because,omitempty"`
	Doubtful string     `json:"doubtful,omitempty"`
	Fold     *fold      `json:"fold,omitempty"` // only in an Outline
}

func (m *more) empty() bool {
	return m.Deposed == "" && m.Attempt == "" && m.Attempts == 0 && len(m.Waits) == 0 && len(m.Holds) == 0 &&
		m.Failure == "" && m.Because == "" && m.Doubtful == "" && m.Fold == nil
}

// waitForm is a wait as [kind, name, from, to].
type waitForm Wait

func (w waitForm) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{string(w.Kind), w.Name, w.From, w.To})
}

func (w *waitForm) UnmarshalJSON(data []byte) error {
	var kind string
	into := []any{&kind, &w.Name, &w.From, &w.To}
	if err := json.Unmarshal(data, &into); err != nil {
		return fmt.Errorf("a wait: %w", err)
	}
	if len(into) < 4 || len(kind) != 1 {
		return fmt.Errorf("a wait has a kind, a name and two times, and not %s", data)
	}
	w.Kind = WaitKind(kind[0])
	return nil
}

type modelForm struct {
	form
	Names    []string   `json:"names"`
	Vertices columns    `json:"vertices"`
	Story    *storyForm `json:"story"`
}

type storyForm struct {
	form
	Names []string     `json:"names"`
	Story storyColumns `json:"story"`
}

func moreOf(v *Vertex) more {
	return more{Deposed: v.Deposed, Attempt: v.Attempt, Attempts: v.Attempts, Waits: formsOf(v.Waits), Holds: v.Holds,
		Failure: v.Failure, Because: v.Because, Doubtful: v.Doubtful}
}

func (m *more) to(v *Vertex) {
	v.Deposed, v.Attempt, v.Attempts, v.Waits, v.Holds = m.Deposed, m.Attempt, m.Attempts, waitsOf(m.Waits), m.Holds
	v.Failure, v.Because, v.Doubtful = m.Failure, m.Because, m.Doubtful
}

func formsOf(ws []Wait) []waitForm {
	if len(ws) == 0 {
		return nil
	}
	forms := make([]waitForm, len(ws))
	for i, w := range ws {
		forms[i] = waitForm(w)
	}
	return forms
}

func waitsOf(forms []waitForm) []Wait {
	if len(forms) == 0 {
		return nil
	}
	ws := make([]Wait, len(forms))
	for i, w := range forms {
		ws[i] = Wait(w)
	}
	return ws
}

// MarshalJSON encodes the model: its Shape, with its Story as a field.
func (m *Model) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	if err := m.Write(&b, Shape); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - len("}\n"))
	b.WriteString(`,"story":`)
	if err := m.Write(&b, Story); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - len("\n"))
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON decodes the output of MarshalJSON, or a Shape alone.
func (m *Model) UnmarshalJSON(data []byte) error {
	var f modelForm
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if f.Version != Version {
		return fmt.Errorf("the timeline has version %d, and this program reads version %d", f.Version, Version)
	}
	if f.Outline {
		return errors.New("this is the outline of a timeline, and not all of it")
	}
	*m = Model{Cursor: f.Cursor, Head: f.Head, Counts: f.Counts, Shortages: f.Shortages,
		Vertices: make([]Vertex, len(f.Vertices.Number))}
	if err := m.shape(&f.Vertices, f.Names); err != nil {
		return err
	}
	if f.Story != nil {
		return m.story(&f.Story.Story, f.Story.Names)
	}
	return nil
}

// same returns an error unless all columns have n entries.
func same(n int, have ...int) error {
	for _, k := range have {
		if k != n {
			return fmt.Errorf("the timeline has a column of %d entries where there are %d", k, n)
		}
	}
	return nil
}

// nameAt returns an entry of the table of names.
func nameAt(names []string, i int) (string, error) {
	if i < 0 || i >= len(names) {
		return "", fmt.Errorf("the timeline has no name %d", i)
	}
	return names[i], nil
}

// take removes the first n entries of a column and returns them.
func take[T any](from *[]T, n int) ([]T, error) {
	if n < 0 || n > len(*from) {
		return nil, fmt.Errorf("the timeline ends before %d further entries", n)
	}
	head := (*from)[:n:n]
	*from = (*from)[n:]
	return head, nil
}

func (m *Model) shape(c *columns, names []string) error {
	if err := same(len(m.Vertices), len(c.Module), len(c.Block), len(c.Key), len(c.Type), len(c.Action), len(c.Letters),
		len(c.Pool), len(c.Worker), len(c.Ready), len(c.Started), len(c.Ended), len(c.Took), len(c.Degree)); err != nil {
		return err
	}
	after := c.After
	for i := range m.Vertices {
		v := &m.Vertices[i]
		for _, ref := range []struct {
			to *string
			at int
		}{{&v.Module, c.Module[i]}, {&v.Address, c.Block[i]}, {&v.Type, c.Type[i]}, {&v.Action, c.Action[i]},
			{&v.Pool, c.Pool[i]}, {&v.Worker, c.Worker[i]}} {
			var err error
			if *ref.to, err = nameAt(names, ref.at); err != nil {
				return err
			}
		}
		v.Number, v.Status, v.Address = c.Number[i], Status(c.Letters[i]), v.Address+c.Key[i]
		if v.Module != "" {
			v.Address = v.Module + "." + v.Address
		}
		v.Ready, v.Started, v.Ended, v.Took = c.Ready[i], c.Started[i], c.Ended[i], c.Took[i]
		if rest, ok := c.More[i]; ok {
			rest.to(v)
		}
		var err error
		if v.After, err = take(&after, c.Degree[i]); err != nil {
			return err
		}
		if len(v.After) == 0 {
			v.After = nil
		}
	}
	return same(0, len(after))
}

func (m *Model) story(c *storyColumns, names []string) error {
	n := len(c.Number)
	if err := errors.Join(same(n, len(c.Waits), len(c.Attempts), len(c.Last)),
		same(len(c.Letters), len(c.Name), len(c.From), len(c.To))); err != nil {
		return err
	}
	at := make(map[int]*Vertex, len(m.Vertices))
	for i := range m.Vertices {
		at[m.Vertices[i].Number] = &m.Vertices[i]
	}
	k := 0
	for i, number := range c.Number {
		v, ok := at[number]
		if !ok || c.Waits[i] < 0 || k+c.Waits[i] > len(c.Letters) {
			return fmt.Errorf("the timeline refers to a vertex %d that it does not contain", number)
		}
		v.Attempts, v.Attempt = c.Attempts[i], c.Last[i]
		for range c.Waits[i] {
			name, err := nameAt(names, c.Name[k])
			if err != nil {
				return err
			}
			v.Waits = append(v.Waits, Wait{Kind: WaitKind(c.Letters[k]), Name: name, From: c.From[k], To: c.To[k]})
			k++
		}
	}
	return same(k, len(c.Letters))
}

// changeForm is the JSON form of a vertex among changes.
type changeForm struct {
	Number  int     `json:"number"`
	Address *string `json:"address,omitempty"` // the whole address; only for new vertices
	Module  string  `json:"module,omitempty"`
	Type    string  `json:"type,omitempty"`
	After   []int   `json:"after,omitempty"`
	Action  string  `json:"action,omitempty"`
	Status  string  `json:"status"`
	Pool    string  `json:"pool,omitempty"`
	Worker  string  `json:"worker,omitempty"`
	Ready   int64   `json:"ready"`
	Started int64   `json:"started"`
	Ended   int64   `json:"ended"`
	Took    int64   `json:"took,omitempty"`
	more
}

// MarshalJSON encodes the changes, an object for each vertex.
func (c *Changes) MarshalJSON() ([]byte, error) {
	form := struct {
		Version   int          `json:"version"`
		Cursor    uint64       `json:"cursor"`
		Head      Head         `json:"head"`
		Counts    Counts       `json:"counts"`
		Vertices  []changeForm `json:"vertices"`
		Shortages []Shortage   `json:"shortages"`
	}{Version, c.Cursor, c.Head, c.Counts, make([]changeForm, len(c.Vertices)), c.Shortages}
	if form.Shortages == nil {
		form.Shortages = []Shortage{} // there are no shortages any more
	}
	for i := range c.Vertices {
		v := &c.Vertices[i]
		form.Vertices[i] = changeForm{Number: v.Number, Module: v.Module, Type: v.Type, After: v.After,
			Action: v.Action, Status: string(v.Status), Pool: v.Pool, Worker: v.Worker, Ready: v.Ready,
			Started: v.Started, Ended: v.Ended, Took: v.Took, more: moreOf(v)}
		if v.Address != "" || v.Status == Junction {
			form.Vertices[i].Address = &v.Address
		}
	}
	return json.Marshal(form)
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (c *Changes) UnmarshalJSON(data []byte) error {
	var form struct {
		Version   int          `json:"version"`
		Cursor    uint64       `json:"cursor"`
		Head      Head         `json:"head"`
		Counts    Counts       `json:"counts"`
		Vertices  []changeForm `json:"vertices"`
		Shortages []Shortage   `json:"shortages"`
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return err
	}
	if form.Version > Version {
		return fmt.Errorf("the timeline has version %d, and %d is the highest that is known", form.Version, Version)
	}
	*c = Changes{Cursor: form.Cursor, Head: form.Head, Counts: form.Counts, Shortages: form.Shortages}
	for i := range form.Vertices {
		f := &form.Vertices[i]
		if len(f.Status) != 1 {
			return fmt.Errorf("vertex %d has the status %q", f.Number, f.Status)
		}
		v := Vertex{Number: f.Number, Module: f.Module, Type: f.Type, After: f.After, Action: f.Action,
			Status: Status(f.Status[0]), Pool: f.Pool, Worker: f.Worker, Ready: f.Ready, Started: f.Started,
			Ended: f.Ended, Took: f.Took}
		if f.Address != nil {
			v.Address = *f.Address
		}
		f.more.to(&v)
		c.Vertices = append(c.Vertices, v)
	}
	return nil
}
