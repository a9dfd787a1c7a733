package remote

import (
	"encoding/json"
	"fmt"

	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Saved is the file of a plan that a service keeps: it identifies the run. The format is OpenTofu's.
type Saved struct {
	Format int    `json:"remote_plan_format"`
	Run    string `json:"run_id"`
	Host   string `json:"hostname"`
}

// MaxSaved is the maximum size of such a file in bytes.
const MaxSaved = 64 << 10

// ReadSaved reads the file of a plan that a service keeps. It returns nil without errors for any other file.
// The errors concern such a file that is unusable.
func ReadSaved(text []byte) (*Saved, diag.List) {
	var s Saved
	if len(text) > MaxSaved || json.Unmarshal(text, &s) != nil || s.Format == 0 && s.Run == "" {
		return nil, nil
	}
	if s.Format != 1 || s.Run == "" || s.Host == "" {
		return nil, diag.Errors("Failed to read the saved plan", fmt.Sprintf("The file names a plan that a service "+
			"keeps, in the format %d; this version knows the format 1.", s.Format), nil)
	}
	return &s, nil
}

// Encode returns the file.
func (s Saved) Encode() []byte {
	s.Format = 1
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers can always be marshalled
	}
	return append(text, '\n')
}

// Unusable returns the reason why a saved plan cannot be applied, or nothing if it can.
func (s *Session) Unusable(r *tfc.Run) diag.List {
	if r.Actions.Confirmable {
		return nil
	}
	summary, reason := "Saved plan cannot be applied", fmt.Sprintf("The run is %s.", r.Status)
	switch r.Status {
	case tfc.Applied:
		summary, reason = "Saved plan is already applied", "The plan was applied, which can be done once."
	case tfc.Confirmed, tfc.QueuingApply, tfc.ApplyQueued, tfc.Applying:
		summary, reason = "Saved plan is already confirmed", "The plan is being applied at the moment."
	case tfc.Canceled, tfc.ForceCanceled:
		summary, reason = "Saved plan is canceled", "The run was cancelled, so its plan can no longer be applied."
	case tfc.Discarded:
		summary, reason = "Saved plan is discarded", "Somebody has discarded the plan, or another run was applied "+
			"first."
	case tfc.Errored:
		summary, reason = "Saved plan is errored", "Planning has failed, so there is nothing to apply."
	case tfc.PlannedAndFinished:
		summary, reason = "Saved plan has no changes", "The plan changes nothing, so there is nothing to apply."
	case tfc.PolicyOverride:
		summary, reason = "Saved plan requires policy override", "A policy is against the plan, and somebody has to "+
			"overrule it first."
	}
	return diag.Errors(summary, reason+" For details, see the run:\n  "+s.URL(r.ID), nil)
}
