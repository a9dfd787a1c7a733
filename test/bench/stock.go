package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/seal"
)

// scribe is an engine that only leaves what an engine leaves: logs, plans, states.
type scribe struct{}

var scribbled = []byte(strings.Repeat("what the engine needs to carry the plan out\n", 100))

func (scribe) Plan(_ context.Context, j *service.Job) (*service.PlanResult, error) {
	for i := range 20 {
		if _, err := fmt.Fprintf(j.Log, "terraform_data.a[%d]: Refreshing state...\n", i); err != nil {
			return nil, err
		}
	}
	return &service.PlanResult{HasChanges: true, Add: 1, Plan: scribbled, JSON: []byte("{}"), Redacted: []byte("{}")},
		nil
}

func (scribe) Apply(ctx context.Context, j *service.Job) (*service.ApplyResult, error) {
	return &service.ApplyResult{Add: 1}, j.State.Write(ctx, fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":"l",`+
		`"outputs":{"o":{"value":"v","type":"string"}},"resources":[]}`, j.Run.Number))
}

func (scribe) Resolve(context.Context, *service.Job, service.Resolution, string) error {
	return errors.New("nothing is in doubt")
}

// stock fills the data of a service that does not run with workspaces and runs that have ended, a fifth of them applied:
// the service itself does that, with an engine that does nothing.
func (h *host) stock(ctx context.Context, spaces, each int) (err error) {
	secret := seal.NewSecret()
	if err := os.WriteFile(h.key(), []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
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
	svc, err := service.New(service.Options{Store: st, Engine: scribe{}, Version: "0", Plans: 100, Applies: 100,
		MaxConfiguration: 1 << 20, MaxState: 1 << 20})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if h.token, err = svc.Bootstrap("admin", "main"); err != nil {
		return err
	}
	actor, err := svc.Authenticate(h.token, "here")
	if err != nil {
		return err
	}
	archive, err := packed("")
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(100)
	for i := range spaces {
		group.Go(func() error {
			name := fmt.Sprintf("space-%d", i)
			w, err := svc.CreateWorkspace(actor, "main", service.WorkspaceSettings{Name: &name})
			if err != nil {
				return err
			}
			c, err := svc.CreateConfiguration(actor, w.ID, record.Configuration{})
			if err != nil {
				return err
			}
			if err := svc.UploadConfiguration(c.Secret, bytes.NewReader(archive), int64(len(archive))); err != nil {
				return err
			}
			for j := range each {
				r, err := svc.CreateRun(actor, w.ID, record.Run{Configuration: c.ID, Refresh: true,
					Source: service.SourceAPI, Message: fmt.Sprint(j), PlanOnly: j%5 != 4, AutoApply: j%5 == 4})
				if err != nil {
					return err
				}
				for v := (*service.RunView)(nil); v == nil || !v.Status.Final(); time.Sleep(5 * time.Millisecond) {
					if v, err = svc.FindRun(actor, r.ID); err != nil {
						return err
					}
					if v.Status == record.Errored {
						return fmt.Errorf("the run %s has failed", r.ID)
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}
