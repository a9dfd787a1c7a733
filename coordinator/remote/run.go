// Package remote executes plans and applies in a service: it uploads the configuration, creates the run, and
// follows it.
//
// It prints nothing and asks nobody; callers interpret the lines of logs. backend/remote handles
// states in the service.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Session is access to one workspace in which runs are created.
type Session struct {
	Client             *tfc.Client
	Host, Organization string
	Workspace          *tfc.Workspace
	// Tell is called with progress messages for people.
	Tell func(text string)
	// Pause is the first interval between two polls; the longest is ten times that. Default 0.3 s.
	Pause time.Duration
}

// Request describes a run to create.
type Request struct {
	// Dir is the absolute directory of the configuration; empty for none. Temp is the directory for the
	// archive.
	Dir, Temp string
	// PlanOnly: the plan cannot be applied. Saved: a later command applies the plan.
	PlanOnly, Saved bool
	tfc.NewRun
}

// URL returns the address of a run for people.
func (s *Session) URL(run string) string {
	return fmt.Sprintf("https://%s/app/%s/%s/runs/%s", s.Host, s.Organization, s.Workspace.Name, run)
}

// MayPlan returns an error if the token has no right to plan.
func (s *Session) MayPlan() diag.List {
	if may := s.Workspace.Permissions.Run; may != nil && !*may {
		return diag.Errors("Insufficient rights to generate a plan", fmt.Sprintf("The token for %s gives no right to "+
			"plan in the workspace %s.", s.Host, s.Workspace.Name), nil)
	}
	return nil
}

// MayApply returns an error if the token has no right to apply, or if the service takes the configuration from
// a repository, in which case nothing can be applied from here.
func (s *Session) MayApply() diag.List {
	p := s.Workspace.Permissions
	apply, update := p.Apply, p.Update
	switch {
	case apply != nil && !*apply && (update == nil || !*update):
		return diag.Errors("Insufficient rights to apply changes", fmt.Sprintf("The token for %s gives no right to "+
			"apply in the workspace %s.", s.Host, s.Workspace.Name), nil)
	case s.Workspace.VCS != nil:
		return diag.Errors("Apply not allowed for workspaces with a VCS connection", fmt.Sprintf("The workspace %s "+
			"takes its configuration from a repository, so what is in this directory can be planned there, and not "+
			"applied.", s.Workspace.Name), nil)
	}
	return nil
}

// Begin uploads the configuration and creates a run. stopping ends the upload, but not the request that creates
// the run: if its response were not awaited, the run would remain unnoticed.
func (s *Session) Begin(ctx, stopping context.Context, r Request) (*tfc.Run, diag.List) {
	dir, cleanUp, err := s.upload(r)
	if err != nil {
		return nil, diag.Errors("Failed to prepare the configuration files", err.Error()+".", nil)
	}
	defer cleanUp()
	v, err := s.Client.CreateConfiguration(stopping, s.Workspace.ID, tfc.NewConfiguration{Speculative: r.PlanOnly,
		Provisional: r.Saved})
	if err != nil {
		return nil, diag.Errors("Failed to create configuration version", err.Error()+".", nil)
	}
	if err := s.send(stopping, v, dir, r.Temp); err != nil {
		return nil, diag.Errors("Failed to upload configuration files", err.Error()+".", nil)
	}
	r.NewRun.Workspace, r.NewRun.Configuration, r.NewRun.SavePlan = s.Workspace.ID, v.ID, r.Saved
	run, err := s.Client.CreateRun(ctx, r.NewRun)
	if err != nil {
		return nil, diag.Errors("Failed to create run", err.Error()+".", nil)
	}
	return run, nil
}

// upload returns the directory to upload. If runs of the workspace start in a subdirectory, and this directory
// matches it, that is the directory above.
func (s *Session) upload(r Request) (dir string, cleanUp func(), err error) {
	below := filepath.Clean(filepath.FromSlash(s.Workspace.WorkingDirectory))
	if r.Dir == "" {
		empty, err := os.MkdirTemp(r.Temp, "millipede-run-")
		if err == nil && filepath.IsLocal(below) {
			err = os.MkdirAll(filepath.Join(empty, below), 0o700)
		}
		return empty, func() { _ = os.RemoveAll(empty) }, err
	}
	cleanUp = func() {}
	if below == "." {
		return r.Dir, cleanUp, nil
	}
	above, is := strings.CutSuffix(r.Dir, string(filepath.Separator)+below)
	if !is || above == "" {
		return r.Dir, cleanUp, nil
	}
	s.Tell(fmt.Sprintf("Runs of the workspace start in its directory %s, so all of %s is uploaded. Files that runs do "+
		"not need can be excluded by the file %s in that directory.\n\n", s.Workspace.WorkingDirectory, above, ignoreName))
	return above, cleanUp, nil
}

// send packs a directory, uploads it, and waits until the service has processed it.
func (s *Session) send(ctx context.Context, v *tfc.Configuration, dir, temp string) (err error) {
	archive, err := os.CreateTemp(temp, "millipede-upload-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close(), os.Remove(archive.Name())) }()
	if err := Pack(ctx, dir, archive); err != nil {
		return err
	}
	length, err := archive.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	err = s.Client.UploadConfiguration(ctx, v, length, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(archive, 0, length)), nil
	})
	if err != nil {
		return err
	}
	const timeout = 5 * time.Minute // the service unpacks large archives first
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the service has not processed it within %s",
		timeout))
	defer cancel()
	for pause := s.pause() / 6; ; pause = min(2*pause, 10*s.pause()) {
		now, err := s.Client.Configuration(waiting, v.ID)
		switch {
		case err != nil:
			return err
		case now.Status == tfc.ConfigurationUploaded:
			return nil
		case now.Status == tfc.ConfigurationErrored && now.Problem != "":
			return errors.New(now.Problem)
		case now.Status == tfc.ConfigurationErrored:
			return errors.New("the service has rejected the upload")
		}
		if err := sleep.For(waiting, pause); err != nil {
			return err
		}
	}
}

func (s *Session) pause() time.Duration {
	if s.Pause == 0 {
		return 300 * time.Millisecond
	}
	return s.Pause
}

// tellEvery is the interval of messages about why a run waits.
const tellEvery = 30 * time.Second

// AwaitPlan waits until a run has begun to plan, or has ended. It cancels a run that waits longer than
// lockTimeout; 0 means to wait without limit.
func (s *Session) AwaitPlan(ctx context.Context, id string, lockTimeout time.Duration) (*tfc.Run, error) {
	return s.await(ctx, id, lockTimeout, tfc.Pending)
}

// AwaitApply waits until a run has begun to apply, or has ended.
func (s *Session) AwaitApply(ctx context.Context, id string) (*tfc.Run, error) {
	return s.await(ctx, id, 0, tfc.Planned)
}

// await waits while a run is queued, or has the given status.
func (s *Session) await(ctx context.Context, id string, lockTimeout time.Duration, status tfc.Status) (*tfc.Run,
	error) {
	begun := time.Now()
	var told time.Time
	said, asked := "", false
	for pause := s.pause() / 6; ; pause = min(2*pause, 10*s.pause()) {
		r, err := s.Client.Run(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("reading the run %s: %w", id, err)
		}
		if !r.Status.Waiting() && r.Status != status {
			return r, nil
		}
		if lockTimeout > 0 && !asked && time.Since(begun) > lockTimeout && r.Status == tfc.Pending &&
			r.Actions.Cancelable {
			asked = true
			s.Tell(fmt.Sprintf("The run is cancelled, because it still waits after %s (-lock-timeout).\n", lockTimeout))
			if err := s.Client.Cancel(ctx, id, "it has waited for -lock-timeout"); err != nil && !tfc.Conflict(err) {
				return nil, fmt.Errorf("cancelling the run %s: %w", id, err)
			}
		}
		if why := s.why(ctx, r); time.Since(begun) > s.pause() && (why != said || time.Since(told) > tellEvery) {
			said, told = why, time.Now()
			s.Tell(fmt.Sprintf("%s (%s so far)\n", why, time.Since(begun).Round(time.Second)))
		}
		if err := sleep.For(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// why describes what a run waits for, as far as the service reports it.
func (s *Session) why(ctx context.Context, r *tfc.Run) string {
	if r.Waits != "" {
		return "The run waits: " + r.Waits
	}
	general := "The run waits to be started by the service"
	if r.Status != tfc.Pending {
		return general
	}
	w, err := s.Client.WorkspaceByID(ctx, s.Workspace.ID)
	switch {
	case err != nil:
		return general
	case w.Locked && (w.CurrentRun == "" || w.CurrentRun == r.ID):
		if w.LockedReason != "" {
			return fmt.Sprintf("The run waits: the workspace is locked (%s)", w.LockedReason)
		}
		return "The run waits: the workspace is locked"
	case w.CurrentRun == "" || w.CurrentRun == r.ID || r.Position > 0:
		if r.Position > 0 {
			return fmt.Sprintf("The run waits, in place %d of the queue", r.Position)
		}
		return general
	}
	before, seen := 0, false
	const most = 500
	looked := 0
	err = s.Client.Runs(ctx, s.Workspace.ID, func(other *tfc.Run) bool {
		looked++
		if seen && !other.Status.Final() && !other.PlanOnly {
			before++
		}
		seen = seen || other.ID == r.ID
		return other.ID != w.CurrentRun && looked < most
	})
	if err != nil || before == 0 {
		return "The run waits for the run " + w.CurrentRun
	}
	return fmt.Sprintf("The run waits for %d run(s), first for %s", before, w.CurrentRun)
}

// maxPlanned is how long a run may be planned without being confirmable before Settled returns it, in multiples of
// the interval of requests. A service that makes checks next gives the run another status for them.
const maxPlanned = 60

// Settled waits after the end of a plan's log until the next status of the run is known, because the service
// may make checks first. It also returns a run that stays planned and cannot be confirmed, for example because the
// user may not apply it.
func (s *Session) Settled(ctx context.Context, id string) (*tfc.Run, error) {
	planned := time.Duration(0)
	for pause := s.pause() / 6; ; pause = min(2*pause, 10*s.pause()) {
		r, err := s.Client.RunWith(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("reading the run %s: %w", id, err)
		}
		switch {
		case r.Status.Final(), r.Status.Waiting(), r.Actions.Confirmable, r.Status == tfc.Applying,
			r.Status == tfc.PolicyOverride, r.Status == tfc.AwaitingDecision,
			r.Status == tfc.Planned && r.AutoApply, r.Status == tfc.PlannedAndSaved:
			return r, nil
		case r.Status != tfc.Planned:
			planned = 0
		case planned >= maxPlanned*s.pause():
			return r, nil
		default:
			planned += pause
		}
		if err := sleep.For(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// Ended waits until a run has ended.
func (s *Session) Ended(ctx context.Context, id string) (*tfc.Run, error) {
	for pause := s.pause() / 6; ; pause = min(2*pause, 10*s.pause()) {
		r, err := s.Client.Run(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("reading the run %s: %w", id, err)
		}
		if r.Status.Final() {
			return r, nil
		}
		if err := sleep.For(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// maxLine is the maximum length of a line of a log; longer ones are split.
const maxLine = 16 << 20

// Follow reads the log of a phase to its end, line by line.
func (s *Session) Follow(ctx context.Context, kind, id string, line func([]byte)) error {
	p, err := s.Client.Phase(ctx, kind, id)
	if err != nil {
		return err
	}
	var rest []byte
	err = s.Client.Log(ctx, kind, p, func(part []byte) error {
		rest = append(rest, part...)
		for {
			end := bytes.IndexByte(rest, '\n')
			switch {
			case end >= 0:
				line(bytes.TrimSuffix(rest[:end], []byte("\r")))
				rest = rest[end+1:]
			case len(rest) > maxLine:
				line(rest)
				rest = nil
			default:
				rest = bytes.Clone(rest)
				return nil
			}
		}
	})
	if len(rest) > 0 {
		line(rest)
	}
	return err
}

// Stop requests the end of a run: the cancellation of a phase in progress, or the discarding of a plan that
// waits to be applied. It returns which was requested; empty if neither was necessary.
func (s *Session) Stop(ctx context.Context, id, comment string) (string, error) {
	r, err := s.Client.Run(ctx, id)
	if err != nil {
		return "", err
	}
	switch {
	case r.Actions.Cancelable:
		return "cancelled", s.Client.Cancel(ctx, id, comment)
	case r.Actions.Discardable:
		return "discarded", s.Client.Discard(ctx, id, comment)
	}
	return "", nil
}

// Approved waits, while the user is asked for approval here, until the plan is approved or discarded elsewhere.
// It returns the run in its status then.
func (s *Session) Approved(ctx context.Context, id string) (*tfc.Run, error) {
	for {
		if err := sleep.For(ctx, 10*s.pause()); err != nil {
			return nil, err
		}
		r, err := s.Client.Run(ctx, id)
		if err != nil || !r.Actions.Confirmable {
			return r, err
		}
	}
}
