package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The shape changed measures the cost of a plan of a large state with few changes: the reads of the test provider
// take 20 ms, and ten objects change in the configuration.

// readTime is the duration of a read, and changedObjects the number of objects that change.
const (
	readTime       = 20 * time.Millisecond
	changedObjects = 10
)

func mostlyKept(n int) string {
	return fmt.Sprintf(bulk+`variable "changed" {
  type    = number
  default = 0
}

resource "bulk_item" "m" {
  count   = %d
  name    = "m-${count.index}"
  read_ms = %d
  value   = count.index < var.changed ? "changed" : null
}
`, n, readTime.Milliseconds())
}

// glance is a plan of the shape changed.
type glance struct {
	name string
	args []string
	// slow is set if it takes minutes with a hundred thousand objects, so that it is measured only once there.
	slow bool
}

var ten = fmt.Sprintf("-var=changed=%d", changedObjects)

// glances are the plans, ordered such that the verdicts that one needs exist.
var glances = []glance{
	{"everything is read", []string{"-refresh=true", ten}, true},
	{"no verdicts", []string{"-refresh=changed", "-no-verdicts", ten}, true},
	{"cold verdicts", []string{"-refresh=changed"}, true},
	{"ten changed", []string{"-refresh=changed", ten}, false},
	{"nothing changed", []string{"-refresh=changed"}, false},
}

// glanced is the usage of a glance, with the number of the provider's reads; those of a slow one are not counted.
type glanced struct {
	usage
	reads int
}

// glanceAt creates n objects and makes the selected plans. Objects of an earlier measurement in the same directory
// are reused.
func (b *bench) glanceAt(ctx context.Context, n int, wanted func(glance) bool) (map[string]glanced, error) {
	if b.providers == "" {
		return nil, errors.New("the shape changed needs -providers")
	}
	dir := filepath.Join(b.dir, fmt.Sprintf("changed-%d", n))
	env := []string{"TF_CLI_CONFIG_FILE=" + filepath.Join(b.providers, "cli.tfrc")}
	e := b.coordinator
	e.flags = append(slices.Clone(e.flags), "-parallelism=50", "-compact-warnings")
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		if err := e.multiply(ctx, dir, env, n); err != nil {
			return nil, err
		}
	}
	out := map[string]glanced{}
	for _, g := range glances {
		if !wanted(g) {
			continue
		}
		runs := b.runs
		if g.slow && n >= 20_000 {
			runs = 1
		}
		var took []usage
		reads := 0
		record := filepath.Join(dir, "record")
		for range runs {
			if err := os.RemoveAll(record); err != nil {
				return nil, err
			}
			recorded := env
			if !g.slow { // each call of the provider would be recorded
				recorded = append(slices.Clone(env), "FLEET_RECORD="+record)
			}
			u, err := e.run(ctx, dir, recorded, append(append([]string{"plan"}, g.args...), e.flags...)...)
			if err != nil {
				return nil, err
			}
			if reads, err = readsIn(record); err != nil {
				return nil, err
			}
			took = append(took, u)
		}
		out[g.name] = glanced{median(took), reads}
	}
	return out, nil
}

// multiply creates a few objects, and copies them in the state to n: the provider stores objects only in states,
// and creating a hundred thousand takes a quarter of an hour.
func (e engine) multiply(ctx context.Context, dir string, env []string, n int) error {
	few := min(n, 10)
	if err := write(dir, map[string]string{"main.tf": mostlyKept(few)}); err != nil {
		return err
	}
	for _, args := range [][]string{{"init"}, {"apply", "-auto-approve"}} {
		if _, err := e.run(ctx, dir, env, args...); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "terraform.tfstate"))
	if err != nil {
		return err
	}
	more, err := os.Create(filepath.Join(dir, "more.tfstate"))
	if err != nil {
		return err
	}
	if err := errors.Join(multiplied(more, text, n), more.Close()); err != nil {
		return fmt.Errorf("multiplying the state: %w", err)
	}
	if err := write(dir, map[string]string{"main.tf": mostlyKept(n)}); err != nil {
		return err
	}
	if _, err := e.run(ctx, dir, env, "state", "push", "more.tfstate"); err != nil {
		return err
	}
	return write(dir, map[string]string{"made": ""})
}

// multiplied writes a state whose one resource has n instances, which are like the first one. They are written one by
// one: on Linux, the peak memory of a process is at least that of the process that started it, so this program must
// stay small.
func multiplied(out io.Writer, text []byte, n int) error {
	var state map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&state); err != nil {
		return err
	}
	resources, _ := state["resources"].([]any)
	if len(resources) != 1 {
		return fmt.Errorf("it has %d resources", len(resources))
	}
	resource, _ := resources[0].(map[string]any)
	instances, _ := resource["instances"].([]any)
	if len(instances) == 0 {
		return errors.New("it has no instances")
	}
	first, _ := instances[0].(map[string]any)
	attributes, _ := first["attributes"].(map[string]any)
	const place = "the instances"
	resource["instances"] = []any{place}
	state["serial"] = 1_000
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	head, tail, _ := bytes.Cut(text, []byte(`"`+place+`"`))
	w := bufio.NewWriter(out)
	w.Write(head) //nolint:errcheck // Flush returns the first error
	for i := range n {
		attributes["name"], attributes["id"] = fmt.Sprintf("m-%d", i), fmt.Sprintf("m-%d-%012x", i, i)
		first["index_key"] = i
		if text, err = json.Marshal(first); err != nil {
			return err
		}
		if i > 0 {
			w.WriteByte(',') //nolint:errcheck // as above
		}
		w.Write(text) //nolint:errcheck // as above
	}
	w.Write(tail) //nolint:errcheck // as above
	return w.Flush()
}

// readsIn counts the reads in a record of the test providers. Without calls there is no record.
func readsIn(path string) (int, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the provider's record: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	n := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e struct{ Op, Phase string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return 0, fmt.Errorf("reading the provider's record: %w", err)
		}
		if e.Op == "read" && e.Phase == "start" {
			n++
		}
	}
	return n, lines.Err()
}

// measureChanged prints the usage of each plan. -steps selects plans.
func measureChanged(ctx context.Context, b *bench, n int) error {
	took, err := b.glanceAt(ctx, n, func(g glance) bool { return b.wants(g.name) })
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "changed, n = %d: %s a read, parallelism 50, %d changed in the configuration\n", n,
		short(readTime), changedObjects)
	fmt.Fprintf(b.out, "  %-20s %10s %10s %10s %10s %14s\n", "", "wall", "user+sys", "peak", "reads", "CPU/instance")
	for _, g := range glances {
		if u, ok := took[g.name]; ok {
			reads := "-"
			if !g.slow {
				reads = fmt.Sprint(u.reads)
			}
			fmt.Fprintf(b.out, "  %-20s %10s %10s %10s %10s %14s\n", g.name, seconds(u.wall), seconds(u.cpu),
				mebibytes(u.peak), reads, short(u.cpu/time.Duration(n)))
		}
	}
	return nil
}

// glanceLine measures one of the plans of a hundred thousand objects.
func (t *table) glanceLine(name string, limit time.Duration) func(context.Context) (string, bool, error) {
	return func(ctx context.Context) (string, bool, error) {
		if t.glanced == nil {
			all, err := t.glanceAt(ctx, 100_000, func(glance) bool { return true })
			if err != nil {
				return "", false, err
			}
			t.glanced = all
		}
		g := t.glanced[name]
		return fmt.Sprintf("%s, %d reads (%s of CPU, %s; with full reading %s)", short(g.wall), g.reads, short(g.cpu),
			mebibytes(g.peak), short(t.glanced["everything is read"].wall)), g.wall <= limit && g.reads <= 2*changedObjects, nil
	}
}
