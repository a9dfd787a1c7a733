package control

import (
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
)

// driftDocument has the results of watching a workspace for drift.
type driftDocument struct {
	// Period is empty for a workspace that is not watched; the other fields are omitted then.
	Period  string `json:"period"`
	Objects int    `json:"objects"`
	// Began is when this round began, Ended when the last complete round ended, Oldest the time of the oldest
	// reading of an object.
	Began     *time.Time      `json:"began,omitempty"`
	Ended     *time.Time      `json:"ended,omitempty"`
	Oldest    *time.Time      `json:"oldest,omitempty"`
	Unwatched string          `json:"unwatched,omitempty"`
	Failure   string          `json:"failure,omitempty"`
	Failed    *time.Time      `json:"failed,omitempty"`
	Drifted   []driftedObject `json:"drifted"`
	More      int             `json:"more,omitempty"`
}

type driftedObject struct {
	Address    string    `json:"address"`
	Gone       bool      `json:"gone"`
	Attributes []string  `json:"attributes"`
	Since      time.Time `json:"since"`
	Seen       time.Time `json:"seen"`
}

func (s *server) drift(r *http.Request, a *rights.Actor) (any, error) {
	w, err := s.svc.Drift.Watched(a, r.PathValue("workspace"))
	if err != nil {
		return nil, err
	}
	d := driftDocument{Drifted: []driftedObject{}}
	if w.Period == 0 {
		return d, nil
	}
	d.Period, d.Objects, d.Unwatched = service.PeriodText(w.Period), w.Objects, w.Unwatched
	d.Failure, d.More = w.Failure, w.More
	for to, at := range map[**time.Time]time.Time{
		&d.Began: w.Began, &d.Ended: w.Ended, &d.Oldest: w.Oldest, &d.Failed: w.Failed,
	} {
		if !at.IsZero() {
			*to = &at
		}
	}
	for _, o := range w.Drifted {
		d.Drifted = append(d.Drifted, drifted(&o))
	}
	return d, nil
}

func drifted(d *record.Drift) driftedObject {
	return driftedObject{Address: d.Address, Gone: d.Gone, Attributes: append([]string{}, d.Attributes...),
		Since: d.Since, Seen: d.Seen}
}

// adopt creates a run that writes the drift into the state.
func (s *server) adopt(r *http.Request, a *rights.Actor) (any, error) {
	run, err := s.svc.Drift.TakeOver(a, r.PathValue("workspace"))
	if err != nil {
		return nil, err
	}
	return map[string]string{"run": run.ID}, nil
}
