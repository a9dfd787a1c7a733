package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/work"
	"github.com/millipede-iac/millipede/state/seal"
)

// The history of the started service, and the number of clients that create it.
const (
	oldSpaces, oldRuns = 1000, 20 // runs of each
	makers             = 64
)

// past is an engine whose runs end immediately: each adds an object.
type past struct{}

func (past) Plan(_ context.Context, j *work.Job) (*work.PlanResult, error) {
	fmt.Fprintln(j.Log, "planned")
	return &work.PlanResult{HasChanges: true, Add: 1, Plan: []byte("plan"), Shape: []byte("{}"),
		Redacted: []byte("{}")}, nil
}

func (past) Apply(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
	fmt.Fprintln(j.Log, "applied")
	return &work.ApplyResult{Add: 1}, j.State.Write(ctx, largeState(int(j.Run.Number), 1000))
}

func (past) PlanJSON(context.Context, string, string, []byte, []byte) ([]byte, error) {
	return []byte("{}"), nil
}

func (past) Resolve(context.Context, *work.Job, work.Resolution, string) error { return nil }
func (past) ChangeObjects(context.Context, *work.Job, work.ObjectChange) error { return nil }

func (past) Watch(context.Context, *work.Job, []string, int) ([]work.Found, error) {
	return nil, nil
}

// serviceStart measures the start of a service with many workspaces, and many past runs.
func (t *table) serviceStart(ctx context.Context) (text string, within bool, err error) {
	h, done, err := t.service()
	if err != nil {
		return "", false, err
	}
	defer done()
	if _, err := h.start(ctx); err != nil { // it creates its key and its administrator
		return "", false, err
	}
	if err := h.Kill(); err != nil {
		return "", false, err
	}
	if err := h.remember(ctx); err != nil {
		return "", false, fmt.Errorf("creating the past runs of the service: %w", err)
	}
	var took time.Duration
	var started, looked int64
	for range 3 { // the fastest counts: the others had to wait for the machine's disk
		once, err := h.start(ctx)
		if err != nil {
			return "", false, err
		}
		if took == 0 || once < took {
			took = once
		}
		if started, err = resident(h.PID()); err != nil {
			return "", false, err
		}
		for _, path := range []string{"/organizations/main/workspaces?page[size]=100", "/organizations/main/runs",
			"/organizations/main/workspaces?search[name]=old-7"} {
			if _, err := h.send(ctx, h.http, http.MethodGet, "https://"+h.listen+"/api/v2"+path, "", nil); err != nil {
				return "", false, err
			}
		}
		if looked, err = resident(h.PID()); err != nil {
			return "", false, err
		}
		if err := h.Kill(); err != nil {
			return "", false, err
		}
	}
	const mib = 1 << 20
	return fmt.Sprintf("%s, %d MiB (%d MiB after lists were read)", short(took), started/mib, looked/mib),
		took <= time.Second && started <= 150*mib, nil
}

// remember adds the workspaces and their ended runs to the data of a stopped service.
func (h *host) remember(ctx context.Context) (err error) {
	text, err := os.ReadFile(h.key())
	if err != nil {
		return err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	key, err := seal.NewKey(secret)
	if err != nil {
		return err
	}
	st, err := store.Open(h.data(), key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	s, err := service.New(service.Options{Store: st, Engine: past{}, Version: "0.1.0", Plans: makers, Applies: makers,
		MaxConfiguration: 1 << 20, MaxState: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	defer func() {
		end()
		err = errors.Join(err, <-ended)
	}()
	admin, err := s.Tokens.Authenticate(h.token, "bench")
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(makers)
	for i := range oldSpaces {
		g.Go(func() error { return oldSpace(ctx, s, admin, "old-"+strconv.Itoa(i)) })
	}
	return g.Wait()
}

// oldSpace creates a workspace, and applies its runs.
func oldSpace(ctx context.Context, s *service.Service, a *rights.Actor, name string) error {
	w, err := s.Workspaces.Create(a, "main", service.WorkspaceSettings{Name: &name})
	if err != nil {
		return err
	}
	c, err := s.Configurations.Create(a, w.ID, record.Configuration{})
	if err != nil {
		return err
	}
	archive, err := packed("")
	if err == nil {
		err = s.Configurations.Upload(c.Secret, bytes.NewReader(archive), -1)
	}
	if err != nil {
		return err
	}
	for range oldRuns {
		r, err := s.Runs.Create(a, w.ID, record.Run{Configuration: c.ID, Source: record.SourceAPI, AutoApply: true})
		if err != nil {
			return err
		}
		status, changes := r.Status, uint64(0)
		for !status.Final() {
			changes = s.Runs.Changed(ctx, changes)
			v, err := s.Runs.Find(a, r.ID)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			status = v.Status
		}
		if status != record.Applied {
			return fmt.Errorf("a past run is %s, not applied", status)
		}
	}
	return nil
}

// resident returns the resident memory of a process, in bytes; 0 if unknown.
func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, line := range strings.Split(string(text), "\n") {
		if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, err
}
