package view_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/wire"
)

// writes records each write separately.
type writes struct {
	mu   sync.Mutex
	list []string
	fail error
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return 0, w.fail
	}
	w.list = append(w.list, string(b))
	return len(b), nil
}

func (w *writes) all() string { return strings.Join(w.list, "") }

func TestWhatHappensToAnObjectIsALine(t *testing.T) {
	var out bytes.Buffer
	p := view.NewProgress(view.ProgressOptions{Out: &out})
	d := func(action string) program.Description {
		return program.Description{Address: "a.b", Action: action,
			Called: func() (string, string) { return "id", "a.b!" }}
	}
	actions := []string{"refresh", "import", "read", "create", "update", "delete", "open", "plan"}
	for i, action := range actions {
		p.Started(i, d(action), "default", time.Time{})
	}
	p.Progress(1, d("create"), 10*time.Second)
	p.Progress(1, d("delete"), 70*time.Second)
	p.Progress(1, d("refresh"), 70*time.Second)
	for i, action := range actions {
		p.Finished(i, d(action), program.Notes{ID: "x", IDKey: "name"}, 3400*time.Millisecond)
	}
	deposed := d("delete")
	deposed.Deposed = "0a1b2c3d"
	p.Started(98, deposed, "", time.Time{})
	p.Finished(98, deposed, program.Notes{}, time.Second)
	p.Finished(99, d("read"), program.Notes{}, 0) // decided without an operation
	p.Doubtful(1, d("create"), "the worker is gone")
	p.Event(wire.Event{Kind: "provision_start", Address: "a.b", Name: "local-exec"})
	p.Event(wire.Event{Kind: "output", Address: "a.b", Name: "local-exec", Text: "one  \r\n\ntwo\rthree"})
	p.Waiting([]coordinator.Wait{{Pool: "eu", Vertices: 1, Address: "a.c"}})
	p.Waiting([]coordinator.Wait{{Pool: "eu", Vertices: 2, Address: "a.c"}, {Limit: "db", Vertices: 3, Address: "a.d"}})
	doubted := coordinator.Wait{Limit: "db", Vertices: 3, Address: "a.d", Slots: 4, InDoubt: []string{"a.e", "a.f[0]"}}
	p.Waiting([]coordinator.Wait{doubted})
	p.Waiting([]coordinator.Wait{doubted})
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	want := `a.b: Refreshing state... [id=a.b!]
a.b: Preparing import... [id=a.b!]
a.b: Reading...
a.b: Creating...
a.b: Modifying... [id=a.b!]
a.b: Destroying... [id=a.b!]
a.b: Opening... [id=a.b!]
a.b: Still creating... [10s elapsed]
a.b: Still destroying... [id=a.b!, 1m10s elapsed]
a.b: Refreshing state... [name=x]
a.b: Read complete after 3s [name=x]
a.b: Creation complete after 3s [name=x]
a.b: Modifications complete after 3s [name=x]
a.b: Destruction complete after 3s
a.b: Open complete after 3s [name=x]
a.b (deposed object 0a1b2c3d): Destroying... [id=a.b!]
a.b (deposed object 0a1b2c3d): Destruction complete after 1s
a.b: The outcome is not known: the worker is gone
a.b: Provisioning with 'local-exec'...
a.b (local-exec): one
a.b (local-exec): two
a.b (local-exec): three
a.c: Waiting for a worker of the pool "eu"
a.d and 2 more: Waiting for a permit of the limit "db"
a.d and 2 more: Waiting for a permit of the limit "db"
  2 of its 4 are held by operations whose outcome is not known. When this command has ended, record their outcomes,
  with -created=ID or -not-created:
    coordinator runs resolve a.e ...
    coordinator runs resolve 'a.f[0]' ...
`
	want = strings.Replace(want, "Opening... [id=a.b!]", "Opening...", 1)
	want = strings.Replace(want, "Open complete after 3s [name=x]", "Open complete after 3s", 1)
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestTheImportCommandTellsItInItsOwnWords(t *testing.T) {
	var out bytes.Buffer
	p := view.NewProgress(view.ProgressOptions{Out: &out, ByCommand: true})
	d := program.Description{Address: "a.b", Class: "a", Action: "import",
		Called: func() (string, string) { return "id", "x" }}
	p.Started(1, d, "default", time.Time{})
	p.Finished(1, d, program.Notes{IDKey: "id", ID: "xx"}, time.Second)
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	if want := "a.b: Importing from ID \"x\"...\na.b: Import prepared!\n  Prepared a for import\na.b: Refreshing " +
		"state... [id=xx]\n"; out.String() != want {
		t.Errorf("wrote %q\nwant  %q", out.String(), want)
	}
}

func TestWhatAPlanImportsIsToldBeforeItIsCarriedOut(t *testing.T) {
	var out bytes.Buffer
	p := view.NewProgress(view.ProgressOptions{Out: &out})
	identity := cty.ObjectVal(map[string]cty.Value{"number": cty.NumberIntVal(1), "zone": cty.StringVal("z")})
	p.Imports(&plan.Plan{Changes: []*plan.Change{
		{Addr: instance(t, "a.by_id"), Importing: &plan.Importing{ID: "x"}},
		{Addr: instance(t, "a.not")},
		{Addr: instance(t, "a.by_identity"), Importing: &plan.Importing{Identity: identity}},
	}})
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	want := `a.by_id: Importing... [id=x]
a.by_id: Import complete [id=x]
a.by_identity: Importing... [zone=z]
a.by_identity: Import complete [zone=z]
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestALongIDIsShortenedInTheMiddle(t *testing.T) {
	var out bytes.Buffer
	p := view.NewProgress(view.ProgressOptions{Out: &out})
	long := func() (string, string) { return "id", strings.Repeat("ab", 60) }
	p.Progress(1, program.Description{Address: "a.b", Action: "update", Called: long}, 10*time.Second)
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	want := "a.b: Still modifying... [id=" + strings.Repeat("ab", 19) + "a..." + strings.Repeat("ab", 19) +
		", 10s elapsed]\n"
	if out.String() != want {
		t.Errorf("wrote %q\nwant  %q", out.String(), want)
	}
}

func TestTheLiveLineIsDrawnFiveTimesASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &writes{}
		p := view.NewProgress(view.ProgressOptions{Out: out, Width: func() int { return 80 }})
		for i := range 1000 {
			p.Counts(coordinator.Counts{Total: 1000, Done: i})
			p.Started(i, program.Description{Address: "a.b", Action: "create"}, "", time.Time{})
			<-time.After(time.Millisecond)
		}
		if err := p.Settle(); err != nil {
			t.Fatal(err)
		}
		if len(out.list) > 7 {
			t.Errorf("drawn %d times in a second", len(out.list))
		}
		if n := strings.Count(out.all(), "a.b: Creating...\n"); n != 1000 {
			t.Errorf("%d of 1000 lines were written", n)
		}
	})
}

func TestLinesAndTheLiveLineNeverMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &writes{}
		p := view.NewProgress(view.ProgressOptions{Out: out, Width: func() int { return 80 }})
		p.Counts(coordinator.Counts{Total: 3, Done: 1, Running: 1})
		synctest.Wait()
		<-time.After(time.Second)
		p.Started(1, program.Description{Address: "a.b", Action: "create"}, "", time.Time{})
		synctest.Wait()
		<-time.After(time.Second)
		if err := p.Settle(); err != nil {
			t.Fatal(err)
		}
		const live = "1/3 done · 1 running · 1 waiting"
		want := []string{live, "\r\x1b[Ka.b: Creating...\n" + live, "\r\x1b[K"}
		if d := cmp.Diff(want, out.list); d != "" {
			t.Error(d)
		}
	})
}

func TestTheLiveLineFitsIntoTheTerminal(t *testing.T) {
	counts := coordinator.Counts{
		Total: 40, Done: 12, Running: 5, Failed: 1, Left: 83 * time.Second,
		Pools: map[string]coordinator.PoolCounts{"eu": {Running: 3, Queued: 4}, "us": {Running: 2}},
	}
	for width, want := range map[int]string{
		9:  "",
		12: "12/40 done",
		40: "12/40 done · 5 running · 22 waiting",
		80: "12/40 done · 5 running · 22 waiting · 1 failed · about 1m20s left",
		200: "12/40 done · 5 running · 22 waiting · 1 failed · about 1m20s left · eu: 3 running, 4 queued · us: 2 " +
			"running, 0 queued",
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &writes{}
			p := view.NewProgress(view.ProgressOptions{Out: out, Width: func() int { return width }})
			p.Counts(counts)
			synctest.Wait()
			got := out.all()
			if err := p.Settle(); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("width %d: %q, want %q", width, got, want)
			}
		})
	}
}

func TestAProgressGoesOnAfterItSettled(t *testing.T) {
	out := &writes{}
	p := view.NewProgress(view.ProgressOptions{Out: out})
	for range 2 {
		p.Started(1, program.Description{Address: "a.b", Action: "create"}, "", time.Time{})
		if err := p.Settle(); err != nil {
			t.Fatal(err)
		}
		if err := p.Settle(); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.all(); got != "a.b: Creating...\na.b: Creating...\n" {
		t.Errorf("wrote %q", got)
	}
}

func TestAnErrorOfWritingIsReturnedOnce(t *testing.T) {
	broken := errors.New("broken pipe")
	p := view.NewProgress(view.ProgressOptions{Out: &writes{fail: broken}})
	p.Started(1, program.Description{Address: "a.b", Action: "create"}, "", time.Time{})
	if err := p.Settle(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := p.Settle(); err != nil {
		t.Errorf("got %v again", err)
	}
}
