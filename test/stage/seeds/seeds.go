// Package seeds simulates many seeds in several processes of a test, and adds up their counts.
//
// It does not know the simulation: a test calls itself again with flags that select a part of the seeds.
package seeds

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// cores is how many processes simulate seeds at a time; tests that replay seeds take one processor for themselves.
var cores = runtime.NumCPU()

const (
	// size is how many seeds one process simulates.
	size = 25
	// most is far more time than that takes.
	most = 10 * time.Minute
	// sum begins a line that Many adds up.
	sum = "sum of "
)

// Sums logs the counts of a part of the seeds, for Many.
func Sums(t *testing.T, total map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%s%s: %d", sum, name, total[name])
	}
}

// Many simulates n seeds from a first one on: it runs the test that calls it in separate processes, each with the flags
// -shard, -from and -seeds in addition to the given ones. Lines of their output that begin with "seed " are violations;
// they are reported as errors of t. The sums of all processes are logged.
func Many(t *testing.T, from uint64, n int, flags ...string) {
	began := time.Now()
	var parts errgroup.Group
	parts.SetLimit(cores)
	outputs := make([][]byte, (n+size-1)/size)
	for i := range outputs {
		parts.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			at := i * size
			args := append([]string{"-test.run=^" + t.Name() + "$", "-test.v", "-shard",
				fmt.Sprintf("-from=%d", from+uint64(at)), fmt.Sprintf("-seeds=%d", min(size, n-at))}, flags...)
			cmd := exec.CommandContext(ctx, os.Args[0], args...)
			out, err := cmd.CombinedOutput() // that a seed has violations shows in the output
			if err != nil && !bytes.Contains(out, []byte("--- FAIL")) {
				err = fmt.Errorf("the seeds from %d: %w\n%s", from+uint64(at), err, out[max(0, len(out)-4000):])
			} else {
				err = nil
			}
			outputs[i] = out
			return err
		})
	}
	if err := parts.Wait(); err != nil {
		t.Error(err)
	}
	total := map[string]int{}
	for _, out := range outputs {
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			_, line, _ := strings.Cut(lines.Text(), ": ")
			var k int
			if name, count, ok := strings.Cut(strings.TrimPrefix(line, sum), ": "); ok && strings.HasPrefix(line, sum) {
				if _, err := fmt.Sscan(count, &k); err == nil {
					total[name] += k
				}
			} else if strings.HasPrefix(line, "seed ") {
				t.Error(line)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%12d %s", total[name], name)
	}
	t.Logf("took %s in %d processes", time.Since(began).Round(time.Second), cores)
}

// Difference shows where two traces part.
func Difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	i := 0
	for i < min(len(as), len(bs)) && as[i] == bs[i] {
		i++
	}
	from := max(0, i-6)
	return strings.Join(as[from:min(len(as), i+3)], "\n") + "\n\n" + strings.Join(bs[from:min(len(bs), i+3)], "\n")
}
