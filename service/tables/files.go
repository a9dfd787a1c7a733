package tables

import (
	"github.com/millipede-iac/millipede/service/record"
)

// ConfigurationFile returns the name of the file with the archive of a configuration version.
func ConfigurationFile(id string) string { return "configurations/" + id }

// StateFile returns the name of the file with the content of a state version.
func StateFile(id string) string { return "states/" + id }

// StateJSONFile returns the name of the file with the JSON form of a state version.
func StateJSONFile(id string) string { return "states/" + id + ".json" }

// StateOutlineFile returns the name of the file with the outline of a state version.
func StateOutlineFile(version string) string { return "states/" + version + ".outline" }

// StateFiles returns the names of the files of a state version.
func StateFiles(version string) []string {
	return []string{StateFile(version), StateJSONFile(version), StateOutlineFile(version)}
}

// LogFile returns the name of the log of a phase.
func LogFile(phase string) string { return "logs/" + phase }

// TimelineFile returns the name of the file with the timeline of a phase that has ended.
func TimelineFile(phase string) string { return "timelines/" + phase }

// PlanFile returns the name of the file with the plan of a run, for the engine.
func PlanFile(r *record.Run) string { return "plans/" + r.Plan.ID }

// PlanShapeFile returns the name of the file with the shape of the plan of a run, for the engine.
func PlanShapeFile(r *record.Run) string { return "plans/" + r.Plan.ID + ".shape" }

// PlanJSONFile returns the name of the file with the complete JSON document of the plan of a run.
func PlanJSONFile(r *record.Run) string { return "plans/" + r.Plan.ID + ".json" }

// PlanRedactedFile returns the name of the file with the JSON document of the plan without sensitive values.
func PlanRedactedFile(r *record.Run) string { return "plans/" + r.Plan.ID + ".redacted" }

// PlanOutlineFile returns the name of the file with the outline of the plan of a run.
func PlanOutlineFile(r *record.Run) string { return "plans/" + r.Plan.ID + ".outline" }

// RunFiles returns the names of the files of a run.
func RunFiles(r *record.Run) []string {
	return []string{LogFile(r.Plan.ID), LogFile(r.Apply.ID), PlanFile(r), PlanShapeFile(r), PlanJSONFile(r),
		PlanRedactedFile(r), PlanOutlineFile(r), TimelineFile(r.Plan.ID), TimelineFile(r.Apply.ID)}
}
