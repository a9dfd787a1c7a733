package service

import (
	"errors"
	"io"
	"time"

	"github.com/millipede-iac/millipede/service/drift"
	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// A client that has lost the response to a request repeats it within the time repeated; the repeated request
// then has the same meaning as the first. No client repeats a request within atOnce: two requests that close
// together ask for two configuration versions.
const (
	repeated = 10 * time.Second
	atOnce   = 100 * time.Millisecond
)

// Configurations are the configuration versions of workspaces: the archives that runs plan.
type Configurations struct {
	*shared
	maxConfiguration int64
	uploads          *queues
	queue            *queue.Queue
	transitions      *transitions
}

// mayRepeat reports whether a request may be a repetition of one that took effect at the given time.
func (s *Configurations) mayRepeat(made time.Time) bool {
	age := s.now().Sub(made)
	return age >= atOnce && age < repeated
}

// Create makes a configuration version of a workspace, whose files are uploaded later. If the same
// actor repeats the request within seconds, it returns the same version, as long as nothing was uploaded.
func (s *Configurations) Create(a *rights.Actor, workspace string, c record.Configuration) (*record.Configuration,
	error) {
	out := &c
	err := s.audit.Change(a, "configuration.create", workspace, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.Plan)
		if err != nil {
			return err
		}
		p, err := a.Permissions(tx, w)
		if err != nil {
			return err
		}
		now := s.now().UTC()
		for _, id := range tables.Configurations.Newest(tx, "workspace", 1, w.ID) {
			last, err := tables.Configurations.Get(tx, id)
			if err != nil {
				return err
			}
			if last.Status == record.UploadPending && last.CreatedBy == a.ID() && s.mayRepeat(last.CreatedAt) &&
				last.Speculative == c.Speculative && last.Provisional == c.Provisional &&
				last.AutoQueue == c.AutoQueue {
				out = last
				return nil
			}
		}
		out = &record.Configuration{
			ID: tables.NewID("cv"), Workspace: w.ID, Status: record.UploadPending, Speculative: c.Speculative,
			Provisional: c.Provisional,
			AutoQueue:   c.AutoQueue, Source: c.Source, Secret: tables.NewSecret(), CreatedAt: now, CreatedBy: a.ID(),
			MayApply: rights.Apply.Has(p),
		}
		return tables.Configurations.Put(tx, out)
	})
	return out, err
}

// Find returns a configuration version.
func (s *Configurations) Find(a *rights.Actor, id string) (c *record.Configuration, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if c, err = tables.Configurations.Get(tx, id); err == nil {
			if _, err = a.Allowed(tx, c.Workspace, rights.ReadRuns); err == nil {
				return nil
			}
		}
		return tables.NotFound("there is no configuration version %q, or you have no access to it", id)
	})
	return c, tables.Translated(err)
}

// List returns the configuration versions of a workspace, newest first.
func (s *Configurations) List(a *rights.Actor, workspace string) (out []*record.Configuration, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if _, err := a.Allowed(tx, workspace, rights.ReadRuns); err != nil {
			return err
		}
		for _, id := range tables.Configurations.Newest(tx, "workspace", 1000, workspace) {
			c, err := tables.Configurations.Get(tx, id)
			if err != nil {
				return err
			}
			out = append(out, c)
		}
		return nil
	})
	return out, tables.Translated(err)
}

// Upload stores the archive of a configuration version, which is found by the secret of its upload
// address, and checks that the archive can be unpacked. size is the size that the client has announced, or -1
// if it has announced none.
func (s *Configurations) Upload(secret string, archive io.Reader, size int64) error {
	defer s.uploads.take(tables.Hash(secret))()
	var c *record.Configuration
	err := s.store.View(func(tx *store.Tx) (err error) {
		if c, err = tables.Configurations.Find(tx, "secret", tables.Hash(secret)); err != nil ||
			s.now().Sub(c.CreatedAt) >= record.UploadTerm {
			return tables.NotFound("there is nothing to upload at this address")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if used := tables.Conflict("the configuration version %s is %s", c.ID, c.Status); c.Status != record.UploadPending {
		if c.Status != record.Uploaded {
			return used
		}
		return repeats(archive, size, s.maxConfiguration, c.MD5, used)
	}
	if err := fits(size, s.maxConfiguration); err != nil {
		return err
	}
	w, err := s.store.Write(tables.ConfigurationFile(c.ID), archive, s.maxConfiguration)
	problem := ""
	switch {
	case errors.Is(err, store.ErrTooLarge):
		return &problem413{s.maxConfiguration}
	case err != nil:
		return tables.Translated(err)
	default:
		if problem, err = s.inspect(c.ID); err != nil {
			return err
		}
	}
	var queue *record.Run
	err = s.store.Update(func(tx *store.Tx) error {
		c, err := tables.Configurations.Get(tx, c.ID)
		if err != nil {
			return err
		}
		if c.Status != record.UploadPending {
			return nil // a repetition of the same upload
		}
		c.Status, c.Size, c.MD5, c.Problem = record.Uploaded, w.Size, w.MD5, problem
		if problem != "" {
			c.Status = record.UploadErrored
			return tables.Configurations.Put(tx, c)
		}
		if err := tables.Configurations.Put(tx, c); err != nil {
			return err
		}
		ws, err := tables.Workspaces.Get(tx, c.Workspace)
		if err != nil {
			return err
		}
		if !c.Speculative && !c.Provisional {
			ws.CurrentConfiguration = c.ID
			if err := tables.Workspaces.Put(tx, ws); err != nil {
				return err
			}
		}
		if c.AutoQueue && !c.Provisional && ws.ExecutionMode != record.ModeLocal {
			queue, err = s.transitions.makeRun(tx, ws, &record.Run{Configuration: c.ID, Refresh: true, CreatedBy: c.CreatedBy,
				Source: c.Source, PlanOnly: c.Speculative, AutoApply: ws.AutoApply && c.MayApply && !c.Speculative,
				Message: "Queued by the upload of its configuration"})
			return err
		}
		return nil
	})
	if err != nil {
		return tables.Translated(err)
	}
	if queue != nil {
		s.queue.Wake()
	}
	if problem != "" {
		return tables.Invalid("the archive cannot be unpacked: %s", problem)
	}
	return nil
}

// problem413 is the error of an upload that exceeds the limit.
type problem413 struct{ limit int64 }

func (p *problem413) Error() string {
	return "an upload may have at most " + megabytes(p.limit)
}
func (p *problem413) Unwrap() error { return tables.ErrTooLarge }

// fits checks the announced size of an upload, so that one that is too large is refused before it is read. A
// negative size means that none was announced; such an upload is refused when it passes the limit.
func fits(size, limit int64) error {
	if size > limit {
		return &problem413{limit}
	}
	return nil
}

// inspect reads an archive in the same way as the engine does, without keeping anything. It returns a
// description of what is wrong with the archive, or "".
func (s *Configurations) inspect(id string) (problem string, err error) {
	r, err := s.store.Read(tables.ConfigurationFile(id))
	if err != nil {
		return "", err
	}
	err = checkArchive(r, s.maxConfiguration)
	if err := r.Close(); err != nil {
		return "", err
	}
	if err != nil {
		return err.Error(), nil //nolint:nilerr // the problem of an archive is its description
	}
	return "", nil
}

// Download returns the archive of a configuration version. The caller closes it.
func (s *Configurations) Download(a *rights.Actor, id string) (io.ReadCloser, error) {
	c, err := s.Find(a, id)
	if err != nil {
		return nil, err
	}
	r, err := s.store.Read(tables.ConfigurationFile(c.ID))
	return r, tables.Translated(err)
}

// Archive removes the files of a configuration version; its record stays. The error is ErrConflict
// if the version is the current one of its workspace, if a run that has not ended needs it, if the service reads
// objects with it to watch for drift, or if it was never uploaded completely.
func (s *Configurations) Archive(a *rights.Actor, id string) error {
	return s.audit.Change(a, "configuration.archive", id, func(tx *store.Tx) error {
		c, err := tables.Configurations.Get(tx, id)
		var w *record.Workspace
		if err == nil {
			w, err = a.Allowed(tx, c.Workspace, rights.ReadRuns)
		}
		if err != nil {
			return tables.NotFound("there is no configuration version %q, or you have no access to it", id)
		}
		if _, err := a.Allowed(tx, c.Workspace, rights.Apply); err != nil {
			return err
		}
		switch {
		case c.Status == record.Archived:
			return nil // a repeated request
		case c.Status != record.Uploaded:
			return tables.Conflict("configuration could not be archived because it is %s", c.Status)
		case w.CurrentConfiguration == c.ID:
			return tables.Conflict("configuration could not be archived because it is current")
		}
		for _, id := range tables.Runs.List(tx, "active", w.ID) {
			r, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			if r.Configuration == c.ID {
				return tables.Conflict("configuration could not be archived because the run %s is %s", r.ID, r.Status)
			}
		}
		if w.DriftPeriod > 0 {
			with, err := drift.ReadWith(tx, w)
			if err != nil {
				return err
			}
			if with != nil && with.Configuration == c.ID {
				return tables.Conflict("configuration could not be archived because the workspace is watched for drift with it")
			}
		}
		c.Status, c.ArchivedAt = record.Archived, s.now().UTC()
		tx.After(func() {
			if err := s.store.Remove(tables.ConfigurationFile(c.ID)); err != nil {
				s.log.Warn("cannot remove an archived configuration", "version", c.ID, "error", err)
			}
		})
		return tables.Configurations.Put(tx, c)
	})
}
