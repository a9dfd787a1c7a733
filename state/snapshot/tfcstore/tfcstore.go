// Package tfcstore keeps snapshots in the workspaces of a service that speaks the API of HCP Terraform: the cloud
// block and the backend "remote".
//
// It keeps states and their locks. Runs that the service carries out are the business of coordinator/remote.
package tfcstore

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

	"github.com/millipede-iac/millipede/cloud/tfc"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Store is the workspaces of an organization that a block names. It implements snapshot.Backend.
type Store struct {
	client             *tfc.Client
	kind               string
	host, organization string
	// One of name, prefix and tags says which workspaces there are. New ones belong to the project.
	name, prefix, project string
	tags                  []string
	// here: runs are carried out by the command line, whatever the workspaces say.
	here       bool
	engine     string
	anyVersion bool
	run        string // the run that this process is a part of; empty for none
	lockCheck  time.Duration
	tell       func(string)
	watches    snapshot.Watches

	mu    sync.Mutex // guards what follows
	known map[string]*tfc.Workspace
	seen  map[string]stamp  // what was last read or written, by workspace
	held  map[string]string // the IDs of the locks of this process, by workspace
}

// stamp identifies a version of a state.
type stamp struct {
	Serial  uint64 `json:"serial"`
	Lineage string `json:"lineage"`
}

// Client asks the service.
func (s *Store) Client() *tfc.Client { return s.client }

// Host is where the service is.
func (s *Store) Host() string { return s.host }

// Organization is whose workspaces these are.
func (s *Store) Organization() string { return s.organization }

// Integrated reports whether it is a cloud block that names them.
func (s *Store) Integrated() bool { return s.integrated() }

// Tags are those that select the workspaces; none where one is named, or a prefix is.
func (s *Store) Tags() []string { return s.tags }

// Single is the name of the workspace that the block names; empty where there may be several.
func (s *Store) Single() string { return s.name }

// ErrNoSuchWorkspace means that the service has no workspace for this name.
var ErrNoSuchWorkspace = errors.New("the service has no such workspace")

// Remote returns the name of a workspace in the service. The error says that there cannot be one.
func (s *Store) Remote(workspace string) (string, error) {
	switch {
	case s.name != "" && (workspace == s.name && s.integrated() || workspace == journal.DefaultWorkspace):
		return s.name, nil
	case s.name != "":
		return "", snapshot.ErrNoWorkspaces
	case workspace == journal.DefaultWorkspace:
		return "", errors.New("no workspace of the service is selected: run init, or \"workspace select\"")
	}
	return s.prefix + workspace, nil
}

// Workspace returns what the service says of a workspace, as it is now. The error is ErrNoSuchWorkspace when there is
// none.
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

// RunsHere reports whether the runs of a workspace are carried out by the command line.
func (s *Store) RunsHere(w *tfc.Workspace) bool { return s.here || w.RunsHere() }

// find returns a workspace as it was at first, and makes it if it is to.
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
	// A service that has other engines keeps its own version: that is no reason to fail.
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

// Close gives the watches over locks up. The locks stay.
func (s *Store) Close() error {
	s.watches.Close()
	return nil
}

// Describe implements snapshot.Backend.
func (s *Store) Describe(workspace string) snapshot.Description {
	name, err := s.Remote(workspace)
	if err != nil {
		name = workspace
	}
	return snapshot.Description{Where: s.host + "/" + s.organization + "/" + name, Form: tfstate.Compact}
}

// Read implements snapshot.Backend.
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
	s.note(workspace, document(data).stamp)
	return data, nil
}

func (s *Store) note(workspace string, v stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[workspace] = v
}

// content is what is read of a snapshot.
type content struct {
	stamp
	Encrypted string `json:"encrypted_data"`
	Outputs   map[string]struct {
		Value     json.RawMessage `json:"value"`
		Type      json.RawMessage `json:"type"`
		Sensitive bool            `json:"sensitive"`
	} `json:"outputs"`
}

func document(data []byte) (c content) {
	_ = json.Unmarshal(data, &c) // what is no snapshot has neither serial nor outputs
	return c
}

// outputs are those of a snapshot in the form that services take; nil for one that is encrypted: nobody is to see
// them.
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

// Write implements snapshot.Backend. The service takes states from whoever has the lock: where this process has none,
// it takes it meanwhile.
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
	// Who writes has seen what is there, and has decided that this takes its place. A version that somebody else has
	// written since is still found out, by its serial, unless this one is of another lineage.
	force := known && (d.Lineage != before.Lineage || d.Serial <= before.Serial)
	err = s.client.WriteState(ctx, w.ID, tfc.NewState{
		Serial: d.Serial, Lineage: d.Lineage, Data: data, Outputs: d.outputs(), Force: force, Run: s.run,
	})
	if err != nil {
		return err
	}
	s.note(workspace, d.stamp)
	return nil
}

// fits checks that a workspace whose runs the service carries out is for this version: a state that a newer one has
// written cannot be read there any more.
func (s *Store) fits(w *tfc.Workspace) error {
	if s.anyVersion || s.RunsHere(w) || w.TerraformVersion == "latest" || w.TerraformVersion == s.engine {
		return nil
	}
	const advice = "The option -ignore-remote-version has the state changed all the same; the service may then no " +
		"longer be able to read it"
	own, err := version.NewVersion(s.engine)
	if err != nil {
		return nil //nolint:nilerr // a version that is made for a test
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

// Workspaces implements snapshot.Backend.
func (s *Store) Workspaces(ctx context.Context) ([]string, error) {
	switch {
	case s.name != "" && s.integrated():
		return []string{s.name}, nil
	case s.name != "":
		return nil, snapshot.ErrNoWorkspaces
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
		// Services search for a part of the name, and some leave the tags out of account.
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

// Create implements snapshot.Backend. A workspace that is there gets the tags that it lacks.
func (s *Store) Create(ctx context.Context, workspace string) error {
	w, err := s.find(ctx, workspace, true)
	if err != nil || s.tagged(w) {
		return err
	}
	return s.client.AddTags(ctx, w.ID, s.tags)
}

// Delete implements snapshot.Backend. The service refuses it for a workspace that manages something.
func (s *Store) Delete(ctx context.Context, workspace string) error {
	return s.remove(ctx, workspace, false)
}

// DeleteNonEmpty deletes a workspace whatever it manages.
func (s *Store) DeleteNonEmpty(ctx context.Context, workspace string) error {
	return s.remove(ctx, workspace, true)
}

func (s *Store) remove(ctx context.Context, workspace string, force bool) error {
	switch {
	case workspace == journal.DefaultWorkspace:
		return snapshot.ErrDefault
	case s.name != "":
		return snapshot.ErrNoWorkspaces
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
