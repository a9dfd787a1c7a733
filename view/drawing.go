package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// Drawing is a graph to be shown to people.
type Drawing struct {
	vertices []drawn
	// edges are pairs of a vertex and one that it depends on, sorted when the drawing is finished.
	edges [][2]int
	// red are the edges that make up cycles.
	red   map[[2]int]bool
	index map[string]int
}

// drawn is a vertex.
type drawn struct {
	name string // unique
	// label and shape are how the vertex is drawn; a vertex without a shape is drawn by its name, if an edge needs
	// it.
	label, shape string
}

// DrawingOptions say how much of a graph is drawn.
type DrawingOptions struct {
	// Depth is the number of levels of modules that are shown; deeper vertices are drawn as their module. Negative
	// for all.
	Depth int
	// Verbose also draws the vertices that exist only to order others.
	Verbose bool
	// Cycles paints the edges of cycles.
	Cycles bool
}

func newDrawing() *Drawing { return &Drawing{index: map[string]int{}, red: map[[2]int]bool{}} }

// vertex returns the vertex with a name, adding it if there is none.
func (d *Drawing) vertex(v drawn) int {
	i, ok := d.index[v.name]
	if !ok {
		i = len(d.vertices)
		d.index[v.name] = i
		d.vertices = append(d.vertices, v)
	}
	return i
}

// edge adds an edge from a vertex to one that it depends on.
func (d *Drawing) edge(after, before int) {
	if after != before {
		d.edges = append(d.edges, [2]int{after, before})
	}
}

// PlanDrawing draws the plan graph.
func PlanDrawing(s *graph.Static, o DrawingOptions) *Drawing {
	d := newDrawing()
	at := make([]int, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		v := nodeDrawn(n, n.Kind == graph.ResourceDone && o.Verbose)
		at[i] = d.vertex(o.shallow(n.Module, v))
	}
	for e := range s.Graph.Edges() {
		d.edge(at[e.After], at[e.Before])
	}
	if o.Cycles {
		for _, c := range s.Graph.Cycles() {
			for i, v := range c.Loop {
				next := c.Loop[(i+1)%len(c.Loop)]
				d.red[[2]int{at[v], at[next]}] = true
				if v == next {
					d.edges = append(d.edges, [2]int{at[v], at[v]})
				}
			}
		}
	}
	return d.finish()
}

// shallow returns the vertex to draw for a vertex of a module: the vertex itself, or the enclosing module at the
// maximum depth.
func (o DrawingOptions) shallow(m addr.Module, v drawn) drawn {
	path := m.Path()
	if o.Depth < 0 || len(path) <= o.Depth {
		return v
	}
	name := addr.RootModule
	for _, step := range path[:o.Depth+1] {
		name = name.Child(step)
	}
	return drawn{name: name.String() + " (expand)"}
}

// nodeDrawn returns the vertex of a block. done is set if the end of a resource is a vertex of its own.
func nodeDrawn(n *graph.Node, done bool) drawn {
	address := n.Address()
	switch n.Kind {
	case graph.VariableNode:
		if n.Module.IsRoot() {
			return drawn{address, address, "note"}
		}
	case graph.ProviderNode:
		return drawn{address, address, "diamond"}
	case graph.ResourceDone:
		if done {
			return drawn{name: address + " (done)"}
		}
		return drawn{address + " (expand)", address, "box"}
	case graph.ResourceNode:
		return drawn{address + " (expand)", address, "box"}
	case graph.OrphanNode:
		return drawn{address + " (orphan)", address, "box"}
	case graph.CloseNode:
		return drawn{name: address + " (close)"}
	}
	return drawn{name: address + " (expand)"}
}

// ApplyDrawing draws the apply graph of a plan. s is the plan graph from which it was made.
func ApplyDrawing(s *graph.Static, p *plan.Plan, g *plan.Graph, o DrawingOptions) *Drawing {
	d := newDrawing()
	useful := orderingThatMatters(g, o.Verbose)
	at := make([]int, len(g.Vertices))
	for i := range g.Vertices {
		at[i] = -1
		if v := &g.Vertices[i]; useful[i] {
			at[i] = d.vertex(applyDrawn(s, p, v, i, o))
		}
	}
	for _, e := range g.Edges {
		if before, after := at[e[0]], at[e[1]]; before >= 0 && after >= 0 {
			d.edge(after, before)
		}
	}
	return d.finish()
}

// applyDrawn returns vertex i of an apply graph. The vertices of blocks come first, in the order of the plan graph.
func applyDrawn(s *graph.Static, p *plan.Plan, v *plan.Vertex, i int, o DrawingOptions) drawn {
	switch {
	case v.Kind == plan.InvokeAction:
		return o.shallow(p.Invocations[v.Invocation()].Addr.Module.Module(), drawn{v.Address + " (invoke)", v.Address, "box"})
	case v.Change >= 0:
		c := p.Changes[v.Change]
		name := v.Address
		if v.Kind == plan.DestroyObject {
			name += " (destroy)"
		}
		return o.shallow(c.Addr.Module.Module(), drawn{name, v.Address, "box"})
	case i < len(s.Nodes):
		return o.shallow(s.Nodes[i].Module, nodeDrawn(&s.Nodes[i], true))
	default:
		return drawn{fmt.Sprintf("order %d", i), "", "point"}
	}
}

// orderingThatMatters returns which vertices of an apply graph are drawn: all if verbose; otherwise those with an
// operation, those of blocks, and the unnamed ones on a path between two of these.
func orderingThatMatters(g *plan.Graph, verbose bool) []bool {
	n := len(g.Vertices)
	named := func(i int) bool { return verbose || g.Vertices[i].Address != "" }
	reach := func(from, to int) []bool {
		next := make([][]int32, n)
		for _, e := range g.Edges {
			next[e[from]] = append(next[e[from]], e[to])
		}
		seen := make([]bool, n)
		var todo []int32
		for i := range n {
			if named(i) && (g.Vertices[i].Kind != plan.Sync || verbose) {
				seen[i] = true
				todo = append(todo, int32(i))
			}
		}
		for len(todo) > 0 {
			v := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, w := range next[v] {
				if !seen[w] {
					seen[w] = true
					todo = append(todo, w)
				}
			}
		}
		return seen
	}
	behind, before := reach(0, 1), reach(1, 0)
	out := make([]bool, n)
	for i := range out {
		out[i] = named(i) || behind[i] && before[i]
	}
	return out
}

// finish sorts the edges and removes duplicates.
func (d *Drawing) finish() *Drawing {
	slices.SortFunc(d.edges, func(a, b [2]int) int {
		if c := strings.Compare(d.vertices[a[0]].name, d.vertices[b[0]].name); c != 0 {
			return c
		}
		return strings.Compare(d.vertices[a[1]].name, d.vertices[b[1]].name)
	})
	d.edges = slices.Compact(d.edges)
	return d
}

// sorted returns the vertices to draw explicitly, by name: those with a shape, and those without edges.
func (d *Drawing) sorted() []drawn {
	touched := make([]bool, len(d.vertices))
	for _, e := range d.edges {
		touched[e[0]], touched[e[1]] = true, true
	}
	var out []drawn
	for i, v := range d.vertices {
		if v.shape != "" || !touched[i] {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b drawn) int { return strings.Compare(a.name, b.name) })
	return out
}

// DOT writes the drawing in the language of Graphviz, in OpenTofu's form, which other tools read. It returns the
// error of writing.
func (d *Drawing) DOT(w io.Writer) error {
	var b strings.Builder
	b.WriteString("digraph {\n\tcompound = \"true\"\n\tnewrank = \"true\"\n\tsubgraph \"root\" {\n")
	id := func(v drawn) string { return dotQuote("[root] " + v.name) }
	for _, v := range d.sorted() {
		attributes := ""
		if v.shape != "" {
			attributes = fmt.Sprintf(" [label = %s, shape = %s]", dotQuote(v.label), dotQuote(v.shape))
		}
		fmt.Fprintf(&b, "\t\t%s%s\n", id(v), attributes)
	}
	for _, e := range d.edges {
		color := ""
		if d.red[e] {
			color = ` [color = "red", penwidth = "2.0"]`
		}
		fmt.Fprintf(&b, "\t\t%s -> %s%s\n", id(d.vertices[e[0]]), id(d.vertices[e[1]]), color)
	}
	b.WriteString("\t}\n}\n\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// dotQuote returns a string literal of DOT.
func dotQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Mermaid writes the drawing as a Mermaid flowchart. It returns the error of writing.
func (d *Drawing) Mermaid(w io.Writer) error {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	number := make([]int, len(d.vertices))
	order := make([]int, len(d.vertices))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return strings.Compare(d.vertices[x].name, d.vertices[y].name) })
	for n, i := range order {
		number[i] = n
		fmt.Fprintf(&b, "  n%d%s\n", n, mermaidShape(d.vertices[i]))
	}
	var red []string
	for i, e := range d.edges {
		fmt.Fprintf(&b, "  n%d --> n%d\n", number[e[0]], number[e[1]])
		if d.red[e] {
			red = append(red, fmt.Sprint(i))
		}
	}
	if len(red) > 0 {
		fmt.Fprintf(&b, "  linkStyle %s stroke:red,stroke-width:2px\n", strings.Join(red, ","))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func mermaidShape(v drawn) string {
	text := `"` + strings.NewReplacer(`"`, "#quot;", "#", "#35;").Replace(v.name) + `"`
	switch v.shape {
	case "box":
		return "[" + text + "]"
	case "diamond":
		return "{{" + text + "}}"
	case "note":
		return ">" + text + "]"
	case "point":
		return "(( ))"
	default:
		return "(" + text + ")"
	}
}
