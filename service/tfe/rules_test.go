package tfe_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

// stateRequest returns the document with which a command line begins to write a state.
func stateRequest(serial int, lineage, state string, more string) string {
	return fmt.Sprintf(`{"data":{"type":"state-versions","attributes":{"serial":%d,"lineage":%q,"md5":%q%s}}}`,
		serial, lineage, service.Sum([]byte(state)), more)
}

// The refused requests would overwrite the state of somebody else. The accepted ones are repetitions by a command line
// that has not received the response.
func TestAStateFollowsTheOneBefore(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	path := "workspaces/" + w.ID + "/state-versions"
	text := func(serial int, lineage string) string {
		return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":%q,"outputs":{},"resources":[]}`, serial, lineage)
	}
	say := func(serial int, lineage, state, more string, want int) string {
		t.Helper()
		status, answer := s.ask(http.MethodPost, path, stateRequest(serial, lineage, state, more))
		if status != want {
			t.Errorf("serial %d, lineage %s, %s: %d, not %d: %s", serial, lineage, more, status, want, answer)
		}
		return answer
	}
	say(1, "a", text(1, "a"), "", 409) // without a lock
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	first, _ := attributes(t, say(3, "a", text(3, "a"), "", 201))
	if again, _ := attributes(t, say(3, "a", text(3, "a"), "", 201)); again["hosted-state-upload-url"] !=
		first["hosted-state-upload-url"] {
		t.Error("a repeated request has created another version")
	}
	upload := first["hosted-state-upload-url"].(string)
	if status, _, _ := s.get("/api/v2/workspaces/"+w.ID+"/current-state-version", s.Token); status != http.StatusNotFound {
		t.Errorf("a version without its content is the current one: %d", status)
	}
	if status := s.put(first["hosted-json-state-upload-url"].(string), []byte("{}")); status != 200 {
		t.Errorf("uploading the JSON form: %d", status)
	}
	if status := s.put(upload, []byte(text(3, "a"))); status != 200 {
		t.Errorf("uploading the content: %d", status)
	}
	status, header, _ := s.get("/api/v2/workspaces/"+w.ID+"/current-state-version", s.Token)
	if status != 200 || header.Get("X-Terraform-Snapshot-Interval") != "20" {
		t.Errorf("%d, %v", status, header)
	}
	say(3, "a", text(3, "a"), "", 201) // the same again
	say(3, "a", text(4, "a"), "", 409) // the same serial, another content
	say(2, "a", text(2, "a"), "", 409) // an older one
	say(9, "b", text(9, "b"), "", 409) // another lineage
	say(9, "a", text(9, "a"), "", 201) // any greater serial
	say(1, "b", text(1, "b"), `,"force":true`, 201)

	wrong, _ := attributes(t, say(10, "a", text(10, "a"), "", 201))
	if status := s.put(wrong["hosted-state-upload-url"].(string), []byte(text(11, "a"))); status != 422 {
		t.Errorf("uploading another content than announced: %d", status)
	}
	if status := s.put(wrong["hosted-state-upload-url"].(string), []byte(text(10, "a"))); status != 409 {
		t.Errorf("uploading the content of a discarded version: %d", status)
	}
	if v := must(t, of(s.client.StateVersions.ReadCurrent(s.ctx, w.ID))); v.Serial != 3 {
		t.Errorf("the current serial is %d", v.Serial)
	}
	inline := base64.StdEncoding.EncodeToString([]byte(text(12, "a")))
	say(12, "a", text(12, "a"), `,"state":"`+inline+`"`, 201)
	if v := must(t, of(s.client.StateVersions.ReadCurrent(s.ctx, w.ID))); v.Serial != 12 {
		t.Errorf("a version that was created with its content is not the current one: %d", v.Serial)
	}
}

// If the configuration encrypts its state, the request has the outputs in plain text, and they are just as secret.
func TestTheOutputsOfAnEncryptedStateAreThoseThatCameWithIt(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	state := `{"serial":1,"lineage":"a","meta":{"k":"v"},"encrypted_data":"c2VjcmV0","encryption_version":"v0"}`
	outputs := base64.StdEncoding.EncodeToString([]byte(`{"o":{"value":"plain","type":"string"},` +
		`"s":{"value":"canary","type":"string","sensitive":true}}`))
	_, text := s.ask(http.MethodPost, "workspaces/"+w.ID+"/state-versions", stateRequest(1, "a", state,
		`,"json-state-outputs":"`+outputs+`"`))
	made, _ := attributes(t, text)
	if status := s.put(made["hosted-state-upload-url"].(string), []byte(state)); status != 200 {
		t.Fatalf("%d", status)
	}
	_, _, list := s.get("/api/v2/workspaces/"+w.ID+"/current-state-version-outputs", s.Token)
	if !strings.Contains(list, `"value":"plain"`) || strings.Contains(list, "canary") {
		t.Errorf("%s", list)
	}
}

// Clients distinguish the reasons by these words.
func TestAWorkspaceThatIsInUseIsNotDeletedSafely(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	refused := func(words string) {
		t.Helper()
		for _, path := range []string{"organizations/acme/workspaces/one", "workspaces/" + w.ID} {
			if status, text := s.ask(http.MethodPost, path+"/actions/safe-delete", ""); status != http.StatusConflict ||
				!strings.Contains(text, words) {
				t.Errorf("%s: %d %s, without %q", path, status, text, words)
			}
		}
	}
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	refused("locked")
	state := []byte(`{"version":4,"serial":1,"lineage":"a","resources":[{"mode":"managed","type":"t","name":"n",` +
		`"provider":"p","instances":[{}]}]}`)
	must(t, of(s.client.StateVersions.Upload(s.ctx, w.ID, client.StateVersionUploadOptions{
		StateVersionCreateOptions: client.StateVersionCreateOptions{Serial: client.Int64(1), Lineage: client.String("a"),
			MD5: client.String(service.Sum(state))}, RawState: state})))
	must(t, of(s.client.Workspaces.Unlock(s.ctx, w.ID)))
	status, text := s.ask(http.MethodPost, "workspaces/"+w.ID+"/actions/safe-delete", "")
	if status != http.StatusConflict ||
		strings.Contains(text, "locked") || strings.Contains(text, "being processed") {
		t.Errorf("with resources: %d %s", status, text)
	}
}

func TestTheWholePlanIsForThoseWhoMayReadIt(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	began, gone := make(chan struct{}), make(chan struct{})
	s.Engine.Mu.Lock()
	s.Engine.PlanFunc = servicetest.PlanThen(func(*work.Job) { close(began); <-gone })
	s.Engine.Mu.Unlock()
	r := s.NewRun(w, nil)
	<-began
	plan := "plans/" + r.Plan.ID
	if status, text := s.ask(http.MethodGet, plan+"/json-output", ""); status != http.StatusNoContent || text != "" {
		t.Errorf("a plan that is not ready: %d %s", status, text)
	}
	close(gone)
	s.Await(r.ID, record.Planned)
	team := must(t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "readers"})))
	must(t, of(s.TeamAccess.Create(s.Admin, record.Access{Team: team.ID, On: w.ID, Role: "custom",
		Custom: record.Permissions{Runs: record.Read}})))
	token, _, err := s.Tokens.Create(s.Admin, record.TokenTeam, team.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/json-output": http.StatusNotFound, "/json-output-redacted": http.StatusOK} {
		if status, text := s.do(http.MethodGet, "/api/v2/"+plan+path, token); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// A saved plan is stale once another run has applied.
func TestAnApplyDiscardsSavedPlans(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	saved := s.NewRun(w, func(r *record.Run) { r.SavePlan = true })
	s.Await(saved.ID, record.PlannedAndSaved)
	if got := must(t, of(s.client.Workspaces.ReadByID(s.ctx, w.ID))); got.CurrentRun != nil || got.Locked {
		t.Errorf("a saved plan has locked the workspace: %+v, %t", got.CurrentRun, got.Locked)
	}
	other := s.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	s.Await(other.ID, record.Applied)
	s.Await(saved.ID, record.Discarded)
	for _, action := range []string{"apply", "discard", "cancel"} {
		if status, _ := s.ask(http.MethodPost, "runs/"+saved.ID+"/actions/"+action, "{}"); status != http.StatusConflict {
			t.Errorf("%s of a discarded run: %d", action, status)
		}
	}
}

// A run in a workspace that somebody has locked is pending until the workspace is unlocked. The other runs wait in
// their order, but plan-only runs do not wait.
func TestRunsWaitInTheirOrder(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{Reason: client.String("holidays")})))
	first := s.NewRun(w, func(r *record.Run) { r.Message = "first" })
	second := s.NewRun(w, func(r *record.Run) { r.Message = "second" })
	only := s.NewRun(w, func(r *record.Run) { r.PlanOnly = true })
	s.Await(only.ID, record.PlannedAndFinished)
	got := must(t, of(s.client.Workspaces.ReadByID(s.ctx, w.ID)))
	if !got.Locked || got.CurrentRun == nil || got.CurrentRun.ID != first.ID {
		t.Errorf("%t, %+v", got.Locked, got.CurrentRun)
	}
	for _, r := range []*record.Run{first, second} {
		now := must(t, of(s.client.Runs.Read(s.ctx, r.ID)))
		if now.Status != client.RunPending || !now.Actions.IsCancelable ||
			!now.Actions.IsDiscardable || now.Actions.IsConfirmable {
			t.Errorf("%s is %s, %+v", r.Message, now.Status, now.Actions)
		}
	}
	all := must(t, of(s.client.Runs.List(s.ctx, w.ID, nil))).Items
	if len(all) != 3 || all[0].ID != only.ID || all[2].ID != first.ID {
		t.Error("the runs are not listed from the newest to the oldest")
	}
	must(t, of(s.client.Workspaces.Unlock(s.ctx, w.ID)))
	s.Await(first.ID, record.Planned)
	now := must(t, of(s.client.Runs.Read(s.ctx, second.ID)))
	if now.Status != client.RunPending || now.PositionInQueue < 1 {
		t.Errorf("the second run is %s, at position %d", now.Status, now.PositionInQueue)
	}
	queue := must(t, of(s.client.Organizations.ReadRunQueue(s.ctx, "acme", client.ReadRunQueueOptions{})))
	if len(queue.Items) != 2 {
		t.Errorf("%d runs are in the queue", len(queue.Items))
	}
	if err := s.client.Runs.Discard(s.ctx, first.ID, client.RunDiscardOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Await(second.ID, record.Planned)
}

// Programs send these settings, without a value, for features that the service does not have.
func TestWhatProgramsSendForNothingIsAccepted(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	for _, attributes := range []string{
		`"agent-pool-id":"","setting-overwrites":{"execution-mode":false,"agent-pool":false}`, `"terraform-version":"1.12.6"`,
		`"terraform-version":"latest"`, `"working-directory":""`, `"vcs-repo":null`,
	} {
		status, text := s.ask(http.MethodPatch, "workspaces/"+w.ID,
			`{"data":{"type":"workspaces","attributes":{`+attributes+`}}}`)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", attributes, status, text)
		}
	}
	for path, want := range map[string]string{
		"organizations/acme/projects?filter[names]=Default+Project": `"total-count":1`,
		"organizations/acme/projects?filter[names]=nosuch":          `"total-count":0`,
		"organizations/acme/workspaces?search[wildcard-name]=o*":    `"total-count":1`,
		"organizations/acme/workspaces?search[name]=n":              `"total-count":1`,
		"organizations/acme/workspaces?search[tags]=nosuch":         `"total-count":0`,
	} {
		if status, _, text := s.get("/api/v2/"+path, s.Token); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	status, text := s.ask(http.MethodPost, "organizations/acme/workspaces", `{"data":{"type":"workspaces","attributes":`+
		`{"name":"two"},"relationships":{"tag-bindings":{"data":`+
		`[{"type":"tag-bindings","attributes":{"key":"env","value":"prod"}}]}}}}`)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	for query, want := range map[string]string{
		"filter[tagged][0][key]=env":                               `"total-count":1`,
		"filter[tagged][0][key]=env&filter[tagged][0][value]=prod": `"total-count":1`,
		"filter[tagged][0][key]=env&filter[tagged][0][value]=test": `"total-count":0`,
	} {
		if status, _, text := s.get("/api/v2/organizations/acme/workspaces?"+query, s.Token); status != http.StatusOK ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	for _, name := range []string{"one", "with space", "", "ünicode", "a/b"} {
		if status, _ := s.ask(http.MethodPost, "organizations/acme/workspaces", `{"data":{"type":"workspaces","attributes":`+
			`{"name":"`+
			name+`"}}}`); status != http.StatusUnprocessableEntity {
			t.Errorf("the name %q: %d", name, status)
		}
	}
	for _, tag := range []string{"Upper case", "a/b"} {
		if status, _ := s.ask(http.MethodPost, "workspaces/"+w.ID+"/relationships/tags",
			`{"data":[{"type":"tags","attributes":{"name":"`+tag+`"}}]}`); status != http.StatusUnprocessableEntity {
			t.Errorf("the tag %q: %d", tag, status)
		}
	}
	if status, text := s.ask(http.MethodPost, "runs", `{"data":{"type":"runs","relationships":`+
		`{"workspace":{"data":{"type":`+
		`"workspaces","id":"`+w.ID+`"}}}}}`); status != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "Configuration version is missing") {
		t.Errorf("a run without a configuration: %d %s", status, text)
	}
}
