package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Sizes of an SVG drawing, in pixels. The widths of letters are those of the widest common font, because text
// cannot be measured here.
const (
	svgLetter  = 7.3
	svgHeight  = 26.0
	svgPadding = 14.0
	svgGapX    = 60.0
	svgGapY    = 12.0
	svgMargin  = 20.0
	// svgSweeps is the number of passes, forward and back, that order the layers by their neighbours.
	svgSweeps = 6
)

// layout is a drawing with a position for each vertex.
type layout struct {
	order         []int // the vertices by name
	x, y, w       []float64
	width, height float64
}

// layers returns the layer of each vertex: 0 for a vertex without dependencies, else one more than the highest of
// its dependencies. Edges that close a cycle are ignored; which ones depends only on the order of the vertices.
func (d *Drawing) layers(order []int) []int {
	n := len(d.vertices)
	before := make([][]int, n)
	for _, e := range d.edges {
		before[e[0]] = append(before[e[0]], e[1])
	}
	const open = -2
	layer := make([]int, n)
	for i := range layer {
		layer[i] = -1
	}
	type frame struct{ v, next int }
	for _, root := range order {
		if layer[root] != -1 {
			continue
		}
		stack := []frame{{root, 0}}
		layer[root] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next < len(before[f.v]) {
				b := before[f.v][f.next]
				f.next++
				if layer[b] == -1 {
					layer[b] = open
					stack = append(stack, frame{b, 0})
				}
				continue
			}
			at := 0
			for _, b := range before[f.v] {
				if layer[b] >= 0 {
					at = max(at, layer[b]+1)
				}
			}
			layer[f.v] = at
			stack = stack[:len(stack)-1]
		}
	}
	return layer
}

// layout lays out the drawing in layers from left to right, dependencies on the left. The result depends only on the
// drawing.
func (d *Drawing) layout() *layout {
	n := len(d.vertices)
	p := &layout{order: make([]int, n), x: make([]float64, n), y: make([]float64, n), w: make([]float64, n)}
	for i := range p.order {
		p.order[i] = i
	}
	slices.SortFunc(p.order, func(a, b int) int { return strings.Compare(d.vertices[a].name, d.vertices[b].name) })
	layer := d.layers(p.order)
	var columns [][]int
	for _, v := range p.order {
		for len(columns) <= layer[v] {
			columns = append(columns, nil)
		}
		columns[layer[v]] = append(columns[layer[v]], v)
		p.w[v] = svgPadding + svgLetter*float64(utf8.RuneCountInString(d.vertices[v].text()))
		if d.vertices[v].shape == "point" {
			p.w[v] = svgHeight / 2
		}
	}
	d.untangle(columns, layer)
	right := svgMargin
	for _, column := range columns {
		widest := 0.0
		for i, v := range column {
			widest = max(widest, p.w[v])
			p.x[v] = right
			p.y[v] = svgMargin + float64(i)*(svgHeight+svgGapY)
			p.height = max(p.height, p.y[v]+svgHeight+svgMargin)
		}
		right += widest + svgGapX
	}
	for _, column := range columns { // short columns are centred
		free := p.height - 2*svgMargin - float64(len(column))*(svgHeight+svgGapY) + svgGapY
		for _, v := range column {
			p.y[v] += free / 2
		}
	}
	p.width, p.height = max(right-svgGapX, svgMargin)+svgMargin, max(p.height, 2*svgMargin)
	return p
}

// untangle orders each layer by the mean positions of the neighbours of its vertices.
func (d *Drawing) untangle(columns [][]int, layer []int) {
	n := len(d.vertices)
	left, right := make([][]int, n), make([][]int, n)
	for _, e := range d.edges {
		if layer[e[1]] < layer[e[0]] {
			left[e[0]] = append(left[e[0]], e[1])
			right[e[1]] = append(right[e[1]], e[0])
		}
	}
	rank, middle := make([]float64, n), make([]float64, n)
	number := func(column []int) {
		for i, v := range column {
			rank[v] = (float64(i) + 0.5) / float64(len(column))
		}
	}
	for _, column := range columns {
		number(column)
	}
	sweep := func(column []int, joined [][]int) {
		for _, v := range column {
			middle[v] = rank[v]
			if len(joined[v]) > 0 {
				sum := 0.0
				for _, o := range joined[v] {
					sum += rank[o]
				}
				middle[v] = sum / float64(len(joined[v]))
			}
		}
		slices.SortStableFunc(column, func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
		number(column)
	}
	for range svgSweeps {
		for i := 1; i < len(columns); i++ {
			sweep(columns[i], left)
		}
		for i := len(columns) - 2; i >= 0; i-- {
			sweep(columns[i], right)
		}
	}
}

// text returns the label of a vertex.
func (v drawn) text() string {
	switch {
	case v.shape == "point":
		return ""
	case v.label != "":
		return v.label
	}
	return v.name
}

// svgStyle has the colours, light and dark.
const svgStyle = `text{font:12px ui-monospace,"DejaVu Sans Mono",monospace;fill:#1a1f26}` +
	`rect,polygon,circle{fill:#f5f6f8;stroke:#535d69}path{fill:none;stroke:#8a94a0}.red{stroke:#b00020;stroke-width:2}` +
	`#head,#redhead{stroke:none}#head path{fill:#8a94a0;stroke:none}#redhead path{fill:#b00020;stroke:none}` +
	`@media(prefers-color-scheme:dark){svg{background:#15181c}text{fill:#e4e8ed}rect,polygon,circle{fill:#1e2329;` +
	`stroke:#a3adb9}path{stroke:#6b7683}#head path{fill:#6b7683}.red{stroke:#ff8f93}#redhead path{fill:#ff8f93}}`

// SVG writes the drawing as a picture, with arrows from a vertex to its dependencies. It returns the error of
// writing.
func (d *Drawing) SVG(w io.Writer) error {
	p := d.layout()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n",
		p.width, p.height, p.width, p.height)
	fmt.Fprintf(&b, "<style>%s</style>\n<defs>\n", svgStyle)
	for _, id := range []string{"head", "redhead"} {
		fmt.Fprintf(&b, `<marker id="%s" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" `+
			`orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker>`+"\n", id)
	}
	b.WriteString("</defs>\n")
	for _, e := range d.edges {
		class, head := "", "head"
		if d.red[e] {
			class, head = ` class="red"`, "redhead"
		}
		fmt.Fprintf(&b, `<path%s d="%s" marker-end="url(#%s)"/>`+"\n", class, p.curve(e), head)
	}
	for _, v := range p.order {
		b.WriteString(d.svgVertex(p, v))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// curve returns the path of an edge, from the left side of a vertex to the right side of one that it depends on.
func (p *layout) curve(e [2]int) string {
	x1, y1 := p.x[e[0]], p.y[e[0]]+svgHeight/2
	x2, y2 := p.x[e[1]]+p.w[e[1]], p.y[e[1]]+svgHeight/2
	bend := max(svgGapX/2, (x1-x2)/2)
	return fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x1, y1, x1-bend, y1, x2+bend, y2, x2, y2)
}

func (d *Drawing) svgVertex(p *layout, v int) string {
	x, y, w := p.x[v], p.y[v], p.w[v]
	if d.vertices[v].shape == "point" {
		return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="4"/>`+"\n", x+w/2, y+svgHeight/2)
	}
	shape := fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="3"/>`, x, y, w, svgHeight)
	switch d.vertices[v].shape {
	case "diamond":
		shape = fmt.Sprintf(`<polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f"/>`,
			x, y+svgHeight/2, x+8, y, x+w-8, y, x+w, y+svgHeight/2, x+w-8, y+svgHeight, x+8, y+svgHeight)
	case "note":
		shape = fmt.Sprintf(`<polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f"/>`,
			x, y, x+w-8, y, x+w, y+8, x+w, y+svgHeight, x, y+svgHeight)
	}
	return fmt.Sprintf(`<g><title>%s</title>%s<text x="%.1f" y="%.1f">%s</text></g>`+"\n",
		html.EscapeString(d.vertices[v].name), shape, x+svgPadding/2, y+svgHeight/2+4,
		html.EscapeString(d.vertices[v].text()))
}

// drawingForm is the JSON form of a drawing, version 1.
type drawingForm struct {
	FormatVersion string       `json:"format_version"`
	Vertices      []vertexForm `json:"vertices"`
	Edges         []edgeForm   `json:"edges"`
}

type vertexForm struct {
	Name  string `json:"name"`
	Label string `json:"label,omitempty"`
	// Kind is "block", "provider", "variable", "order", or empty for a vertex that exists only for an edge.
	Kind string `json:"kind,omitempty"`
}

// edgeForm is an edge: From depends on To.
type edgeForm struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cycle bool   `json:"cycle,omitempty"`
}

var drawnKinds = map[string]string{"box": "block", "diamond": "provider", "note": "variable", "point": "order"}

// JSON writes the drawing for programs. It returns the error of writing.
func (d *Drawing) JSON(w io.Writer) error {
	form := drawingForm{FormatVersion: "1.0", Vertices: []vertexForm{}, Edges: []edgeForm{}}
	vertices := slices.Clone(d.vertices)
	slices.SortFunc(vertices, func(a, b drawn) int { return strings.Compare(a.name, b.name) })
	for _, v := range vertices {
		form.Vertices = append(form.Vertices, vertexForm{v.name, v.label, drawnKinds[v.shape]})
	}
	for _, e := range d.edges {
		form.Edges = append(form.Edges, edgeForm{d.vertices[e[0]].name, d.vertices[e[1]].name, d.red[e]})
	}
	text, err := json.MarshalIndent(form, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
