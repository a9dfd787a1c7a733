package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// parallelism is the number of concurrent operations in the sleep shape.
const parallelism = 10

// makespan measures how much longer than necessary the creations of the sleep shape take, from the start of the
// first to the end of the last, as recorded by the provider.
func (t *table) makespan(ctx context.Context) (string, bool, error) {
	s, n, err := choose("sleep", 0)
	if err != nil {
		return "", false, err
	}
	critical, total := s.work(n)
	ideal := max(critical, total/parallelism)
	var took []time.Duration
	for i := range t.runs {
		record := filepath.Join(t.dir, fmt.Sprintf("record-%d", i))
		if _, err := t.lives(ctx, s, n, 1, []engine{t.coordinator}, "FLEET_RECORD="+record); err != nil {
			return "", false, err
		}
		span, err := creations(record)
		if err != nil {
			return "", false, err
		}
		took = append(took, span)
	}
	slices.Sort(took)
	span := took[len(took)/2]
	r := ratio(span, ideal)
	return fmt.Sprintf("%.2f (%s; critical path %s, work %s)", r, short(span), short(critical), short(total)),
		r <= 1.10, nil
}

// creations reads a record of the test providers. It returns the time from the start of the first creation to the end
// of the last one.
func creations(path string) (time.Duration, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("reading the provider's record: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	var first, last int64
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e struct {
			Time  int64
			Op    string
			Phase string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return 0, fmt.Errorf("reading the provider's record: %w", err)
		}
		switch {
		case e.Op != "create":
		case e.Phase == "start" && (first == 0 || e.Time < first):
			first = e.Time
		case e.Phase == "end":
			last = max(last, e.Time)
		}
	}
	if first == 0 || last == 0 {
		return 0, errors.Join(errors.New("the provider's record holds no creation"), lines.Err())
	}
	return time.Duration(last - first), lines.Err()
}
