//go:build unix

package browser

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// hand is a person who uses the pages with a mouse alone, or with a keyboard alone. Elements are named by CSS
// selectors. Texts are typed in both cases.
type hand interface {
	// login logs in as the administrator.
	login()
	// press activates a link, a button, or the summary of details.
	press(what, selector string)
	// tick chooses a radio button.
	tick(what, selector string)
	// fill types a text into a field.
	fill(what, selector, text string)
	// gantt shows the Gantt in place of the graph.
	gantt()
	// vertex selects a vertex in the graph or the Gantt.
	vertex(drawing, address string)
	// closer shows less of the Gantt, at a larger scale.
	closer()
	// whole shows all of it again.
	whole()
}

// byEveryHand runs a test with a keyboard alone and with a mouse alone, each with a service and a browser of its own.
func byEveryHand(t *testing.T, test func(t *testing.T, s *Site, h hand)) {
	t.Run("keyboard", func(t *testing.T) {
		s := Open(t)
		test(t, s, keyboard{s})
	})
	t.Run("mouse", func(t *testing.T) {
		s := Open(t)
		test(t, s, mouse{s})
	})
}

// drawn is the picture of the run on the page; of is an expression that is evaluated with its names.
func drawn(of string) string {
	return `(({ run, graph, gantt, selected }) => ` + of + `)(document.querySelector("[data-picture]").picture)`
}

// numbered is the number of the vertex with an address, within drawn.
func numbered(address string) string {
	return `[...Array(run.size).keys()].find((i) => run.address(i) === ` + quoted(address) + `)`
}

// keyboard only presses keys. It finds the focused element by means of the tabulator key.
type keyboard struct{ *Site }

// tabTo presses the tabulator key until the focused element fulfils a condition of the page, and then the given key.
func (s *Site) tabTo(what, condition, key string) {
	s.t.Helper()
	for range 80 {
		s.do(chromedp.KeyEvent(kb.Tab))
		if value[bool](s, `((e) => Boolean(e && (`+condition+`)))(document.activeElement)`) {
			s.do(chromedp.KeyEvent(key))
			return
		}
	}
	s.t.Fatalf("%s is not reached by the keyboard; the page shows: %s", what, s.text())
}

func (k keyboard) login() { k.Site.login() }

func (k keyboard) press(what, selector string) {
	k.tabTo(what, `e.matches(`+quoted(selector)+`)`, "\r")
}

func (k keyboard) tick(what, selector string) { k.tabTo(what, `e.matches(`+quoted(selector)+`)`, " ") }

func (k keyboard) fill(what, selector, text string) {
	k.tabTo(what, `e.matches(`+quoted(selector)+`)`, text)
}

func (k keyboard) gantt() {
	k.tabTo("the tab of the graph", `e.id === "picture-tab-graph"`, kb.ArrowRight)
}

// vertex goes through the drawing by the arrow keys. The next key is the one that a person would press who sees where
// the selected vertex is, and where the wanted one.
func (k keyboard) vertex(drawing, address string) {
	k.t.Helper()
	k.tabTo("the "+drawing, `e.matches("#picture-`+drawing+` canvas")`, kb.ArrowRight)
	keys := map[string]string{"left": kb.ArrowLeft, "right": kb.ArrowRight, "up": kb.ArrowUp, "down": kb.ArrowDown}
	way := map[string]string{
		"graph": `{ across: graph.plan.x[graph.placeOf(i)] - graph.plan.x[graph.placeOf(selected)],
			down: graph.plan.y[graph.placeOf(i)] - graph.plan.y[graph.placeOf(selected)] }`,
		"gantt": `{ across: run.started[i] - run.started[selected],
			down: 1e9 * (gantt.lanes.laneOf(i) - gantt.lanes.laneOf(selected)) }`,
	}[drawing]
	for range 60 {
		next := value[string](k.Site, drawn(`((i) => {
			if (i === selected) return "here";
			const { across, down } = `+way+`;
			if (Math.abs(across) > Math.abs(down)) return across > 0 ? "right" : "left";
			return down > 0 ? "down" : "up";
		})(`+numbered(address)+`)`))
		if next == "here" {
			return
		}
		k.do(chromedp.KeyEvent(keys[next]))
	}
	k.t.Fatalf("%s is not reached by the arrow keys in the %s", address, drawing)
}

func (k keyboard) closer() { k.do(chromedp.KeyEvent("++")) }

func (k keyboard) whole() { k.do(chromedp.KeyEvent("0")) }

// mouse only points and clicks.
type mouse struct{ *Site }

func (m mouse) login() {
	m.t.Helper()
	m.do(chromedp.Navigate(m.Address+"/app/login"), chromedp.WaitVisible("#username", chromedp.ByQuery))
	m.fill("the name", "#username", "root")
	m.fill("the password", "#password", m.Token)
	m.press("the button", "main form button")
	m.do(chromedp.WaitVisible("#needs", chromedp.ByQuery))
}

func (m mouse) press(_, selector string) { m.do(chromedp.Click(selector, chromedp.ByQuery)) }

func (m mouse) tick(_, selector string) { m.do(chromedp.Click(selector, chromedp.ByQuery)) }

func (m mouse) fill(_, selector, text string) {
	m.do(chromedp.Click(selector, chromedp.ByQuery), chromedp.KeyEvent(text))
}

func (m mouse) gantt() { m.press("", "#picture-tab-gantt") }

// at returns where on the screen a vertex is drawn.
func (m mouse) at(drawing, address string) (x, y float64) {
	m.t.Helper()
	m.do(chromedp.ScrollIntoView("#picture-"+drawing+" canvas", chromedp.ByQuery))
	sought := drawn(`((i) => {
		const drawing = ` + drawing + `, box = drawing.canvas.getBoundingClientRect();
		for (let y = 2; y < box.height && box.y + y < innerHeight; y += 3) {
			for (let x = 2; x < box.width; x += 3) {
				const hit = drawing.hit(x, y);
				if ((drawing === graph ? graph.places[hit] : hit) === i) return [box.x + x, box.y + y];
			}
		}
		return null;
	})(` + numbered(address) + `)`)
	m.until(address+" is not in sight in the "+drawing, sought)
	point := value[[]float64](m.Site, sought)
	return point[0], point[1]
}

func (m mouse) vertex(drawing, address string) {
	m.t.Helper()
	x, y := m.at(drawing, address)
	m.do(chromedp.MouseClickXY(x, y))
	m.until(address+" is not selected", drawn(numbered(address)+` === selected`))
}

func (m mouse) closer() {
	m.t.Helper()
	x, y := m.at("gantt", "fleet_network.main")
	m.do(input.DispatchMouseEvent(input.MouseWheel, x+5, y).WithDeltaX(0).WithDeltaY(-200))
}

func (m mouse) whole() {
	m.do(chromedp.Click(`//div[@role="group"]//button[text()="Fit"]`, chromedp.BySearch))
}
