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

// weight is the expected duration of a vertex: what the last operation of its kind took, else a second.
func (d durations) weight(of program.Description) float64 {
	if s, ok := d[loop.DurationKey(of)]; ok {
		return s
	}
	return 1
}

// has tells whether the weight of a vertex was recorded.
func (d durations) has(of program.Description) bool {
	_, ok := d[loop.DurationKey(of)]
	return ok
}

// loadDurations returns what is known. It only orders the work, so what cannot be read counts as unknown.
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

// saveDurations adds what a run has learned. It only orders later runs, so a failure is not worth more than forgetting.
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
	_ = v.PutValue(ctx, durationsBucket, kind, data)
}
