package seat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/work"
)

// What the service keeps in memory of a call, at most, in bytes: an engine decides how much it sends.
const (
	// maxConcealed bounds the texts to be concealed in the log, each of which is compared with all that is written.
	maxConcealed = 16 << 20
	// maxWaits bounds the text about what the call waits for.
	maxWaits = 4 << 10
)

// maxTimeline bounds the timeline of a call, in bytes. One operation needs about 500 bytes, and a configuration has at
// most 262,144 instances. Tests make it smaller.
var maxTimeline = 128 << 20

// progress passes on what an engine tells about a call in progress.
type progress struct {
	job       *work.Job
	recorder  *timeline.Recorder // nil if there is no timeline
	concealed int                // the bytes of texts to be concealed
	withheld  bool               // there are too many: nothing is shown any more that could contain them
}

// pass passes a frame on to the job.
func (p *progress) pass(f *protocol.ToService) error {
	j := p.job
	switch {
	case f.Conceal != nil && j.Conceal != nil:
		p.conceal(f.Conceal)
	case p.withheld:
	case f.Log != nil:
		_, _ = j.Log.Write(f.Log) // whoever has the log reports its problems
	case f.Waits != nil && j.Waits != nil:
		text := f.Waits.Text
		if len(text) > maxWaits {
			text = strings.ToValidUTF8(text[:maxWaits], "") + "..."
		}
		kind := f.Waits.Kind
		if kind == "" && text != "" {
			kind = work.ForObjects // an engine of an earlier version
		}
		j.Waits(kind, f.Waits.Run, text)
	case f.Begun != nil && j.Watched != nil:
		var head timeline.Head
		if err := json.Unmarshal(f.Begun.Head, &head); err != nil {
			return fmt.Errorf("the head of the timeline: %w", err)
		}
		p.recorder = timeline.NewBounded(head, maxTimeline)
		j.Watched(p.recorder, f.Begun.Engine)
	case f.Changes != nil && p.recorder != nil:
		var c timeline.Changes
		if err := json.Unmarshal(f.Changes, &c); err != nil {
			return fmt.Errorf("the changes of the timeline: %w", err)
		}
		p.recorder.Apply(&c)
	case f.Doubts != nil && j.Doubtful != nil:
		var all []record.Doubt
		if err := json.Unmarshal(f.Doubts, &all); err != nil {
			return fmt.Errorf("the operations in doubt: %w", err)
		}
		j.Doubtful(all)
	}
	return nil
}

// conceal conceals texts in the log. If there are too many, the rest of the log is withheld.
func (p *progress) conceal(all []string) {
	for _, text := range all {
		p.concealed += len(text)
	}
	switch {
	case p.withheld:
	case p.concealed > maxConcealed:
		p.withheld = true
		fmt.Fprintf(p.job.Log, "\nThe rest of this log is withheld: the sensitive values of the run have more than %d MiB, "+
			"and cannot be hidden in it. Make fewer or shorter values sensitive.\n", maxConcealed>>20)
	default:
		p.job.Conceal(all)
	}
}

// errWithheld takes the place of an error that could contain what is to be concealed.
var errWithheld = errors.New("The phase has failed. The reason is withheld, because it could contain sensitive values")

// answer returns the answer of the call, as far as it may be shown.
func (p *progress) answer(a *protocol.Answer) *protocol.Answer {
	if p.withheld && a.Failure != nil {
		a.Failure.Text = errWithheld.Error()
	}
	return a
}
