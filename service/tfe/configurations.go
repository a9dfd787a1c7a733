package tfe

import (
	"errors"
	"io"
	"net/http"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/tables"
)

func (c *call) configurationResource(v *record.Configuration) resource {
	a := map[string]any{
		"status": v.Status, "speculative": v.Speculative, "provisional": v.Provisional, "auto-queue-runs": v.AutoQueue,
		"source": v.Source,
		"error":  nil, "error-message": orNull(v.Problem), "changed-files": []string{}, "upload-url": nil,
		"status-timestamps": map[string]any{"queued-at": moment(v.CreatedAt), "archived-at": moment(v.ArchivedAt)},
	}
	return resource{ID: v.ID, Type: "configuration-versions", Attributes: a, Links: map[string]any{
		"self": "/api/v2/configuration-versions/" + v.ID, "download": "/api/v2/configuration-versions/" +
			v.ID + "/download",
	}}
}

func (c *call) configurations() error {
	all, err := c.svc.Configurations.List(c.actor, c.arg("ws"))
	if err != nil {
		return err
	}
	return list(c, all, c.configurationResource, nil)
}

func (c *call) createConfiguration() error {
	a := struct {
		AutoQueue   bool `json:"auto-queue-runs"`
		Speculative bool `json:"speculative"`
		Provisional bool `json:"provisional"`
	}{AutoQueue: true}
	if _, err := c.body(&a); err != nil {
		return err
	}
	v, err := c.svc.Configurations.Create(c.actor, c.arg("ws"), record.Configuration{
		AutoQueue: a.AutoQueue, Speculative: a.Speculative, Provisional: a.Provisional, Source: c.source(),
	})
	if err != nil {
		return err
	}
	res := c.configurationResource(v)
	if v.Status == record.UploadPending {
		// Only the creator of a version gets its upload address: others who may read the version could upload
		// content of their own.
		res.Attributes["upload-url"] = c.address("/uploads/configurations/" + v.Secret)
	}
	return c.created(res)
}

// source distinguishes a command line that follows its runs from other programs.
func (c *call) source() string {
	if c.r.Header.Get("Terraform-Version") != "" {
		return record.SourceCLI
	}
	return record.SourceAPI
}

func (c *call) configuration() error {
	v, err := c.svc.Configurations.Find(c.actor, c.arg("cv"))
	if err != nil {
		return err
	}
	return c.ok(c.configurationResource(v))
}

func (c *call) downloadConfiguration() error { return c.download(c.arg("cv")) }

func (c *call) downloadRunConfiguration() error {
	r, err := c.svc.Runs.Find(c.actor, c.arg("run"))
	if err != nil {
		return err
	}
	return c.download(r.Configuration)
}

func (c *call) download(configuration string) error {
	archive, err := c.svc.Configurations.Download(c.actor, configuration)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/gzip")
	_, err = io.Copy(c.w, archive)
	if closeErr := archive.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the response is partial: abort the connection
	}
	return nil
}

// archiveConfiguration removes the files of a version. Programs recognize a refusal by its title.
func (c *call) archiveConfiguration() error {
	err := c.svc.Configurations.Archive(c.actor, c.arg("cv"))
	if errors.Is(err, tables.ErrConflict) {
		return &failure{http.StatusConflict, "transition not allowed", err.Error()}
	}
	if err != nil {
		return err
	}
	return c.empty(http.StatusAccepted)
}

func (s *server) uploadConfiguration(w http.ResponseWriter, r *http.Request) {
	if err := s.svc.Configurations.Upload(r.PathValue("secret"), r.Body, r.ContentLength); err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}
