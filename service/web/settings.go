package web

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/retention"
	"github.com/millipede-iac/millipede/service/variables"
)

// variablesPage shows the variables of a workspace.
type variablesPage struct {
	Rows     []*record.Variable
	Sets     []setRows
	MayWrite bool
}

// setRows are the variables of one set.
type setRows struct {
	Name string
	Rows []*record.Variable
}

func (c *call) variables() error {
	return c.showWorkspace("variables", "Variables", func(v *service.Overview) (any, error) {
		p := variablesPage{MayWrite: v.Permissions.Variables >= record.Write}
		var err error
		if p.Rows, err = c.svc.Variables.List(c.actor, v.ID); err != nil {
			return nil, err
		}
		sets, err := c.svc.VariableSets.List(c.actor, "", v.ID)
		if err != nil {
			return nil, err
		}
		for _, set := range sets {
			rows, err := c.svc.Variables.List(c.actor, set.ID)
			if err != nil {
				return nil, err
			}
			p.Sets = append(p.Sets, setRows{set.Name, rows})
		}
		return p, nil
	})
}

// changeVariables creates, changes or removes a variable.
func (c *call) changeVariables() error {
	w, err := c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("ws"))
	if err != nil {
		return err
	}
	f := c.r.PostForm
	id, key := f.Get("id"), strings.TrimSpace(f.Get("key"))
	var done string
	switch f.Get("action") {
	case "delete":
		err, done = c.svc.Variables.Delete(c.actor, w.ID, id), "The variable was removed."
	case "put":
		value, category, description := f.Get("value"), f.Get("category"), f.Get("description")
		hcl, sensitive := f.Get("hcl") != "", f.Get("sensitive") != ""
		o := variables.Settings{Value: &value, HCL: &hcl}
		if id == "" {
			o.Key, o.Category, o.Description, o.Sensitive = &key, &category, &description, &sensitive
		}
		_, err = c.svc.Variables.Put(c.actor, w.ID, id, o)
		done = "The variable was saved. Later runs will use it."
	default:
		return &failure{http.StatusBadRequest, "The form has no valid action for variables."}
	}
	if err != nil {
		return err
	}
	return c.back(at("app", w.Organization, w.Name, "variables"), done)
}

// settingsPage shows the settings of a workspace, and its lock.
type settingsPage struct {
	MayChange, MayLock, Mine bool
	Hours                    int
	Period                   string // the drift period; 0 for never
	// Retention is the retention in force, Age its minimum age as text; Default is that of the service.
	Retention, Default record.Retention
	Age, DefaultAge    string
	// Bounds are the workspace's own bounds on its plans, PlanTime its time as text; Most are those of the service.
	Bounds, Most       record.Bounds
	PlanTime, MostTime string
	Receivers          []receiver
}

// receiver is a notification configuration with what has become of its notifications.
type receiver struct {
	*record.Notification
	// To is the host of the address. The rest of it is often a secret.
	To      string
	Waiting int              // notifications that were not sent yet
	Next    *record.Delivery // the first one of them; nil for none
}

func (c *call) receivers(workspace string) (out []receiver, err error) {
	all, err := c.svc.Notifications.List(c.actor, workspace)
	for _, n := range all {
		r := receiver{Notification: n}
		if u, err := url.Parse(n.URL); err == nil {
			r.To = u.Host
		}
		waiting, err := c.svc.Notifications.Undelivered(c.actor, n.ID)
		if err != nil {
			return nil, err
		}
		if r.Waiting = len(waiting); r.Waiting > 0 {
			r.Next = waiting[0]
		}
		out = append(out, r)
	}
	return out, err
}

func (c *call) settings() error {
	return c.showWorkspace("settings", "Settings", func(v *service.Overview) (any, error) {
		keep, standard := c.svc.Retention.Default(), c.svc.Retention.Default()
		if v.Retention != nil {
			keep = *v.Retention
		}
		receivers, err := c.receivers(v.ID)
		own, most, failed := c.svc.Workspaces.Bounds(c.actor, v.ID)
		err = errors.Join(err, failed)
		return settingsPage{Bounds: own, Most: most, PlanTime: service.PeriodText(own.PlanTime),
			MostTime: service.PeriodText(most.PlanTime), Receivers: receivers, Retention: keep,
			Age: service.PeriodText(keep.For), Default: standard,
			DefaultAge: service.PeriodText(standard.For), MayChange: v.Permissions.Admin, MayLock: v.Permissions.Lock,
			Mine: v.Lock.Kind == "user" && v.Lock.ID == c.actor.ID(), Hours: int(v.ApprovalExpiry / time.Hour),
			Period: service.PeriodText(v.DriftPeriod)}, err
	})
}

// retentionFrom reads the retention of a form; nil for that of the service.
func retentionFrom(f url.Values) (*record.Retention, error) {
	if f.Get("retention") != "own" {
		return nil, nil //nolint:nilnil // see the comment of the function
	}
	age, err := retention.ParseAge(f.Get("keep-for"))
	if err != nil {
		return nil, err
	}
	r := &record.Retention{For: age}
	for name, to := range map[string]*int{"keep-runs": &r.Runs, "keep-states": &r.States} {
		text := strings.TrimSpace(f.Get(name))
		if text == "" {
			continue
		}
		if *to, err = strconv.Atoi(text); err != nil {
			return nil, &failure{http.StatusUnprocessableEntity, "What is kept must be a number; 0 keeps everything."}
		}
	}
	return r, nil
}

// boundsFrom reads the bounds on plans of a form.
func boundsFrom(f url.Values) (b record.Bounds, err error) {
	if b.PlanTime, err = service.ParsePlanTime(f.Get("plan-time")); err != nil {
		return b, err
	}
	for name, to := range map[string]*int64{"plan-memory": &b.PlanMemory, "plan-size": &b.PlanSize} {
		text := strings.TrimSpace(f.Get(name))
		if text == "" {
			continue
		}
		if *to, err = strconv.ParseInt(text, 10, 32); err != nil {
			return b, &failure{http.StatusUnprocessableEntity, "A bound must be a number of MiB; 0 is that of the service."}
		}
	}
	return b, nil
}

func (c *call) changeSettings() error {
	w, err := c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("ws"))
	if err != nil {
		return err
	}
	f := c.r.PostForm
	done := ""
	switch f.Get("action") {
	case "lock":
		_, err = c.svc.Workspaces.Lock(c.actor, w.ID, strings.TrimSpace(f.Get("reason")))
		done = "You have locked the workspace. No run starts until you unlock it."
	case "unlock":
		_, err = c.svc.Workspaces.Unlock(c.actor, w.ID)
		done = "You have unlocked the workspace."
	case "force-unlock":
		_, err = c.svc.Workspaces.ForceUnlock(c.actor, w.ID)
		done = "You have removed the lock."
	case "drain", "stop":
		err = c.svc.Halts.Halt(c.actor, w.ID, record.Halt{Reason: f.Get("why"), Emergency: f.Get("action") == "stop"})
		done = "No run starts until you allow it again."
	case "lift":
		err = c.svc.Halts.Lift(c.actor, w.ID)
		done = "Runs can start again."
	case "bound":
		b, failed := boundsFrom(f)
		if err = failed; err != nil {
			break
		}
		err = c.svc.Workspaces.Bound(c.actor, w.ID, b)
		done = "The bounds were saved."
	case "save":
		description, mode, dir := f.Get("description"), f.Get("mode"), f.Get("directory")
		auto, destroy, global := f.Get("auto") != "", f.Get("destroy") != "", f.Get("global") != ""
		objects, refresh := f.Get("objects") != "", f.Get("refresh")
		period, failed := service.ParsePeriod(f.Get("period"))
		if err = failed; err != nil {
			break
		}
		keep, failed := retentionFrom(f)
		if err = failed; err != nil {
			break
		}
		_, err = c.svc.Workspaces.Change(c.actor, w.ID, service.WorkspaceSettings{Description: &description,
			ExecutionMode: &mode, WorkingDirectory: &dir, AutoApply: &auto, AllowDestroy: &destroy,
			GlobalState: &global, ObjectLocks: &objects, Refresh: &refresh, DriftPeriod: &period, Retention: &keep})
		done = "The settings were saved."
	default:
		return &failure{http.StatusBadRequest, "The form has no valid action for a workspace."}
	}
	if err != nil {
		return err
	}
	return c.back(at("app", w.Organization, w.Name, "settings"), done)
}
