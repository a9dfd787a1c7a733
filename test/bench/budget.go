package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// line is a row of the table of budgets.
type line struct {
	what, budget string
	// measure returns the formatted figure, and whether it is within the budget.
	measure func(ctx context.Context) (figure string, within bool, err error)
}

// budget measures the budgets of docs/performance.md, and prints them as a Markdown table. It measures only the rows
// whose description contains the text.
func (b *bench) budget(ctx context.Context, large bool, text string) error {
	t := &table{bench: b, lived: map[string]results{}}
	fmt.Fprintln(b.out, "| what | budget | measured | |")
	fmt.Fprintln(b.out, "|---|---|---|---|")
	for _, l := range append(t.lines(large), t.serviceLines(large)...) {
		if !strings.Contains(l.what, text) {
			continue
		}
		figure, within, err := l.measure(ctx)
		if err != nil {
			return fmt.Errorf("measuring %q: %w", l.what, err)
		}
		verdict := "within"
		if !within {
			verdict = "**over**"
		}
		fmt.Fprintf(b.out, "| %s | %s | %s | %s |\n", l.what, l.budget, figure, verdict)
	}
	return nil
}

// table measures the rows; measurements that several rows need are made once.
type table struct {
	*bench
	lived map[string]results
	// glanced has the plans of the shape changed, with a hundred thousand objects.
	glanced map[string]glanced
}

func (t *table) lines(large bool) []line {
	list := []line{
		{"`coordinator version`", "50 ms", t.version},
		{"no-op plan of an empty configuration", "300 ms", t.wall("empty", 0, "no-op plan", 300*time.Millisecond)},
		{"coordinator's CPU for one instance, no-op plan; apply", "100 µs", t.perVertex},
		{"2,000 blocks without edges: plan", "0.5 s", t.wall("blocks", 2_000, "plan", 500*time.Millisecond)},
		{"dispatch and return of a no-op instance, one at a time", "1 ms", t.dispatch},
		{"layers of 2,000 resources with two references each: no-op plan", "1.5 s",
			t.wall("layers", 2_000, "no-op plan", 1500*time.Millisecond)},
		{"the same: peak memory", "250 MiB", t.peak("layers", 2_000, "no-op plan", 250<<20)},
		{"`count = 10000`: no-op plan", "4 s", t.wall("wide", 10_000, "no-op plan", 4*time.Second)},
		{"`count = 10000`: apply, its plan included", "8 s", t.wall("wide", 10_000, "apply", 8*time.Second)},
	}
	if large {
		list = append(list,
			line{"`count = 100000`: no-op plan; apply; each relative to `count = 10000`", "12", t.large},
			line{"the same: peak memory of the apply", "1.5 GiB", t.peak("wide", 100_000, "apply", 1536<<20)})
	}
	if large && t.providers != "" {
		const many = "100,000 objects of a plugin, 20 ms a read, `plan -refresh=changed`: "
		list = append(list,
			line{many + "ten changed", "6 s, 20 reads", t.glanceLine("ten changed", 6*time.Second)},
			line{many + "ten changed, without verdicts", "25 s", t.glanceLine("no verdicts", 25*time.Second)},
			line{many + "nothing changed", "5 s", t.glanceLine("nothing changed", 5*time.Second)})
	}
	if t.providers != "" {
		list = append(list, line{"makespan of an apply, by max(critical path, work / parallelism)", "1.10", t.makespan})
	}
	for _, name := range []string{"wide", "blocks", "index", "modules"} {
		list = append(list, line{"no-op plan of 10,000 relative to 1,000, " + name + ": CPU; memory", "12", t.growth(name)})
	}
	return list
}

// life returns the medians of the figures of a configuration's life cycle.
func (t *table) life(ctx context.Context, name string, n int) (func(step string) usage, error) {
	key := fmt.Sprintf("%s-%d", name, n)
	if t.lived[key] == nil {
		s, n, err := choose(name, n)
		if err != nil {
			return nil, err
		}
		runs := t.runs
		if n >= 50_000 {
			runs = 1 // minutes
		}
		all, err := t.lives(ctx, s, n, runs, []engine{t.coordinator})
		if err != nil {
			return nil, err
		}
		t.lived[key] = all[0]
	}
	return func(step string) usage { return median(t.lived[key][step]) }, nil
}

// wall measures the time of a step.
func (t *table) wall(name string, n int, step string, limit time.Duration) func(context.Context) (string, bool, error) {
	return func(ctx context.Context) (string, bool, error) {
		life, err := t.life(ctx, name, n)
		if err != nil {
			return "", false, err
		}
		u := life(step)
		return short(u.wall), u.wall <= limit, nil
	}
}

// peak measures the memory of a step.
func (t *table) peak(name string, n int, step string, limit int64) func(context.Context) (string, bool, error) {
	return func(ctx context.Context) (string, bool, error) {
		life, err := t.life(ctx, name, n)
		if err != nil {
			return "", false, err
		}
		u := life(step)
		return mebibytes(u.peak), u.peak <= limit, nil
	}
}

func (t *table) version(ctx context.Context) (string, bool, error) {
	var list []usage
	for range 11 {
		u, err := t.coordinator.run(ctx, t.dir, nil, "version")
		if err != nil {
			return "", false, err
		}
		list = append(list, u)
	}
	u := median(list)
	return short(u.wall), u.wall <= 50*time.Millisecond, nil
}

// dispatch measures the additional time per instance of a chain without changes: an upper bound, because it
// includes evaluation.
func (t *table) dispatch(ctx context.Context) (string, bool, error) {
	const n = 1_000
	chain, err := t.life(ctx, "chain", n)
	if err != nil {
		return "", false, err
	}
	empty, err := t.life(ctx, "empty", 0)
	if err != nil {
		return "", false, err
	}
	each := (chain("no-op plan").wall - empty("no-op plan").wall) / n
	return short(each) + " with evaluation", each <= time.Millisecond, nil
}

func (t *table) large(ctx context.Context) (string, bool, error) {
	small, err := t.life(ctx, "wide", 10_000)
	if err != nil {
		return "", false, err
	}
	large, err := t.life(ctx, "wide", 100_000)
	if err != nil {
		return "", false, err
	}
	plan, apply := ratio(large("no-op plan").wall, small("no-op plan").wall),
		ratio(large("apply").wall, small("apply").wall)
	return fmt.Sprintf("%.1f; %.1f (%s; %s)", plan, apply, short(large("no-op plan").wall), short(large("apply").wall)),
		plan < 12 && apply < 12, nil
}

// growth checks that ten times the size takes about ten times the CPU and memory.
func (t *table) growth(name string) func(context.Context) (string, bool, error) {
	return func(ctx context.Context) (string, bool, error) {
		small, err := t.life(ctx, name, 1_000)
		if err != nil {
			return "", false, err
		}
		large, err := t.life(ctx, name, 10_000)
		if err != nil {
			return "", false, err
		}
		s, l := small("no-op plan"), large("no-op plan")
		cpu, memory := ratio(l.cpu, s.cpu), ratio(l.peak, s.peak)
		return fmt.Sprintf("%.1f; %.1f (%s to %s, %s to %s)", cpu, memory, short(s.cpu), short(l.cpu),
			mebibytes(s.peak), mebibytes(l.peak)), cpu < 12 && memory < 12, nil
	}
}

// short formats a time with its significant digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return strings.TrimSpace(fmt.Sprintf("%d µs", d.Microseconds()))
}
