package timeline

import (
	"encoding/json"
	"fmt"
	"strings"
)

// columns is the JSON form of the vertices of a model: a list for each field, with an entry for each vertex, and a
// table of the names that many have in common. The entry 0 of the table is the empty name.
type columns struct {
	Number  []int    `json:"number"`
	Module  []int    `json:"module"`  // in names
	Address []string `json:"address"` // without the module and the dot behind it
	Type    []int    `json:"type"`    // in names
	Action  []int    `json:"action"`  // in names
	Status  string   `json:"status"`  // a letter for each
	Pool    []int    `json:"pool"`    // in names
	Worker  []int    `json:"worker"`  // in names
	Ready   []int64  `json:"ready"`
	Started []int64  `json:"started"`
	Ended   []int64  `json:"ended"`
	Took    []int64  `json:"took"`
	After   [][]int  `json:"after"`
	// More has the fields that few have, by the index in the lists above.
	More map[int]more `json:"more,omitempty"`
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
}

func (m *more) empty() bool {
	return m.Deposed == "" && m.Attempt == "" && m.Attempts == 0 && len(m.Waits) == 0 && len(m.Holds) == 0 &&
		m.Failure == "" && m.Because == "" && m.Doubtful == ""
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
	Version   int        `json:"version"`
	Cursor    uint64     `json:"cursor"`
	Head      Head       `json:"head"`
	Counts    Counts     `json:"counts"`
	Names     []string   `json:"names"`
	Vertices  columns    `json:"vertices"`
	Shortages []Shortage `json:"shortages,omitempty"`
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

// MarshalJSON writes the model in columns.
func (m *Model) MarshalJSON() ([]byte, error) {
	names, table := map[string]int{"": 0}, []string{""}
	name := func(s string) int {
		i, ok := names[s]
		if !ok {
			i = len(table)
			names[s] = i
			table = append(table, s)
		}
		return i
	}
	n := len(m.Vertices)
	numbers := make([]int, 5*n)
	times := make([]int64, 4*n)
	c := columns{
		Number: make([]int, n), Address: make([]string, n), After: make([][]int, n), More: map[int]more{},
		Module: numbers[:n], Type: numbers[n : 2*n], Action: numbers[2*n : 3*n], Pool: numbers[3*n : 4*n],
		Worker: numbers[4*n:],
		Ready:  times[:n], Started: times[n : 2*n], Ended: times[2*n : 3*n], Took: times[3*n:],
	}
	status := make([]byte, n)
	for i := range m.Vertices {
		v := &m.Vertices[i]
		c.Number[i], c.Module[i], c.Type[i], c.Action[i] = v.Number, name(v.Module), name(v.Type), name(v.Action)
		c.Address[i] = v.Address
		if v.Module != "" {
			c.Address[i] = strings.TrimPrefix(v.Address, v.Module+".")
		}
		status[i], c.Pool[i], c.Worker[i] = byte(v.Status), name(v.Pool), name(v.Worker)
		c.Ready[i], c.Started[i], c.Ended[i], c.Took[i] = v.Ready, v.Started, v.Ended, v.Took
		if c.After[i] = v.After; v.After == nil {
			c.After[i] = []int{}
		}
		if rest := moreOf(v); !rest.empty() {
			c.More[i] = rest
		}
	}
	c.Status = string(status)
	return json.Marshal(modelForm{Version: Version, Cursor: m.Cursor, Head: m.Head, Counts: m.Counts, Names: table,
		Vertices: c, Shortages: m.Shortages})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (m *Model) UnmarshalJSON(data []byte) error {
	var f modelForm
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if f.Version > Version {
		return fmt.Errorf("the timeline has version %d, and %d is the highest that is known", f.Version, Version)
	}
	c, n := &f.Vertices, len(f.Vertices.Number)
	for _, have := range []int{len(c.Module), len(c.Address), len(c.Type), len(c.Action), len(c.Status), len(c.Pool),
		len(c.Worker), len(c.Ready), len(c.Started), len(c.Ended), len(c.Took), len(c.After)} {
		if have != n {
			return fmt.Errorf("the timeline has a column of %d entries for %d vertices", have, n)
		}
	}
	*m = Model{Cursor: f.Cursor, Head: f.Head, Counts: f.Counts, Shortages: f.Shortages, Vertices: make([]Vertex, n)}
	for i := range m.Vertices {
		v := &m.Vertices[i]
		for _, ref := range []struct {
			to *string
			at int
		}{{&v.Module, c.Module[i]}, {&v.Type, c.Type[i]}, {&v.Action, c.Action[i]}, {&v.Pool, c.Pool[i]},
			{&v.Worker, c.Worker[i]}} {
			if ref.at < 0 || ref.at >= len(f.Names) {
				return fmt.Errorf("the timeline has no name %d", ref.at)
			}
			*ref.to = f.Names[ref.at]
		}
		v.Number, v.Address, v.Status, v.After = c.Number[i], c.Address[i], Status(c.Status[i]), c.After[i]
		if v.Module != "" {
			v.Address = v.Module + "." + v.Address
		}
		v.Ready, v.Started, v.Ended, v.Took = c.Ready[i], c.Started[i], c.Ended[i], c.Took[i]
		if rest, ok := c.More[i]; ok {
			rest.to(v)
		}
		if len(v.After) == 0 {
			v.After = nil
		}
	}
	return nil
}

// changeForm is the JSON form of a vertex among changes.
type changeForm struct {
	Number  int     `json:"number"`
	Address *string `json:"address,omitempty"` // whole; only in a vertex that is new
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

// MarshalJSON writes the changes, an object for each vertex.
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
		form.Shortages = []Shortage{} // there are none any more
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

// UnmarshalJSON reads what MarshalJSON has written.
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
