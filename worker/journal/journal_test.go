package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/test/stage/disk"
	"github.com/millipede-iac/millipede/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ref(n int) wire.TaskRef {
	return wire.TaskRef{Pool: "eu", Coordinator: "c", Run: "r", Attempt: wire.AttemptID(fmt.Sprintf("a%d", n))}
}

func open(t *testing.T, dir string) (*Journal, int64) {
	t.Helper()
	j, cut, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() }) // closed already where the test closes it
	return j, cut
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// reopened closes the journal and returns the entries that the next start finds.
func reopened(t *testing.T, j *Journal, dir string) []Entry {
	t.Helper()
	must(t, j.Close())
	again, cut := open(t, dir)
	if cut != 0 {
		t.Errorf("%d bytes were cut off a journal that was closed normally", cut)
	}
	out := again.Pending()
	must(t, again.Close())
	return out
}

func TestTheNextStartFindsHowFarEachAttemptHadCome(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	must(t,
		j.Intend(ref(1), "n1", []byte("not started")),
		j.Intend(ref(2), "n2", []byte("not started")), j.Start(ref(2), []byte("doubt")),
		j.Intend(ref(3), "n3", []byte("not started")), j.Start(ref(3), []byte("doubt")),
		j.End(ref(3), []byte("result")),
		j.Intend(ref(4), "n4", nil), j.Start(ref(4), nil), j.End(ref(4), []byte("result")), j.Done(ref(4)),
		j.Intend(ref(5), "n5", nil), j.Done(ref(5)),
		j.Intend(ref(6), "n6", nil), j.End(ref(6), []byte("too old to start")),
	)
	got := reopened(t, j, dir)
	want := []Entry{
		{Ref: ref(1), Nonce: "n1", Status: Intended, Message: []byte("not started")},
		{Ref: ref(2), Nonce: "n2", Status: Started, Message: []byte("doubt")},
		{Ref: ref(3), Nonce: "n3", Status: Ended, Message: []byte("result")},
		{Ref: ref(6), Nonce: "n6", Status: Ended, Message: []byte("too old to start")},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestIllegalStepsAreErrorsThatNameBothStatuses(t *testing.T) {
	for claim, c := range map[string]struct {
		steps []func(*Journal) error
		want  string
	}{
		"started without an intent": {
			steps: []func(*Journal) error{func(j *Journal) error { return j.Start(ref(1), nil) }},
			want:  `attempt a1 cannot become "started": it is "not held"`,
		},
		"intended twice": {
			steps: []func(*Journal) error{
				func(j *Journal) error { return j.Intend(ref(1), "n", nil) },
				func(j *Journal) error { return j.Intend(ref(1), "n", nil) },
			},
			want: `attempt a1 cannot become "intended": it is "intended"`,
		},
		"done in the middle of the operation": {
			steps: []func(*Journal) error{
				func(j *Journal) error { return j.Intend(ref(1), "n", nil) },
				func(j *Journal) error { return j.Start(ref(1), nil) },
				func(j *Journal) error { return j.Done(ref(1)) },
			},
			want: `attempt a1 cannot become "not held": it is "started"`,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			j, _ := open(t, t.TempDir())
			var err error
			for _, step := range c.steps {
				err = step(j)
			}
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// When a machine crashes, any prefix of the data that was not synced may remain. All entries that were reported as
// durable precede that data, and must be found.
func TestAFileThatIsCutAnywhereKeepsTheWholeEntriesInFront(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	var ends []int64
	for n := range 4 {
		must(t, j.Intend(ref(n), "n", []byte("message")))
		ends = append(ends, j.size)
	}
	must(t, j.Close())
	whole, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)

	for size := range len(whole) + 1 {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), whole[:size], 0o600))
		j, _ := open(t, dir)
		want := len(slices.DeleteFunc(slices.Clone(ends), func(end int64) bool { return end > int64(size) }))
		if got := len(j.Pending()); got != want {
			t.Fatalf("in a prefix of %d bytes, %d entries were found, want %d", size, got, want)
		}
		must(t, j.Intend(ref(9), "n", nil)) // and the journal goes on behind them
		if got := len(reopened(t, j, dir)); got != want+1 {
			t.Fatalf("after appending to a prefix of %d bytes, %d entries were found, want %d", size, got, want+1)
		}
	}
}

func TestADamagedEntryCutsOffWhatIsBehindIt(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	must(t, j.Intend(ref(1), "n", nil))
	end := j.size
	must(t, j.Intend(ref(2), "n", nil), j.Close())
	path := filepath.Join(dir, fileName)
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)-1] ^= 0xff
	must(t, os.WriteFile(path, data, 0o600))

	j, cut := open(t, dir)
	if got := j.Pending(); len(got) != 1 || got[0].Ref != ref(1) || cut != int64(len(data))-end {
		t.Errorf("found %v, cut %d bytes", got, cut)
	}
}

func TestAFileThatIsNoJournalIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	must(t, os.WriteFile(path, []byte("millipede worker journal 2\n....."), 0o600))
	if _, _, err := Open(dir); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v, want ErrFormat", err)
	}
	if data, err := os.ReadFile(path); err != nil || len(data) != 32 {
		t.Errorf("the file was changed: %d bytes, %v", len(data), err)
	}
}

func TestASecondWorkerIsTurnedAway(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	if _, _, err := Open(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	must(t, j.Close())
	open(t, dir)
}

func TestTheFileStaysSmallWhateverGoesThroughIt(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	must(t, j.Intend(ref(-1), "kept", []byte("held all the time")), j.Start(ref(-1), []byte("doubt")))
	message := bytes.Repeat([]byte("x"), 64<<10)
	for n := range 100 {
		must(t, j.Intend(ref(n), "n", nil), j.Start(ref(n), nil), j.End(ref(n), message), j.Done(ref(n)))
	}
	if j.size > 2*slack {
		t.Errorf("the file has %d bytes", j.size)
	}
	got := reopened(t, j, dir)
	if len(got) != 1 || got[0].Nonce != "kept" || string(got[0].Message) != "doubt" {
		t.Errorf("found %v", got)
	}
}

func TestConcurrentAttemptsAreAllDurable(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	message := bytes.Repeat([]byte("x"), 32<<10) // so that compactions happen in between
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			err := errors.Join(j.Intend(ref(n), "n", nil), j.Start(ref(n), message), j.End(ref(n), message))
			if n%2 == 0 {
				err = errors.Join(err, j.Done(ref(n)))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := reopened(t, j, dir); len(got) != 50 {
		t.Errorf("found %d entries, want 50", len(got))
	}
}

func TestAFailedWriteStopsTheJournalForGood(t *testing.T) {
	j, _ := open(t, t.TempDir())
	must(t, j.file.Close()) // every write fails from here on
	if err := j.Intend(ref(1), "n", nil); !errors.Is(err, ErrBroken) {
		t.Errorf("got %v, want ErrBroken", err)
	}
	if err := j.Intend(ref(2), "n", nil); !errors.Is(err, ErrBroken) {
		t.Errorf("afterwards: got %v, want ErrBroken", err)
	}
}

// After the first write without disk space, the journal refused all writes, and its worker ended, even if there was
// space again a moment later: a run that only had that worker waited for ever.
func TestAFullDiskLeavesTheJournalAsItIs(t *testing.T) {
	dir := t.TempDir()
	volume, err := disk.Mount(dir, 1<<20)
	if errors.Is(err, disk.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	defer func() { must(t, volume.Close()) }()
	j, _ := open(t, dir)
	must(t, j.Intend(ref(0), "n", nil))
	must(t, volume.Fill())
	long := make([]byte, 10_000)
	for n := 1; err == nil; n++ {
		err = j.Intend(ref(n), "n", long)
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	if err := j.CheckSpace(); !errors.Is(err, ErrFull) {
		t.Errorf("room on a full disk: got %v, want ErrFull", err)
	}
	before := len(j.Pending())
	must(t, volume.Free())
	must(t, j.CheckSpace())
	must(t, j.Start(ref(0), []byte("doubt"))) // shorter than the entry that could not be written
	got := reopened(t, j, dir)
	if len(got) != before || got[0].Status != Started {
		t.Errorf("found %d entries, want %d; the first is %v", len(got), before, got[0].Status)
	}
}

func TestOnlyTheOwnerMayReadTheFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	open(t, dir)
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, fileName): 0o600} {
		info, err := os.Stat(path)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

// An entry of a later version was taken for one that a crash has cut off: it was removed, with everything behind it,
// and results were lost.
func TestAnEntryOfALaterVersionIsLeftAlone(t *testing.T) {
	type later struct {
		Entry
		Until string `msgpack:"until"`
	}
	frame := func(status Status, more string) []byte {
		e := Entry{Ref: ref(1), Nonce: "n", Status: status, Message: []byte("m")}
		body, err := msgpack.Marshal(later{e, more})
		must(t, err)
		return framed(body)
	}
	zeros := make([]byte, 64)
	for name, c := range map[string]struct {
		frames []byte
		fails  bool
		cut    int64
	}{
		"with another key":                    {frame(Ended, "x"), false, 0},
		"with another status":                 {frame(Ended+1, ""), true, 0},
		"with bytes that are no entry":        {framed([]byte{0xc1}), true, 0},
		"before zeros that a crash has left":  {append(frame(Ended, ""), zeros...), false, 64},
		"before a beginning of another frame": {append(frame(Ended, ""), frame(Ended, "")[:9]...), false, 9},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		must(t, os.WriteFile(path, append([]byte(magic), c.frames...), 0o600))
		j, cut, err := Open(dir)
		if errors.Is(err, ErrFormat) != c.fails || cut != c.cut {
			t.Errorf("%s: cut %d bytes, %v", name, cut, err)
		}
		if err == nil {
			if got := j.Pending(); len(got) != 1 || string(got[0].Message) != "m" {
				t.Errorf("%s: found %+v", name, got)
			}
			must(t, j.Close())
			continue
		}
		if data, err := os.ReadFile(path); err != nil || len(data) != len(magic)+len(c.frames) {
			t.Errorf("%s: the file was changed: %d bytes, %v", name, len(data), err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	whole, err := encodeFrame(Entry{Ref: ref(1), Nonce: "n", Status: Started, Message: []byte("m")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(magic))
	f.Add(append([]byte(magic), whole...))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), data, 0o600))
		j, _, err := Open(dir)
		if errors.Is(err, ErrFormat) {
			return
		}
		must(t, err)
		n := len(j.Pending())
		if got := len(reopened(t, j, dir)); got != n {
			t.Errorf("found %d entries, then %d", n, got)
		}
	})
}

func BenchmarkDurableWritesShareTheDisk(b *testing.B) {
	for _, parallel := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("parallel-%d", parallel), func(b *testing.B) {
			j, _, err := Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := j.Close(); err != nil {
					b.Error(err)
				}
			}()
			var next sync.Mutex
			n := 0
			var all sync.WaitGroup
			for range parallel {
				all.Go(func() {
					for {
						next.Lock()
						i := n
						n++
						next.Unlock()
						if i >= b.N {
							return
						}
						if err := errors.Join(j.Intend(ref(i), "n", nil), j.Start(ref(i), nil), j.End(ref(i), nil),
							j.Done(ref(i))); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
		})
	}
}
