package service

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/tables"
)

// WorkspaceSettings are the settings of a workspace that can be changed. Nil fields are not changed.
type WorkspaceSettings struct {
	Name, Description, ExecutionMode, TerraformVersion, WorkingDirectory, Project *string
	AutoApply, Structured, QueueAllRuns, AllowDestroy, GlobalState                *bool
	SourceName, SourceURL                                                         *string
	// ObjectLocks cannot be changed while a run has the workspace.
	ObjectLocks *bool
	Refresh     *string
	DriftPeriod *time.Duration
	// Retention, if not nil, replaces the retention of the workspace: by nil for that of the service.
	Retention **record.Retention
	Tags      []record.Tag // added
	// Pairs, if not nil, replaces all tags that have a value.
	Pairs          *[]record.Tag
	ApprovalExpiry *time.Duration
	// InheritsMode, if true, replaces the workspace's own execution mode by that of the organization.
	InheritsMode *bool
	// Triggers changes the triggers; it is a function because each of their fields may be given or not. May be
	// nil.
	Triggers func(*record.Triggers)
}

// validVersion reports whether command lines can compare their version with a text: they refuse to work with
// any other text.
func validVersion(text string) bool {
	if text == "latest" {
		return true
	}
	_, err := version.NewConstraint(text)
	return err == nil
}

// apply validates the given settings and sets them.
func (o *WorkspaceSettings) apply(w *record.Workspace) error {
	record.Set(&w.Name, o.Name)
	record.Set(&w.Description, o.Description)
	record.Set(&w.ExecutionMode, o.ExecutionMode)
	record.Set(&w.TerraformVersion, o.TerraformVersion)
	record.Set(&w.WorkingDirectory, o.WorkingDirectory)
	record.Set(&w.AutoApply, o.AutoApply)
	record.Set(&w.Structured, o.Structured)
	record.Set(&w.QueueAllRuns, o.QueueAllRuns)
	record.Set(&w.AllowDestroy, o.AllowDestroy)
	record.Set(&w.GlobalState, o.GlobalState)
	record.Set(&w.SourceName, o.SourceName)
	record.Set(&w.SourceURL, o.SourceURL)
	record.Set(&w.ApprovalExpiry, o.ApprovalExpiry)
	record.Set(&w.ObjectLocks, o.ObjectLocks)
	record.Set(&w.Refresh, o.Refresh)
	record.Set(&w.DriftPeriod, o.DriftPeriod)
	record.Set(&w.Retention, o.Retention)
	if o.ExecutionMode != nil {
		w.InheritsMode = false
	}
	record.Set(&w.InheritsMode, o.InheritsMode)
	if o.Triggers != nil {
		o.Triggers(&w.Triggers)
	}
	if w.TerraformVersion = strings.TrimSpace(w.TerraformVersion); w.TerraformVersion == "" {
		w.TerraformVersion = "latest" // command lines refuse to work with an empty version
	}
	switch {
	case !validVersion(w.TerraformVersion):
		return tables.Invalid("Terraform version must be latest, a version, or a constraint of versions")
	case !record.ValidName(w.Name):
		return tables.Invalid("Name can only include letters, numbers, -, and _, and must begin with a letter or a number")
	case !record.ValidMode(w.ExecutionMode):
		return tables.Invalid("Execution mode must be remote, local or agent")
	case !validDirectory(w.WorkingDirectory):
		return tables.Invalid("Working directory must be a relative path within the configuration")
	case w.ApprovalExpiry < 0:
		return tables.Invalid("The time for approvals must not be negative")
	case w.Refresh != "" && w.Refresh != record.RefreshAll && w.Refresh != record.RefreshChanged:
		return tables.Invalid("Refresh must be all, changed, or empty for what the configuration says")
	case w.DriftPeriod != 0 && (w.DriftPeriod < record.MinDriftPeriod || w.DriftPeriod > record.MaxDriftPeriod):
		return tables.Invalid("Drift period must be between 1 minute and 90 days, or 0 for not watching")
	case w.ObjectLocks && w.Bounds.PlanMemory != 0:
		return errSharedStore
	case w.Retention != nil && (w.Retention.Runs < 0 || w.Retention.States < 0 || w.Retention.For < 0):
		return tables.Invalid("Numbers and times of the retention must not be negative")
	}
	if o.Pairs != nil {
		w.Tags = slices.DeleteFunc(slices.Clone(w.Tags), func(t record.Tag) bool { return t.Value != "" })
		if err := addTags(w, *o.Pairs); err != nil {
			return err
		}
	}
	return addTags(w, o.Tags)
}

// ParsePeriod parses a drift period such as 10m or 24h; 0 and the empty text mean never.
func ParsePeriod(text string) (time.Duration, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	period, err := time.ParseDuration(text)
	if err != nil {
		return 0, tables.Invalid("Drift period must be a time with its unit, as in 10m or 24h, or 0 for not watching")
	}
	return period, nil
}

// PeriodText formats a period for ParsePeriod in the shortest form; 0 means never.
func PeriodText(period time.Duration) string {
	if period == 0 {
		return "0"
	}
	text := period.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// validDirectory reports whether a relative path stays within its base directory.
func validDirectory(dir string) bool {
	clean := path.Clean("/" + dir)[1:]
	return !path.IsAbs(dir) && !strings.ContainsAny(dir, "\x00\\") &&
		(dir == "" || !strings.HasPrefix(path.Clean(dir), "..") && clean != "..")
}

// addTags adds tags to a workspace; a tag replaces another with the same key.
func addTags(w *record.Workspace, tags []record.Tag) (err error) {
	w.Tags, err = tables.TidyTags(append(slices.Clone(w.Tags), tags...))
	return err
}
