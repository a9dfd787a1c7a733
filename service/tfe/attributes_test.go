package tfe_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/variables"
	"github.com/millipede-iac/millipede/service/work"
)

// needed has the attributes and relationships without which a client crashes, hangs or does the wrong thing, with their
// JSON types: clients report an error for a wrong type. "null" means that the value may also be null.
var needed = map[string]struct{ attributes, relationships string }{
	"workspaces": {"name string, execution-mode string, permissions object, terraform-version string, " +
		"structured-run-output-enabled bool, locked bool, tag-names list, working-directory string, auto-apply bool, " +
		"vcs-repo null, created-at string, setting-overwrites object", "organization one, project one, current-run one/null"},
	"runs": {"status string, has-changes bool, actions object, permissions object, message string, source string, " +
		"created-at string, is-destroy bool, auto-apply bool, plan-only bool, refresh bool, refresh-only bool, " +
		"save-plan bool, target-addrs list, replace-addrs list, variables list, position-in-queue number, " +
		"terraform-version string, status-timestamps object, trigger-reason string, canceled-at string/null",
		"workspace one, plan one, apply one, configuration-version one, created-by one, task-stages many, " +
			"policy-checks many, cost-estimate null"},
	"plans":   {"status string, log-read-url string, has-changes bool, generated-configuration bool", ""},
	"applies": {"status string, log-read-url string", ""},
	"configuration-versions": {"status string, upload-url string/null, speculative bool, provisional bool, " +
		"auto-queue-runs bool, source string", ""},
	"state-versions": {"hosted-state-download-url string, hosted-state-upload-url string/null, serial number, " +
		"hosted-json-state-upload-url string/null, lineage string, md5 string, size number, status string, " +
		"created-at string, resources-processed bool, terraform-version string/null", "outputs many, created-by one/null"},
	"state-version-outputs": {"name string, sensitive bool, type string, detailed-type string/list", ""},
	"vars": {"key string, category string, hcl bool, sensitive bool, description string/null, value string/null",
		"configurable one"},
	"run-events": {"action string, description string/null, created-at string", ""},
	"users":      {"username string", ""},
	"organizations": {"name string, email string, created-at string, permissions object, " +
		"default-execution-mode string", ""},
	"entitlement-sets":      {"operations bool", ""},
	"projects":              {"name string", "organization one"},
	"organization-capacity": {"pending number, running number", ""},
}

// inside has the members of attributes that are objects.
var inside = map[string]string{
	"workspaces permissions": "can-queue-run, can-update, can-queue-apply, can-queue-destroy, can-force-delete, " +
		"can-lock, " +
		"can-unlock, can-force-unlock, can-read-settings, can-update-variable, can-destroy",
	"workspaces setting-overwrites": "execution-mode, agent-pool",
	"runs actions":                  "is-cancelable, is-confirmable, is-discardable, is-force-cancelable",
	"runs permissions":              "can-apply",
}

// prefixes has the beginnings of the IDs of documents.
var prefixes = map[string]string{"workspaces": "ws-", "runs": "run-", "plans": "plan-", "applies": "apply-",
	"configuration-versions": "cv-", "state-versions": "sv-", "state-version-outputs": "wsout-", "projects": "prj-",
	"vars": "var-", "users": "user-"}

// document is a document of a response.
type document struct {
	ID, Type                  string
	Attributes, Relationships map[string]any
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case float64:
		return "number"
	case []any:
		return "list"
	case map[string]any:
		if data, related := v["data"]; related && len(v) == 1 {
			switch data.(type) {
			case nil:
				return "null"
			case []any:
				return "many"
			}
			return "one"
		}
		return "object"
	}
	return "unknown"
}

// check checks that a document has what clients need.
func (d *document) check(t *testing.T, where string) {
	t.Helper()
	want, known := needed[d.Type]
	if !known {
		t.Errorf("%s: a document of the type %q is not expected", where, d.Type)
	}
	for list, from := range map[string]map[string]any{want.attributes: d.Attributes, want.relationships: d.Relationships} {
		for one := range strings.SplitSeq(list, ", ") {
			name, types, _ := strings.Cut(one, " ")
			if v := from[name]; name != "" && !strings.Contains("/"+types+"/", "/"+typeOf(v)+"/") {
				t.Errorf("%s: %s of %s is %v, a %s, not a %s", where, name, d.Type, v, typeOf(v), types)
			}
		}
	}
	for what, list := range inside {
		kind, name, _ := strings.Cut(what, " ")
		if kind != d.Type {
			continue
		}
		of, _ := d.Attributes[name].(map[string]any)
		for one := range strings.SplitSeq(list, ", ") {
			if typeOf(of[one]) != "bool" {
				t.Errorf("%s: %s of %s has no %s: %v", where, name, kind, one, of)
			}
		}
	}
	if p := prefixes[d.Type]; !strings.HasPrefix(d.ID, p) || !regexp.MustCompile(`^[\w.-]+$`).MatchString(d.ID) {
		t.Errorf("%s: the ID of %s is %q", where, d.Type, d.ID)
	}
	times(t, where+", "+d.Type, d.Attributes)
}

var momentForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)

// times checks that all times are in the form that clients decode: in UTC, with the letter Z, or null. The empty text
// is an error there.
func times(t *testing.T, where string, of map[string]any) {
	t.Helper()
	for name, v := range of {
		if more, ok := v.(map[string]any); ok {
			times(t, where+", "+name, more)
		}
		text, ok := v.(string)
		if strings.HasSuffix(name, "-at") && (v != nil && !ok || ok && !momentForm.MatchString(text)) {
			t.Errorf("%s: %s is %v", where, name, v)
		}
	}
}

// sees requests a path, and checks all documents of the response.
func (s *site) sees(path string, kinds ...string) []document {
	s.t.Helper()
	status, header, text := s.get("/api/v2/"+path, s.Token)
	var one struct {
		Data     json.RawMessage
		Included []document
	}
	if err := json.Unmarshal([]byte(text), &one); err != nil || status != http.StatusOK ||
		header.Get("Content-Type") != "application/vnd.api+json" || header.Get("TFP-API-Version") != "2.6" {
		s.t.Fatalf("%s: %d, %v, %s", path, status, header, text)
	}
	var all []document
	if json.Unmarshal(one.Data, &all) != nil {
		all = make([]document, 1)
		if err := json.Unmarshal(one.Data, &all[0]); err != nil {
			s.t.Fatalf("%s: %v", path, err)
		}
	}
	all = append(all, one.Included...)
	seen := map[string]bool{}
	for i := range all {
		all[i].check(s.t, path)
		seen[all[i].Type] = true
	}
	for _, kind := range kinds {
		if !seen[kind] {
			s.t.Errorf("%s: no %s", path, kind)
		}
	}
	return all
}

// The responses are checked in each status of a run, because clients read a run from its creation on. A missing value
// makes clients crash, some of them without a message and with the exit status 0.
func TestEveryAnswerHasWhatClientsCrashWithout(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme", client.WorkspaceCreateOptions{Name: client.String("one")})))
	look := func(r string) {
		t.Helper()
		s.sees("organizations/acme/workspaces/one?include=organization,project,current_run", "workspaces", "organizations")
		s.sees("organizations/acme/workspaces", "workspaces")
		if r == "" {
			return
		}
		s.sees("runs/"+r+"?include=workspace,plan", "runs", "workspaces", "plans")
		s.sees("runs/"+r+"?include=plan,apply,configuration_version,created_by", "applies", "configuration-versions", "users")
		s.sees("runs/"+r+"?include=task_stages", "runs")
		s.sees("runs/"+r+"/run-events", "run-events")
		s.sees("workspaces/"+w.ID+"/runs", "runs")
		s.sees("organizations/acme/runs/queue")
		d := s.sees("runs/" + r)[0]
		for name, kind := range map[string]string{"plan": "plans", "apply": "applies"} {
			id := d.Relationships[name].(map[string]any)["data"].(map[string]any)["id"].(string)
			p := s.sees(kind+"/"+id, kind)[0]
			address, _ := p.Attributes["log-read-url"].(string)
			if !strings.HasPrefix(address, s.server.URL+"/") {
				t.Errorf("the address of a log is not absolute: %s", address)
			}
		}
	}
	look("")
	s.sees("organizations/acme/entitlement-set", "entitlement-sets")
	s.sees("organizations/acme/projects", "projects")
	s.sees("organizations/acme/capacity", "organization-capacity")
	s.sees("account/details", "users")
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{}))) // the run is pending
	view := must(t, of(s.Workspaces.Find(s.Admin, w.ID)))
	r := s.NewRun(view, nil)
	look(r.ID)
	s.sees("workspaces/"+w.ID+"/configuration-versions", "configuration-versions")
	must(t, of(s.client.Workspaces.Unlock(s.ctx, w.ID)))
	s.Await(r.ID, record.Planned)
	look(r.ID)
	if err := s.client.Runs.Apply(s.ctx, r.ID, client.RunApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Await(r.ID, record.Applied)
	look(r.ID)
	for what, change := range map[string]func(*record.Run){
		"plan only": func(r *record.Run) { r.PlanOnly = true }, "saved": func(r *record.Run) { r.SavePlan = true },
		"discarded": func(*record.Run) {},
	} {
		r := s.NewRun(view, func(r *record.Run) { r.Message = what; change(r) })
		if status := map[string]record.RunStatus{"plan only": record.PlannedAndFinished,
			"saved": record.PlannedAndSaved, "discarded": record.Planned}[what]; status != "" {
			s.Await(r.ID, status)
		}
		look(r.ID)
		if what == "discarded" {
			if err := s.client.Runs.Discard(s.ctx, r.ID, client.RunDiscardOptions{}); err != nil {
				t.Fatal(err)
			}
			look(r.ID)
		}
	}
	s.sees("workspaces/"+w.ID+"/current-state-version?include=outputs", "state-versions", "state-version-outputs")
	outputs := s.sees("workspaces/"+w.ID+"/current-state-version-outputs", "state-version-outputs")
	s.sees("state-version-outputs/"+outputs[0].ID, "state-version-outputs")
	s.sees("state-versions?filter[workspace][name]=one&filter[organization][name]=acme", "state-versions")
	for _, sensitive := range []bool{false, true} {
		must(t, of(s.Variables.Put(s.Admin, w.ID, "", variables.Settings{Sensitive: &sensitive,
			Key: servicetest.Ptr(fmt.Sprintf("v%t", sensitive)), Value: servicetest.Ptr("x")})))
	}
	s.sees("workspaces/"+w.ID+"/vars", "vars")
}

// Command lines expect certain actions in each status. With others they end without a message, or wait for ever.
func TestTheActionsOfARunFollowItsStatus(t *testing.T) {
	for status, want := range map[record.RunStatus]string{
		record.Pending: "cancel discard", record.PlanQueued: "cancel", record.Planning: "cancel",
		record.Planned: "confirm discard", record.PlannedAndSaved: "confirm discard", record.Confirmed: "cancel",
		record.ApplyQueued: "cancel", record.Applying: "cancel", record.Applied: "", record.PlannedAndFinished: "",
		record.Discarded: "", record.Canceled: "", record.ForceCanceled: "", record.Errored: "",
	} {
		var got []string
		for _, one := range []struct {
			name string
			may  bool
		}{{"cancel", status.Cancelable()}, {"confirm", status.Confirmable()}, {"discard", status.Discardable()}} {
			if one.may {
				got = append(got, one.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, not %s", status, got, want)
		}
	}
}

// Command lines render lines of JSON only for runs that they have created with this header in a workspace that allows
// it, and print them raw otherwise; with a wrong flag the plan appears twice, or not at all.
func TestTheFormOfALogDependsOnTheClientAndTheWorkspace(t *testing.T) {
	s := newSite(t)
	for what, try := range map[string]struct{ header, workspace, want bool }{
		"a cloud block": {true, true, true}, "a remote backend": {false, true, false},
		"a workspace without": {true, false, false},
	} {
		w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme", client.WorkspaceCreateOptions{
			Name: client.String(strings.ReplaceAll(what, " ", "-")), StructuredRunOutputEnabled: &try.workspace})))
		cv := s.NewConfiguration(must(t, of(s.Workspaces.Find(s.Admin, w.ID))), false)
		q := must(t, of(http.NewRequestWithContext(s.ctx, http.MethodPost, s.server.URL+"/api/v2/runs",
			strings.NewReader(fmt.Sprintf(`{"data":{"type":"runs","attributes":{},"relationships":{"workspace":{"data":{"type":`+
				`"workspaces","id":%q}},"configuration-version":{"data":{"type":"configuration-versions","id":%q}}}}}`,
				w.ID, cv)))))
		q.Header.Set("Authorization", "Bearer "+s.Token)
		if try.header {
			q.Header.Set("X-Terraform-Integration", "cloud")
		}
		reply := must(t, of(s.server.Client().Do(q)))
		id := regexp.MustCompile(`run-\w+`).FindString(readAll(t, reply))
		s.Await(id, record.Planned)
		for _, d := range s.sees("runs/" + id + "?include=workspace") {
			if got := d.Attributes["structured-run-output-enabled"]; got != try.want {
				t.Errorf("%s: %s has %v", what, d.Type, got)
			}
		}
	}
}

func TestALogIsReadInPartsWithoutAToken(t *testing.T) {
	s := newSite(t)
	began, gone := make(chan struct{}), make(chan struct{})
	s.Engine.Mu.Lock()
	s.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) {
		fmt.Fprintln(j.Log, "beginning")
		close(began)
		<-gone
	})
	s.Engine.Mu.Unlock()
	r := s.NewRun(s.NewWorkspace("one"), nil)
	p := must(t, of(s.client.Plans.Read(s.ctx, r.Plan.ID)))
	read := func(query string) string {
		t.Helper()
		status, header, text := s.get(strings.TrimPrefix(p.LogReadURL, s.server.URL)+query, "")
		if status != http.StatusOK || header.Get("Content-Length") != fmt.Sprint(len(text)) {
			t.Errorf("%s: %d, %v", query, status, header)
		}
		return text
	}
	<-began
	if text := read("?limit=5&offset=0"); len(text) != 5 || text[0] != 2 {
		t.Errorf("the beginning is %q", text)
	}
	if text := read("?limit=100&offset=1000000"); text != "" {
		t.Errorf("after the last byte that exists: %q", text)
	}
	close(gone)
	s.Await(r.ID, record.Planned)
	whole := read("?limit=65536&offset=0")
	if whole[len(whole)-1] != 3 {
		t.Errorf("the log has no mark of its end: %q", whole)
	}
	pieces := ""
	for len(pieces) < len(whole) {
		pieces += read(fmt.Sprintf("?limit=7&offset=%d", len(pieces)))
	}
	if pieces != whole {
		t.Errorf("read in pieces the log is %q, and as a whole %q", pieces, whole)
	}
	if text := read(fmt.Sprintf("?limit=7&offset=%d", len(whole))); text != "" {
		t.Errorf("after the end: %q", text)
	}
	if status, _, _ := s.get(strings.TrimPrefix(p.LogReadURL, s.server.URL)+"x", ""); status != http.StatusNotFound {
		t.Errorf("another address: %d", status)
	}
}

// Clients look for these words in order to tell users who holds the lock.
func TestALockNamesItsHolder(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	token := s.teamToken(w.ID, "write")
	theirs := s.as(token)
	refused := func(c *client.Client, what string, call func(*client.Client) error, want error) {
		t.Helper()
		if err := call(c); !strings.Contains(fmt.Sprint(err), want.Error()) {
			t.Errorf("%s: %v, not %v", what, err, want)
		}
	}
	unlock := func(c *client.Client) error { _, err := c.Workspaces.Unlock(s.ctx, w.ID); return err }
	lock := func(c *client.Client) error {
		_, err := c.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})
		return err
	}
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	refused(s.client, "in a second terminal", lock, client.ErrWorkspaceLocked)
	refused(theirs, "the lock of a user", unlock, client.ErrWorkspaceLockedByUser)
	if _, err := theirs.Workspaces.ForceUnlock(s.ctx, w.ID); err == nil {
		t.Error("somebody who is not an administrator has broken a lock")
	}
	must(t, of(s.client.Workspaces.ForceUnlock(s.ctx, w.ID)))
	must(t, of(theirs.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	refused(s.client, "the lock of a team", unlock, client.ErrWorkspaceLockedByTeam)
	must(t, of(theirs.Workspaces.Unlock(s.ctx, w.ID)))
	r := s.NewRun(w, nil)
	s.Await(r.ID, record.Planned)
	refused(s.client, "the lock of a run", unlock, client.ErrWorkspaceLockedByRun)
	if _, err := s.client.Workspaces.ForceUnlock(s.ctx, w.ID); err == nil {
		t.Error("the lock of a run was broken")
	}
}
