package view

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// Text from workers, providers and provisioners was written to the terminal unchanged: a worker's name could clear
// the screen, a provisioner's line change the window's title, and a value in the state overwrite the line above it.
func TestWhatOthersSayDoesNotControlTheTerminal(t *testing.T) {
	const evil = "x\x1b]0;owned\x07\x1b[2J\x1b[8m\u009b2J\rover\x9b\x7f"
	show := map[string]func(b *strings.Builder, ink Ink) error{
		"workers": func(b *strings.Builder, ink Ink) error {
			return WorkersText(Clean(b, ink),
				[]wire.Worker{{Heartbeat: wire.Heartbeat{Worker: evil, Pools: []string{evil}}}})
		},
		"a state": func(b *strings.Builder, ink Ink) error {
			s := state.Empty()
			s.Outputs["lines"] = &state.Output{Value: cty.StringVal("line\n" + evil)}
			return StateText(Clean(b, ink), s, &values.Schemas{}, TextOptions{Ink: ink})
		},
		"a diagnostic": func(b *strings.Builder, ink Ink) error {
			return (&Printer{Out: b, Err: b, Ink: ink}).Diagnostics(diag.Errors(evil, "Why.\n\n"+evil, nil))
		},
		"compact warnings": func(b *strings.Builder, ink Ink) error {
			l := diag.List{diag.New(diag.Warning, evil, evil, nil)}
			return (&Printer{Out: b, Err: b, Ink: ink, CompactWarnings: true}).Diagnostics(l)
		},
		"a run": func(b *strings.Builder, ink Ink) error {
			p := NewProgress(ProgressOptions{Out: b, Ink: ink})
			d := program.Description{Address: `a.b["` + evil + `"]`, Action: "create"}
			p.Started(1, d, "", time.Time{})
			p.Finished(1, d, program.Notes{IDKey: "id", ID: evil}, time.Second)
			p.Doubtful(1, d, evil)
			p.Waiting([]coordinator.Wait{{Pool: evil, Address: evil, Vertices: 1}})
			p.Event(wire.Event{Kind: "provision_start", Address: evil, Name: evil})
			p.Event(wire.Event{Kind: "output", Address: evil, Name: evil, Text: "line\r\n" + evil + "\n"})
			return p.Settle()
		},
	}
	for sentence, write := range show {
		for _, ink := range []Ink{false, true} {
			var b strings.Builder
			if err := write(&b, ink); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			for _, ours := range []string{resetCode, boldCode, redCode, greenCode, yellowCode, grayCode} {
				text = strings.ReplaceAll(text, ours, "")
			}
			const shown = "x␛]0;owned␇␛[2J␛[8m�2J"
			if !strings.Contains(text, shown+"␍over�␡") && !strings.Contains(text, shown+"\n") {
				t.Errorf("%s, coloured %t, does not show what was said: %q", sentence, ink, text)
			}
			if strings.ContainsAny(text, "\x1b\x07\r\u009b\x7f") || strings.Contains(text, "\x9b2") {
				t.Errorf("%s, coloured %t, controls the terminal: %q", sentence, ink, text)
			}
		}
	}
}

// written reports each write on a channel.
type written struct {
	strings.Builder
	once  sync.Once
	first chan struct{}
}

func (w *written) Write(p []byte) (int, error) {
	defer w.once.Do(func() { close(w.first) })
	return w.Builder.Write(p)
}

// The live line contains names of pools, which workers choose; they were written unchanged.
func TestTheLiveLineHasNoControlCharactersOfOthers(t *testing.T) {
	b := written{first: make(chan struct{})}
	p := NewProgress(ProgressOptions{Out: &b, Width: func() int { return 200 }})
	p.Counts(coordinator.Counts{Total: 2, Pools: map[string]coordinator.PoolCounts{"a\x1b[2J\r": {Running: 1}}})
	<-b.first // nothing settled earlier has a live line
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "a␛[2J␍: 1 running") || strings.Contains(text, "\x1b[2J") {
		t.Errorf("the live line: %q", text)
	}
}

// Tools that provisioners call colour their output. This is harmless: colours are kept on a terminal, and removed
// where text has no colours.
func TestColoursOfOthersAreKeptWhereThereAreColours(t *testing.T) {
	const said = "\x1b[1;32mok\x1b[0m \x1b[01;31mbad\x1b[m"
	if got := clean(said, true); got != said {
		t.Errorf("with colours: %q", got)
	}
	if got := clean(said, false); got != "ok bad" {
		t.Errorf("without: %q", got)
	}
}

func TestACharacterThatIsSpreadOverTwoWritesStaysWhole(t *testing.T) {
	const text = "größer ␛ 世界\r\n\tend"
	for at := range len(text) {
		if text[at] == '\n' {
			continue // a line break is written at once
		}
		var b strings.Builder
		w := Clean(&b, false)
		for _, part := range []string{text[:at], text[at:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if b.String() != text {
			t.Errorf("divided at %d: %q", at, b.String())
		}
	}
}
