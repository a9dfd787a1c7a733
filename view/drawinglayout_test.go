package view

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func drawnExample(n int) *Drawing {
	d := newDrawing()
	for i := range n {
		shape := []string{"box", "diamond", "note", "point", ""}[i%5]
		d.vertex(drawn{fmt.Sprintf("a.b%d", i), fmt.Sprintf("a.b%d", i), shape})
		if i > 2 {
			d.edge(i, (i-1)/2)
			d.edge(i, i%3)
		}
	}
	return d.finish()
}

func TestPicturesOfAGraphPutWhatComesFirstOnTheLeftAndNothingOnTopOfEachOther(t *testing.T) {
	d := drawnExample(300)
	p := d.layout()
	for _, e := range d.edges {
		if p.x[e[0]] < p.x[e[1]]+p.w[e[1]] {
			t.Fatalf("%s depends on %s, and is left of it", d.vertices[e[0]].name, d.vertices[e[1]].name)
		}
	}
	for a := range d.vertices {
		for b := range a {
			if p.x[a] == p.x[b] && p.y[a] < p.y[b]+svgHeight && p.y[b] < p.y[a]+svgHeight {
				t.Fatalf("%s and %s overlap", d.vertices[a].name, d.vertices[b].name)
			}
		}
		if p.x[a]+p.w[a] > p.width || p.y[a]+svgHeight > p.height || p.x[a] < 0 || p.y[a] < 0 {
			t.Fatalf("%s is outside", d.vertices[a].name)
		}
	}
}

func TestAPictureIsTheSameEachTimeAndWellFormedWhateverNamesAre(t *testing.T) {
	make := func() string {
		d := drawnExample(40)
		d.edge(0, 39) // a cycle
		d.edge(d.vertex(drawn{`x["</text><script>alert(1)</script>&"]`, `x["<script>"]`, "box"}), 0)
		d.finish()
		d.red[[2]int{0, 39}] = true
		var b strings.Builder
		if err := d.SVG(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	text := make()
	if again := make(); again != text {
		t.Error("two drawings of the same graph differ")
	}
	if strings.Contains(text, "<script") || !strings.Contains(text, `class="red"`) {
		t.Error("a name is taken for a tag, or the cycle is not red")
	}
	for x := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := x.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheJSONOfAGraphNamesAllOfIt(t *testing.T) {
	d := drawnExample(20)
	var b bytes.Buffer
	if err := d.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var form drawingForm
	if err := json.Unmarshal(b.Bytes(), &form); err != nil {
		t.Fatal(err)
	}
	if len(form.Vertices) != 20 || len(form.Edges) != len(d.edges) || form.Vertices[0].Kind != "block" {
		t.Errorf("it is %+v", form)
	}
}

func TestAnEmptyGraphIsDrawnToo(t *testing.T) {
	for _, write := range []func(io.Writer) error{newDrawing().finish().SVG, newDrawing().finish().JSON} {
		if err := write(io.Discard); err != nil {
			t.Error(err)
		}
	}
}
