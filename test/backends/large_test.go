package backends

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// bulky is a configuration with a state of 100 MB, and with steps of a quarter of a second, one after the other. Each
// step writes the time of its end.
const bulky = `
variable "steps" {
  default = 0
}
variable "times" {}
resource "terraform_data" "bulk" {
  count = 500
  input = format("%d %s", count.index, join("", [for _ in range(1000) : substr(format("%0100d", count.index), 0, 100)]))
}
resource "terraform_data" "step" {
  count = var.steps
  provisioner "local-exec" {
    command = "sleep 0.25; date +%s.%N >> ${var.times}"
  }
}
`

// slowServer serves one state by the protocol of the backend http. If slow is set, it responds to the next write only
// once ten more steps have ended, which it sees in the file times.
type slowServer struct {
	server
	times     string
	slow      atomic.Bool
	writes    atomic.Int32
	meanwhile atomic.Int32
	size      atomic.Int64 // of the last write, in bytes
}

func (s *slowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.writes.Add(1)
		s.size.Store(r.ContentLength)
		if s.slow.CompareAndSwap(true, false) {
			s.wait(r.Context())
		}
	}
	s.server.ServeHTTP(w, r)
}

func (s *slowServer) wait(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	before := len(ends(s.times))
	for s.meanwhile.Load() < 10 {
		select {
		case <-ctx.Done():
			return // the client has closed the connection
		case <-tick.C:
		}
		s.meanwhile.Store(int32(len(ends(s.times)) - before))
	}
}

// If a run waited for each write of a snapshot, it would stop for as long as its backend takes to store a large one.
// Here the backend responds only after the run has executed ten more operations.
func TestASnapshotOf100MBDoesNotStopARun(t *testing.T) {
	if !*all {
		t.Skip("it takes a minute: make backends runs it")
	}
	t.Parallel()
	s := &slowServer{times: filepath.Join(t.TempDir(), "times")}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	w := &world{kind: "http", oneState: true}
	d := w.directory(t, fmt.Sprintf(`
		address        = "%s/state"
		lock_address   = "%[1]s/lock"
		unlock_address = "%[1]s/lock"`, h.URL), bulky)
	d.env = map[string]string{"TF_VAR_times": s.times}
	d.must("init")
	d.must("apply", "-auto-approve")
	if size := s.size.Load(); size < 100e6 {
		t.Fatalf("the snapshot has %d bytes", size)
	}
	s.writes.Store(0)
	s.slow.Store(true)
	code, text := d.ends(d.start("apply", "-auto-approve", "-parallelism=1", "-var=steps=100"))
	if code != 0 {
		t.Fatalf("apply ended with %d\n%s", code, text)
	}
	if s.meanwhile.Load() < 10 || s.writes.Load() < 2 {
		t.Errorf("%d snapshots were written; during the first one the run executed %d operations", s.writes.Load(),
			s.meanwhile.Load())
	}
	at := ends(s.times)
	pauses := make([]time.Duration, 0, len(at))
	for i := range len(at) - 1 {
		pauses = append(pauses, at[i+1]-at[i])
	}
	slices.Sort(pauses)
	t.Logf("from the end of an operation to that of the next: median %s, 99 of 100 within %s, at most %s",
		pauses[len(pauses)/2], pauses[len(pauses)*99/100], pauses[len(pauses)-1])
	d.unchanged("-var=steps=100")
}

// ends returns the times at which the steps ended, since 1970.
func ends(name string) []time.Duration {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil // no step has ended yet
	}
	var times []time.Duration
	for line := range strings.Lines(string(text)) {
		seconds, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err == nil {
			times = append(times, time.Duration(seconds*float64(time.Second)))
		}
	}
	return times
}
