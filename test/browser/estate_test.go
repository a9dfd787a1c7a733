//go:build unix

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/work"
)

// estate is the engine of a test: its plans create objects, and its applies continue when the test permits it.
type estate struct {
	mu      sync.Mutex
	objects []object
	// serial is that of the next state.
	serial int
	// steps lets an apply end one vertex each; closed, it ends all.
	steps    chan struct{}
	recorder *timeline.Recorder
	// log is the first text that an apply writes.
	log string
	// worker is the name of the worker that executes vertices.
	worker string
}

// object is a planned and applied object.
type object struct {
	module, typ, name, action string
	attributes                map[string]any
	secret                    string
	after                     []int
	fails                     string
}

func (o *object) address() string {
	at := o.typ + "." + o.name
	if o.module != "" {
		at = o.module + "." + at
	}
	return at
}

func newEstate(s *Site) *estate {
	e := &estate{steps: make(chan struct{}), worker: "worker-1"}
	s.Engine.PlanFunc, s.Engine.ApplyFunc = e.plan, e.apply
	return e
}

// network is a small estate with something of everything.
func network() []object {
	var all []object
	add := func(o object) int { all = append(all, o); return len(all) - 1 }
	vpc := add(object{typ: "fleet_network", name: "main", action: "update",
		attributes: map[string]any{"cidr": "10.0.0.0/8",
			"name": "main"}})
	for i := range 4 {
		zone := add(object{module: fmt.Sprintf("module.zone[%d]", i), typ: "fleet_subnet", name: "a", action: "create",
			attributes: map[string]any{"zone": i, "tags": map[string]any{"team": "core"}}, after: []int{vpc}})
		for j := range 4 {
			add(object{module: fmt.Sprintf("module.zone[%d]", i), typ: "fleet_vm", name: fmt.Sprintf("node%d", j),
				action: "create", attributes: map[string]any{"size": 2 + j, "image": "debian-12"}, secret: "canary-of-state",
				after: []int{zone}})
		}
	}
	add(object{typ: "fleet_vm", name: "old", action: "delete", attributes: map[string]any{"size": 1}})
	return all
}

// plan makes the plan of the objects.
func (e *estate) plan(_ context.Context, j *work.Job) (*work.PlanResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &work.PlanResult{HasChanges: true, Plan: []byte("plan of " + j.Run.ID)}
	var changes []any
	for i := range e.objects {
		o := &e.objects[i]
		after := map[string]any{}
		for k, v := range o.attributes {
			after[k] = v
		}
		marks := map[string]any{}
		if o.secret != "" {
			after["password"], marks["password"] = "REDACTED", true
		}
		change := map[string]any{"actions": []string{o.action}, "before": nil, "after": after,
			"after_unknown": map[string]any{"id": true}, "after_sensitive": marks, "before_sensitive": false}
		switch o.action {
		case "create":
			r.Add++
		case "update":
			before := map[string]any{}
			for k, v := range after {
				before[k] = v
			}
			before["cidr"] = "10.0.0.0/16"
			change["before"], change["after_unknown"] = before, map[string]any{}
			r.Change++
		case "delete":
			change["before"], change["after"], change["after_unknown"] = after, nil, map[string]any{}
			r.Destroy++
		}
		changes = append(changes, map[string]any{"address": o.address(), "module_address": o.module, "mode": "managed",
			"type": o.typ, "name": o.name, "change": change})
	}
	fmt.Fprintln(j.Log, e.log)
	attributes := map[string]any{"password": map[string]any{"sensitive": true}}
	schema := map[string]any{"block": map[string]any{"attributes": attributes}}
	var err error
	r.Redacted, err = json.Marshal(map[string]any{"resource_changes": changes, "provider_schemas": map[string]any{
		"fleet": map[string]any{"resource_schemas": map[string]any{"fleet_network": schema, "fleet_subnet": schema,
			"fleet_vm": schema}}},
		"output_changes": map[string]any{"address": map[string]any{"actions": []string{"create"}, "before": nil,
			"after": "10.1.2.3", "after_unknown": false, "before_sensitive": false, "after_sensitive": false}}})
	return r, err
}

// apply carries the plan out, vertex by vertex as the test says, with two workers' slots.
func (e *estate) apply(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
	e.mu.Lock()
	objects := e.objects
	begun := time.Now()
	e.recorder = timeline.NewRecorder(timeline.Head{Run: j.Run.ID, Command: "apply", Begun: begun.UnixMilli(),
		Ended: timeline.None})
	recorder := e.recorder
	e.mu.Unlock()
	now := func() int64 { return time.Since(begun).Milliseconds() }
	for i := range objects {
		recorder.Add(timeline.Vertex{
			Number: i, Module: objects[i].module, Address: objects[i].address(), Type: objects[i].typ,
			Action: objects[i].action, After: objects[i].after, Status: timeline.Waiting, Ready: timeline.None,
			Started: timeline.None, Ended: timeline.None})
	}
	j.Watched(recorder, "engine-"+j.Run.ID)
	fmt.Fprintln(j.Log, e.log)
	failed := false
	for i := range objects {
		o := &objects[i]
		if failed && o.action == "create" && o.fails == "" && i%5 == 3 {
			recorder.Update(i, func(v *timeline.Vertex) {
				v.Status, v.Because = timeline.Skipped, "module.zone[0].fleet_vm.node1"
			})
			continue
		}
		ready := now()
		recorder.Update(i, func(v *timeline.Vertex) {
			v.Status, v.Ready, v.Started, v.Pool, v.Attempt, v.Attempts = timeline.Running, ready, now()+1, "default",
				fmt.Sprint("attempt-", i), 1
			v.Worker, v.Holds = e.worker, []string{"default"}
			v.Waits = []timeline.Wait{{Kind: timeline.ForPermit, Name: "quota", From: ready, To: now() + 1}}
		})
		fmt.Fprintf(j.Log, "%s: %s...\n", o.address(), o.action)
		select {
		case <-e.steps:
		case <-ctx.Done():
			return nil, work.ErrStopped
		case <-j.Stopping.Done():
			return nil, work.ErrStopped
		}
		recorder.Update(i, func(v *timeline.Vertex) {
			v.Status, v.Ended, v.Took = timeline.Done, now()+2, now()+1-v.Started
			if o.fails != "" {
				v.Status, v.Failure = timeline.Failed, o.fails
			}
		})
		failed = failed || o.fails != ""
		fmt.Fprintf(j.Log, "%s: done\n", o.address())
	}
	outcome := "done"
	if failed {
		outcome = "failed"
	}
	recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) { h.Ended, h.Outcome = now(), outcome })
	if err := j.State.Write(ctx, e.state()); err != nil {
		return nil, err
	}
	if failed {
		return nil, fmt.Errorf("an operation has failed: %w", work.ErrReported)
	}
	return &work.ApplyResult{Add: len(objects)}, nil
}

// state is the state behind an apply.
func (e *estate) state() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serial++
	var resources []any
	for i := range e.objects {
		o := &e.objects[i]
		if o.action == "delete" {
			continue
		}
		attributes := map[string]any{"id": fmt.Sprint("id-", i), "revision": e.serial * (i % 2)}
		for k, v := range o.attributes {
			attributes[k] = v
		}
		if o.secret != "" {
			attributes["password"] = o.secret
		}
		resources = append(resources, map[string]any{"mode": "managed", "type": o.typ, "name": o.name, "module": o.module,
			"instances": []any{map[string]any{"attributes": attributes}}})
	}
	text, err := json.Marshal(map[string]any{"version": 4, "terraform_version": "1.12.6", "serial": e.serial,
		"lineage": "l", "resources": resources, "outputs": map[string]any{
			"address": map[string]any{"value": "10.1.2.3", "type": "string"},
			"secret":  map[string]any{"value": "canary-of-output", "type": "string", "sensitive": true},
		}})
	if err != nil {
		panic(err)
	}
	return []byte(strings.ReplaceAll(string(text), `"module":"",`, ""))
}
