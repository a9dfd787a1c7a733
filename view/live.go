package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// live returns the live line: counts of done, running and waiting vertices; failures; the estimated time left; and
// the pools, as far as there is room.
func (p *Progress) live() string {
	width := p.Width()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.counted || width < 10 {
		return ""
	}
	c := p.counts
	waiting := max(c.Total-c.Done-c.Failed-c.Skipped-c.InDoubt-c.Running, 0)
	parts := []string{fmt.Sprintf("%d/%d done", c.Done, c.Total), fmt.Sprintf("%d running", c.Running),
		fmt.Sprintf("%d waiting", waiting)}
	for _, e := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Skipped, "skipped"}, {c.InDoubt, "in doubt"}} {
		if e.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", e.n, e.word))
		}
	}
	if c.Left > 0 {
		parts = append(parts, "about "+roughly(c.Left)+" left")
	}
	for _, w := range p.waits {
		switch {
		case w.Limit != "":
			parts = append(parts, fmt.Sprintf("waiting for the limit %s", w.Limit))
		case !w.Away.IsZero():
			parts = append(parts, fmt.Sprintf("%s is cut off", w.Pool))
		default:
			parts = append(parts, fmt.Sprintf("waiting for a worker of %s", w.Pool))
		}
	}
	pools := slices.Sorted(maps.Keys(c.Pools))
	if len(pools) > 1 || len(pools) == 1 && pools[0] != "default" {
		// The busiest come first: there may be no room for all.
		slices.SortStableFunc(pools, func(a, b string) int { return c.Pools[b].Running - c.Pools[a].Running })
		for _, name := range pools {
			pc := c.Pools[name]
			parts = append(parts, fmt.Sprintf("%s: %d running, %d queued", name, pc.Running, pc.Queued))
		}
	}
	return p.Ink.on(grayCode) + fitting(parts, " · ", width-1) + p.Ink.off()
}

// fitting joins as many parts as fit into the width. If not even the first one fits, it is cut.
func fitting(parts []string, between string, width int) string {
	var b strings.Builder
	used := 0
	for i, part := range parts {
		if i > 0 {
			part = between + part
		}
		n := utf8.RuneCountInString(part)
		if used+n > width {
			if i == 0 {
				return string([]rune(part)[:width])
			}
			break
		}
		b.WriteString(part)
		used += n
	}
	return b.String()
}

// roughly formats an estimate, rounded to its precision.
func roughly(d time.Duration) string {
	switch {
	case d >= 10*time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= time.Minute:
		return d.Round(10 * time.Second).String()
	default:
		return max(d.Round(time.Second), time.Second).String()
	}
}
