package coordinator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
)

const durationsBucket = "durations"

// durations is the last known duration of each kind of operation, in seconds.
type durations map[string]float64

// weight returns the expected duration of a vertex in seconds: that of the last operation of its kind, or 1.
func (d durations) weight(of program.Description) float64 {
	if s, ok := d[loop.DurationKey(of)]; ok {
		return s
	}
	return 1
}

// has reports whether the duration of a vertex is known from earlier runs.
func (d durations) has(of program.Description) bool {
	_, ok := d[loop.DurationKey(of)]
	return ok
}

// loadDurations reads the durations of earlier runs. They only order the work, so an error counts as no durations.
func loadDurations(ctx context.Context, v Values, kind string) durations {
	known := durations{}
	if v == nil {
		return known
	}
	data, err := v.GetValue(ctx, durationsBucket, kind)
	if err != nil || data == nil || json.Unmarshal(data, &known) != nil {
		return durations{}
	}
	for k, s := range known {
		if !(s >= 0 && s < 1e6) {
			delete(known, k)
		}
	}
	return known
}

// saveDurations adds the durations of a run. They only order later runs, so errors are ignored.
func saveDurations(ctx context.Context, v Values, kind string, learned map[string]time.Duration) {
	if v == nil || len(learned) == 0 {
		return
	}
	known := loadDurations(ctx, v, kind)
	for k, d := range learned {
		known[k] = d.Seconds()
	}
	data, err := json.Marshal(known)
	if err != nil {
		panic("coordinator: durations do not encode: " + err.Error())
	}
	_ = v.PutHint(ctx, durationsBucket, kind, data)
}
