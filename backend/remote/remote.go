// Package remote stores snapshots in the workspaces of a service with the API of HCP Terraform: the cloud block
// and the backend "remote".
//
// It stores states and their locks. Runs that the service executes are implemented by coordinator/remote.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Store is the workspaces of an organization that a block selects. It implements backend.Backend.
type Store struct {
	client             *tfc.Client
	kind               string
	host, organization string
	// One of name, prefix and tags selects the workspaces. New ones belong to the project.
	name, prefix, project string
	tags                  []string
	// here: the command line executes runs, whatever the workspaces' settings are.
	here       bool
	engine     string
	anyVersion bool
	run        string // the run that this process is a part of; empty for none
	lockCheck  time.Duration
	tell       func(string)
	checks     backend.LockChecks

	mu    sync.Mutex // guards the fields below
	known map[string]*tfc.Workspace
	seen  map[string]versionID // the last version read or written, by workspace
	held  map[string]string    // the IDs of the locks of this process, by workspace
}

// versionID identifies a version of a state.
type versionID struct {
	Serial  uint64 `json:"serial"`
	Lineage string `json:"lineage"`
}

// Client returns the client of the service.
func (s *Store) Client() *tfc.Client { return s.client }

// Host returns the host of the service.
func (s *Store) Host() string { return s.host }

// Organization returns the organization of the workspaces.
func (s *Store) Organization() string { return s.organization }

// Integrated reports whether the block is a cloud block.
func (s *Store) Integrated() bool { return s.integrated() }

// Tags returns the tags that select the workspaces; none if they are selected by a name or prefix.
func (s *Store) Tags() []string { return s.tags }

// Single returns the name of the workspace in the block; empty if there may be several.
func (s *Store) Single() string { return s.name }

// ErrNoSuchWorkspace means that the service has no such workspace.
var ErrNoSuchWorkspace = errors.New("the service has no such workspace")

// Remote returns the name of a workspace in the service, or an error if there cannot be one.
func (s *Store) Remote(workspace string) (string, error) {
	switch {
	case s.name != "" && (workspace == s.name && s.integrated() || workspace == journal.DefaultWorkspace):
		return s.name, nil
	case s.name != "":
		return "", backend.ErrNoWorkspaces
	case workspace == journal.DefaultWorkspace:
		return "", errors.New("no workspace of the service is selected: run init, or \"workspace select\"")
	}
	return s.prefix + workspace, nil
}

// Workspace returns the service's current data of a workspace. The error is ErrNoSuchWorkspace if there is none.
func (s *Store) Workspace(ctx context.Context, workspace string) (*tfc.Workspace, error) {
	name, err := s.Remote(workspace)
	if err != nil {
		return nil, err
	}
	w, err := s.client.Workspace(ctx, s.organization, name)
	switch {
	case tfc.NotFound(err):
		return nil, fmt.Errorf("%w: %s/%s", ErrNoSuchWorkspace, s.organization, name)
	case err != nil:
		return nil, fmt.Errorf("reading the workspace %s/%s: %w", s.organization, name, err)
	}
	s.mu.Lock()
	s.known[workspace] = w
	s.mu.Unlock()
	return w, nil
}

// RunsHere reports whether the command line executes the runs of a workspace.
func (s *Store) RunsHere(w *tfc.Workspace) bool { return s.here || w.RunsHere() }

// find returns a workspace as first read, and creates it if create is set.
func (s *Store) find(ctx context.Context, workspace string, create bool) (*tfc.Workspace, error) {
	s.mu.Lock()
	w := s.known[workspace]
	s.mu.Unlock()
	if w != nil {
		return w, nil
	}
	w, err := s.Workspace(ctx, workspace)
	if !errors.Is(err, ErrNoSuchWorkspace) || !create {
		return w, err
	}
	return s.create(ctx, workspace)
}

func (s *Store) create(ctx context.Context, workspace string) (*tfc.Workspace, error) {
	name, err := s.Remote(workspace)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*tfc.Workspace, error) {
		return nil, fmt.Errorf("making the workspace %s/%s: %w", s.organization, name, err)
	}
	n := tfc.NewWorkspace{Name: name, Tags: s.tags}
	if s.project != "" {
		if n.Project, err = s.client.Project(ctx, s.organization, s.project); err != nil {
			return fail(err)
		}
		if n.Project == "" {
			if n.Project, err = s.client.CreateProject(ctx, s.organization, s.project); err != nil {
				return fail(err)
			}
		}
	}
	w, err := s.client.CreateWorkspace(ctx, s.organization, n)
	if err != nil {
		return fail(err)
	}
	// A service with other engines keeps its own version: that is not an error.
	changed, err := s.client.ChangeWorkspace(ctx, w.ID, map[string]any{"terraform-version": s.engine})
	switch {
	case err == nil:
		w = changed
	case ctx.Err() != nil:
		return fail(err)
	case s.tell != nil:
		s.tell(fmt.Sprintf("The service has no version %s, so the workspace %s has the version %q.\n", s.engine, name,
			w.TerraformVersion))
	}
	s.mu.Lock()
	s.known[workspace] = w
	s.mu.Unlock()
	return w, nil
}

// Close ends the checks of locks. The locks are kept.
func (s *Store) Close() error {
	s.checks.Close()
	return nil
}

// Describe implements backend.Backend.
func (s *Store) Describe(workspace string) backend.Description {
	name, err := s.Remote(workspace)
	if err != nil {
		name = workspace
	}
	return backend.Description{Where: s.host + "/" + s.organization + "/" + name, Form: tfstate.Compact}
}

// Read implements backend.Backend.
func (s *Store) Read(ctx context.Context, workspace string) ([]byte, error) {
	w, err := s.find(ctx, workspace, false)
	if errors.Is(err, ErrNoSuchWorkspace) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := s.client.CurrentState(ctx, w.ID)
	if err != nil || v == nil {
		return nil, err
	}
	data, err := s.client.DownloadState(ctx, v)
	if err != nil {
		return nil, err
	}
	s.note(workspace, document(data).versionID)
	return data, nil
}

func (s *Store) note(workspace string, v versionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[workspace] = v
}

// content is the decoded part of a snapshot.
type content struct {
	versionID
	Encrypted string `json:"encrypted_data"`
	Outputs   map[string]struct {
		Value     json.RawMessage `json:"value"`
		Type      json.RawMessage `json:"type"`
		Sensitive bool            `json:"sensitive"`
	} `json:"outputs"`
}

func document(data []byte) (c content) {
	_ = json.Unmarshal(data, &c) // invalid snapshots have neither serial nor outputs
	return c
}

// outputs returns the outputs of a snapshot in the form of services; nil for an encrypted one, because they must
// not be visible.
func (c content) outputs() []byte {
	if c.Encrypted != "" || c.Outputs == nil {
		return nil
	}
	text, err := json.Marshal(c.Outputs)
	if err != nil {
		return nil
	}
	return text
}

// Write implements backend.Backend. The service accepts states only under a lock: if this process has none, it
// takes it for the write.
func (s *Store) Write(ctx context.Context, workspace string, data []byte) (err error) {
	w, err := s.find(ctx, workspace, true)
	if err != nil {
		return err
	}
	if err := s.fits(w); err != nil {
		return err
	}
	s.mu.Lock()
	_, locked := s.held[workspace]
	before, known := s.seen[workspace]
	s.mu.Unlock()
	if !locked {
		if err := s.client.Lock(ctx, w.ID, "a state is written"); err != nil {
			return fmt.Errorf("locking the workspace %s: %w", w.Name, err)
		}
		defer func() { err = errors.Join(err, s.client.Unlock(context.WithoutCancel(ctx), w.ID)) }()
	}
	d := document(data)
	// The writer has seen the stored state, and replaces it deliberately. A version written by another process in
	// the meantime is still detected by its serial, unless this one has another lineage.
	force := known && (d.Lineage != before.Lineage || d.Serial <= before.Serial)
	err = s.client.WriteState(ctx, w.ID, tfc.NewState{
		Serial: d.Serial, Lineage: d.Lineage, Data: data, Outputs: d.outputs(), Force: force, Run: s.run,
	})
	if err != nil {
		return err
	}
	s.note(workspace, d.versionID)
	return nil
}

// fits checks that a workspace whose runs the service executes is for this version: it could no longer read a state
// that a newer version has written.
func (s *Store) fits(w *tfc.Workspace) error {
	if s.anyVersion || s.RunsHere(w) || w.TerraformVersion == "latest" || w.TerraformVersion == s.engine {
		return nil
	}
	const advice = "The option -ignore-remote-version has the state changed all the same; the service may then no " +
		"longer be able to read it"
	own, err := version.NewVersion(s.engine)
	if err != nil {
		return nil //nolint:nilerr // a development version
	}
	if theirs, err := version.NewVersion(w.TerraformVersion); err == nil {
		if a, b := own.Segments(), theirs.Segments(); a[0] == b[0] && a[1] == b[1] {
			return nil
		}
		return fmt.Errorf("the workspace %s is for the version %s, and this is %s. %s", w.Name, w.TerraformVersion,
			s.engine, advice)
	}
	constraint, err := version.NewConstraint(w.TerraformVersion)
	if err != nil {
		return fmt.Errorf("the workspace %s is for the version %q, which cannot be understood. %s", w.Name,
			w.TerraformVersion, advice)
	}
	if !constraint.Check(own) {
		return fmt.Errorf("the workspace %s is for versions %s, and this is %s. %s", w.Name, w.TerraformVersion,
			s.engine, advice)
	}
	return nil
}

// Workspaces implements backend.Backend.
func (s *Store) Workspaces(ctx context.Context) ([]string, error) {
	switch {
	case s.name != "" && s.integrated():
		return []string{s.name}, nil
	case s.name != "":
		return nil, backend.ErrNoWorkspaces
	}
	filter := tfc.Filter{Tags: s.tags, Part: s.prefix}
	if s.project != "" {
		var err error
		if filter.Project, err = s.client.Project(ctx, s.organization, s.project); err != nil {
			return nil, err
		}
		if filter.Project == "" {
			return nil, nil
		}
	}
	all, err := s.client.Workspaces(ctx, s.organization, filter)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, w := range all {
		// Services search for a part of the name, and some ignore the tags.
		rest, is := strings.CutPrefix(w.Name, s.prefix)
		if is && rest != "" && (w.TagNames == nil || s.tagged(w)) {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return names, nil
}

// tagged reports whether a workspace has all the tags.
func (s *Store) tagged(w *tfc.Workspace) bool {
	return !slices.ContainsFunc(s.tags, func(tag string) bool { return !slices.Contains(w.TagNames, tag) })
}

// Create implements backend.Backend. An existing workspace gets missing tags.
func (s *Store) Create(ctx context.Context, workspace string) error {
	w, err := s.find(ctx, workspace, true)
	if err != nil || s.tagged(w) {
		return err
	}
	return s.client.AddTags(ctx, w.ID, s.tags)
}

// Delete implements backend.Backend. The service rejects it for a workspace that manages resources.
func (s *Store) Delete(ctx context.Context, workspace string) error {
	return s.remove(ctx, workspace, false)
}

// DeleteNonEmpty deletes a workspace even if it manages resources.
func (s *Store) DeleteNonEmpty(ctx context.Context, workspace string) error {
	return s.remove(ctx, workspace, true)
}

func (s *Store) remove(ctx context.Context, workspace string, force bool) error {
	switch {
	case workspace == journal.DefaultWorkspace:
		return backend.ErrDefault
	case s.name != "":
		return backend.ErrNoWorkspaces
	}
	w, err := s.Workspace(ctx, workspace)
	if errors.Is(err, ErrNoSuchWorkspace) {
		return nil
	}
	if err == nil {
		err = s.client.DeleteWorkspace(ctx, s.organization, w, force)
	}
	if err != nil && !tfc.NotFound(err) {
		return err
	}
	s.mu.Lock()
	delete(s.known, workspace)
	delete(s.seen, workspace)
	s.mu.Unlock()
	return nil
}
