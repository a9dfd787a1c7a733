package tfe

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// snapshotInterval is the minimum interval, in seconds, at which a client that executes a run itself may store
// intermediate states.
const snapshotInterval = "20"

func (c *call) stateResource(v *record.StateVersion) resource {
	ids := []string{}
	for i := range v.Outputs {
		ids = append(ids, v.Outputs[i].ID)
	}
	a := map[string]any{
		"serial": v.Serial, "lineage": v.Lineage, "md5": v.MD5, "size": v.Size, "status": v.Status,
		"created-at":        moment(v.CreatedAt),
		"terraform-version": orNull(v.Engine), "resources-processed": true, "state-version": 4, "vcs-commit-sha": nil,
		"vcs-commit-url":                 nil,
		"hosted-state-download-url":      c.address("/api/v2/state-versions/" + v.ID + "/download"),
		"hosted-json-state-download-url": c.address("/api/v2/state-versions/" + v.ID + "/json-download"),
		"hosted-state-upload-url":        nil, "hosted-json-state-upload-url": nil, "intermediate": false,
	}
	return resource{ID: v.ID, Type: "state-versions", Attributes: a, Relationships: map[string]any{
		"run": to("runs", v.Run), "outputs": toAll("state-version-outputs", ids),
		"created-by": to("users", v.CreatedBy),
		"workspace":  to("workspaces", v.Workspace),
	}, Links: map[string]any{"self": "/api/v2/state-versions/" + v.ID}}
}

func (c *call) answerState(status int, v *record.StateVersion, err error) error {
	if err != nil {
		return err
	}
	c.w.Header().Set("X-Terraform-Snapshot-Interval", snapshotInterval)
	res := c.stateResource(v)
	if status == http.StatusCreated || v.Status == record.UploadPending && v.CreatedBy == c.actor.ID() {
		// Only the creator of a version gets its upload address.
		res.Attributes["hosted-state-upload-url"] = c.address("/uploads/states/" + v.Secret)
		res.Attributes["hosted-json-state-upload-url"] = c.address("/uploads/states/" + v.Secret + "/json")
	}
	return c.answer(status, res, c.besideState(v))
}

// besideState returns the documents that can be included with a state version.
func (c *call) besideState(v *record.StateVersion) (more []resource) {
	if c.wants("outputs") {
		for i := range v.Outputs {
			more = append(more, outputResource(&v.Outputs[i], false))
		}
	}
	people := []string{}
	if c.wants("created_by") {
		people = append(people, v.CreatedBy)
	}
	if v.Run != "" && c.wants("run", "run.created_by", "run.configuration_version") {
		if r, err := c.svc.Runs.Find(c.actor, v.Run); err == nil {
			more = append(more, c.runResource(r))
			if c.wants("run.created_by") {
				people = append(people, r.CreatedBy)
			}
			if c.wants("run.configuration_version") {
				more = append(more, c.configurationOf(r.Configuration)...)
			}
		}
	}
	for _, id := range people {
		if u, err := c.svc.Users.Find(c.actor, id); err == nil {
			more = append(more, userResource(u))
		}
	}
	return more
}

func (c *call) stateVersion() error {
	v, err := c.svc.States.Find(c.actor, c.arg("sv"))
	return c.answerState(http.StatusOK, v, err)
}

func (c *call) currentStateVersion() error {
	v, err := c.svc.States.Current(c.actor, c.arg("ws"))
	return c.answerState(http.StatusOK, v, err)
}

func (c *call) stateVersions() error {
	id := c.arg("ws")
	if id == "" {
		w, err := c.svc.Workspaces.Named(c.actor, c.r.FormValue("filter[organization][name]"),
			c.r.FormValue("filter[workspace][name]"))
		if err != nil {
			return err
		}
		id = w.ID
	}
	all, err := c.svc.States.List(c.actor, id)
	if err != nil {
		return err
	}
	return list(c, all, c.stateResource, c.besideState)
}

// defaultHosts are the hosts that the addresses of providers leave out.
var defaultHosts = []string{"registry.terraform.io/", "registry.opentofu.org/"}

// resourceResource returns the document of an instance of a resource. Its address has no "module." before the names of
// modules, and the root module has a name, as programs expect.
func resourceResource(r *service.Resource) resource {
	module := strings.ReplaceAll("."+r.Module, ".module.", ".")[1:]
	address := strings.TrimPrefix(module+"."+r.Type+"."+r.Name+r.Key, ".")
	provider := r.Provider
	for _, host := range defaultHosts {
		provider = strings.TrimPrefix(provider, host)
	}
	return resource{ID: r.ID, Type: "resources", Attributes: map[string]any{
		"address": address, "name": r.Name, "module": cmp.Or(module, "root"), "provider": provider,
		"provider-type": r.Type, "name-index": orNull(strings.Trim(r.Key, `[]"`)),
		"modified-by-state-version-id": orNull(r.Changed), "created-at": nil, "updated-at": moment(r.ChangedAt),
	}}
}

func (c *call) resources() error {
	all, err := c.svc.States.Resources(c.actor, c.arg("ws"))
	if err != nil {
		return err
	}
	return list(c, all, resourceResource, nil)
}

func (c *call) createStateVersion() error {
	var a struct {
		Serial  *uint64 `json:"serial"`
		MD5     string  `json:"md5"`
		Lineage string  `json:"lineage"`
		Force   bool    `json:"force"`
		State   string  `json:"state"`
		JSON    string  `json:"json-state"`
		Outputs string  `json:"json-state-outputs"`
	}
	if err := c.svc.States.MayCreate(c.actor, c.arg("ws")); err != nil {
		return err // checked before the content is read
	}
	q, err := c.bodyWithin(&a, maxInline)
	if err != nil {
		return err
	}
	if a.Serial == nil || a.MD5 == "" {
		return &failure{http.StatusUnprocessableEntity, "invalid attribute",
			"a state version needs a serial and an md5"}
	}
	run, err := q.related("run")
	if err != nil {
		return err
	}
	n := service.NewState{Serial: *a.Serial, MD5: a.MD5, Lineage: a.Lineage, Force: a.Force, Run: run.ID}
	for text, to := range map[*string]*[]byte{&a.State: &n.State, &a.JSON: &n.JSON, &a.Outputs: &n.Outputs} {
		if *text == "" {
			continue
		}
		if *to, err = base64.StdEncoding.DecodeString(*text); err != nil {
			return &failure{http.StatusUnprocessableEntity, "invalid attribute",
				"invalid base64: " + err.Error()}
		}
	}
	v, err := c.svc.States.Create(c.actor, c.arg("ws"), n)
	return c.answerState(http.StatusCreated, v, err)
}

func (s *server) uploadState(w http.ResponseWriter, r *http.Request) {
	if err := s.svc.States.Upload(r.PathValue("secret"), r.Body, r.ContentLength); err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *server) uploadStateJSON(w http.ResponseWriter, r *http.Request) {
	if err := s.svc.States.UploadJSON(r.PathValue("secret"), r.Body, r.ContentLength); err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (c *call) downloadState() error {
	data, v, err := c.svc.States.Download(c.actor, c.arg("sv"))
	if err != nil {
		return err
	}
	defer data.Close()
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.FormatInt(v.Size, 10))
	if _, err := io.Copy(c.w, data); err != nil {
		// The file cannot be read completely, or the client has disconnected. The announced length shows the
		// client that the response is incomplete.
		c.o.Logger.Warn("cannot send a state completely", "version", v.ID, "error", err)
	}
	return nil
}

func (c *call) downloadStateJSON() error {
	data, err := c.svc.States.DownloadJSON(c.actor, c.arg("sv"))
	return c.bytes(data, err)
}

func (c *call) bytes(data []byte, err error) error {
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = c.w.Write(data)
	return nil
}

// outputAttributes returns the attributes of an output. Without detailed-type, clients read the whole state
// instead.
func outputAttributes(o *record.Output, reveal bool) map[string]any {
	var value, kind any
	if reveal {
		value = json.RawMessage(o.Value)
	}
	if len(o.Type) > 0 {
		kind = json.RawMessage(o.Type)
	}
	return map[string]any{
		"name": o.Name, "sensitive": o.Sensitive, "type": typeWord(o.Type), "detailed-type": kind, "value": value,
		"output-type": typeWord(o.Type),
	}
}

// typeWord returns the word for a type: the first one in its JSON form.
func typeWord(text []byte) string {
	var word string
	if json.Unmarshal(text, &word) == nil {
		return word
	}
	var parts []json.RawMessage
	if json.Unmarshal(text, &parts) != nil || len(parts) == 0 || json.Unmarshal(parts[0], &word) != nil {
		return "string"
	}
	switch word {
	case "list", "set", "tuple":
		return "array"
	}
	return word
}

func outputResource(o *record.Output, reveal bool) resource {
	return resource{ID: o.ID, Type: "state-version-outputs", Attributes: outputAttributes(o, reveal || !o.Sensitive)}
}

func (c *call) stateOutput() error {
	o, err := c.svc.States.Output(c.actor, c.arg("output"))
	if err != nil {
		return err
	}
	return c.ok(outputResource(o, true))
}

func (c *call) stateOutputs() error {
	v, err := c.svc.States.Find(c.actor, c.arg("sv"))
	if err != nil {
		return err
	}
	return c.outputs(v)
}

// currentOutputs returns the outputs of the current state; none if there is no state.
func (c *call) currentOutputs() error {
	w, err := c.svc.Workspaces.Find(c.actor, c.arg("ws"))
	if err != nil {
		return err
	}
	if w.CurrentState == "" {
		return c.outputs(&record.StateVersion{})
	}
	v, err := c.svc.States.Current(c.actor, w.ID)
	if err != nil {
		return err
	}
	return c.outputs(v)
}

func (c *call) outputs(v *record.StateVersion) error {
	if q := c.r.URL.Query(); q.Has("page[number]") || q.Has("page[size]") {
		return list(c, v.Outputs, func(o record.Output) resource { return outputResource(&o, false) }, nil)
	}
	data := []resource{} // one page: command lines do not request others
	for i := range v.Outputs {
		data = append(data, outputResource(&v.Outputs[i], false))
	}
	return c.ok(data)
}
