package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/drift"
	"github.com/millipede-iac/millipede/service/outline"
	"github.com/millipede-iac/millipede/service/record"
)

// statePage shows a version of a state.
type statePage struct {
	listing
	Version *record.StateVersion
	Current bool
	Who     string
	Outputs []outputRow
	// Drift has the results of watching the workspace; nil if it is not watched.
	Drift   *drift.Watched
	MayPlan bool // the person may create a plan
}

// outputRow is an output value.
type outputRow struct{ Name, Value string }

// lastChange describes the last change of an object.
type lastChange struct {
	Who, Run, RunAddress, VersionAddress string
	Serial                               uint64
	At                                   time.Time
	// First says that the object may have been the same before: earlier versions are unknown.
	First bool
}

// versionAsked returns the version in the query or the path, or else the current one, which may be nil.
func (c *call) versionAsked(v *service.Overview, id string) (*record.StateVersion, error) {
	if id == "" {
		id = v.CurrentState
	}
	if id == "" {
		return nil, nil //nolint:nilnil // there is no state yet
	}
	version, err := c.svc.States.Find(c.actor, id)
	if err == nil && version.Workspace != v.ID {
		err = errNotThere
	}
	return version, err
}

func (c *call) state() error {
	return c.showWorkspace("state", "State", func(v *service.Overview) (any, error) {
		version, err := c.versionAsked(v, c.r.URL.Query().Get("version"))
		if err != nil || version == nil {
			return statePage{}, err
		}
		p := statePage{Version: version, Current: version.ID == v.CurrentState,
			Who: c.svc.Users.NameOf(c.actor, version.CreatedBy)}
		for _, o := range version.Outputs {
			r := outputRow{o.Name, short(2000, string(o.Value))}
			if o.Sensitive {
				r.Value = "(sensitive value)"
			}
			p.Outputs = append(p.Outputs, r)
		}
		if v.Permissions.State < record.Read {
			return p, nil
		}
		o, _, err := c.svc.States.Outline(c.actor, version.ID)
		if err != nil {
			return nil, err
		}
		objects := o.Objects
		if p.Current && v.DriftPeriod > 0 {
			if p.Drift, err = c.svc.Drift.Watched(c.actor, v.ID); err != nil {
				return nil, err
			}
			p.MayPlan, objects = v.Permissions.Runs >= record.Plan, marked(objects, p.Drift)
		}
		p.listing = c.list(objects, at("app", v.Organization, v.Name, "state", version.ID), "objects")
		for i := range p.Items {
			if p.Items[i].Action == "drift" {
				p.Items[i].Reason = c.driftText(p.Drift.Drift(p.Items[i].Object.Address))
			}
		}
		return p, nil
	})
}

// marked returns the objects with the drifted ones marked.
func marked(all []outline.Object, known *drift.Watched) []outline.Object {
	if len(known.Drifted) == 0 {
		return all
	}
	out := slices.Clone(all)
	for i := range out {
		if d := known.Drift(out[i].Address); d != nil && d.Sum == out[i].Sum {
			out[i].Action = "drift"
		}
	}
	return out
}

// driftText describes the drift of an object.
func (c *call) driftText(d *record.Drift) string {
	text := "no longer exists"
	if !d.Gone {
		text = "differs from the state"
		if len(d.Attributes) > 0 {
			text = "differs from the state: " + strings.Join(d.Attributes, ", ")
		}
	}
	return text + "; found " + since(c.o.Now().Sub(d.Since))
}

// actOnState creates a refresh-only plan.
func (c *call) actOnState() error {
	w, err := c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("ws"))
	if err != nil {
		return err
	}
	if c.r.PostForm.Get("action") != "refresh" {
		return &failure{http.StatusBadRequest, "The form has no valid action for a state."}
	}
	r, err := c.svc.Drift.TakeOver(c.actor, w.ID)
	if err != nil {
		return err
	}
	return c.back(at("app", w.Organization, w.Name, "runs", r.ID),
		"The plan was created. Applying it changes only the state.")
}

// object shows one object of a state version.
func (c *call) object() error {
	w, err := c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("ws"))
	if err != nil {
		return err
	}
	o, version, err := c.svc.States.Outline(c.actor, c.arg("version"))
	if err != nil {
		return err
	}
	i, err := strconv.Atoi(c.arg("index"))
	if err != nil || i < 0 || i >= len(o.Objects) || version.Workspace != w.ID {
		return errNotThere
	}
	object := &o.Objects[i]
	attributes, known, err := c.svc.States.Object(c.actor, version.ID, object)
	if err != nil {
		return err
	}
	p := objectPage{Address: object.Address, Body: stated(attributes, attributes), Known: known}
	if p.Last, err = c.lastChangeOf(w, o, object); err != nil {
		return err
	}
	space := at("app", w.Organization, w.Name)
	return c.render(http.StatusOK, "object", page{
		Title: object.Address, Section: "overview",
		Crumbs: []crumb{{w.Organization, at("app", w.Organization)}, {w.Name, space},
			{"State " + strconv.FormatUint(version.Serial, 10), space + "/state?version=" + version.ID}},
	}, p)
}

func (c *call) lastChangeOf(w *service.WorkspaceView, of *outline.State, o *outline.Object) (*lastChange, error) {
	last, err := c.svc.States.LastChangeOf(c.actor, of, o)
	if err != nil || last == nil {
		return nil, err
	}
	space := at("app", w.Organization, w.Name)
	out := &lastChange{Who: last.Who, First: last.First, Serial: last.Version.Serial, At: last.Version.CreatedAt,
		VersionAddress: space + "/state?version=" + last.Version.ID}
	if last.Run != nil {
		out.Run, out.RunAddress = title(last.Run), space+"/runs/"+last.Run.ID
	}
	return out, nil
}

// versionRow is a version in the list.
type versionRow struct {
	*record.StateVersion
	Who, RunAddress string
	Current         bool
	Before          string // the ID of the version before
}

// versionsPage shows the versions of a state.
type versionsPage struct {
	Rows    []versionRow
	Pager   pager
	MayRead bool
	// MayWrite says that the person may restore a version.
	MayWrite bool
}

func (c *call) versions() error {
	return c.showWorkspace("versions", "State versions", func(v *service.Overview) (any, error) {
		all, err := c.svc.States.List(c.actor, v.ID)
		if err != nil {
			return nil, err
		}
		p := versionsPage{MayWrite: v.Permissions.State >= record.Write, MayRead: v.Permissions.State >= record.Read}
		number := map[string]int{}
		for i, version := range all {
			number[version.ID] = i
		}
		some, pager := paged(c, all, 50)
		p.Pager = pager
		for _, version := range some {
			r := versionRow{StateVersion: version, Who: c.svc.Users.NameOf(c.actor, version.CreatedBy),
				Current: version.ID == v.CurrentState}
			if version.Run != "" {
				r.RunAddress = at("app", v.Organization, v.Name, "runs", version.Run)
			}
			if i := number[version.ID]; i+1 < len(all) {
				r.Before = all[i+1].ID
			}
			p.Rows = append(p.Rows, r)
		}
		return p, nil
	})
}

// restore makes the content of an earlier version current.
func (c *call) restore() error {
	w, err := c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("ws"))
	if err != nil {
		return err
	}
	v, err := c.svc.States.Find(c.actor, c.r.PostForm.Get("version"))
	if err != nil {
		return err
	}
	if v.Workspace != w.ID {
		return errNotThere
	}
	restored, err := c.svc.States.Restore(c.actor, v.ID)
	if err != nil {
		return err
	}
	return c.back(at("app", w.Organization, w.Name, "versions"), "The content of serial "+
		strconv.FormatUint(v.Serial, 10)+" is current again, with serial "+strconv.FormatUint(restored.Serial, 10)+".")
}

// comparisonPage shows the differences between two versions.
type comparisonPage struct {
	listing
	From, To *record.StateVersion
}

// comparison returns the versions in the query, and the objects that differ.
func (c *call) comparison(v *service.WorkspaceView) (p comparisonPage, changes []service.StateChange, err error) {
	q := c.r.URL.Query()
	for id, to := range map[string]**record.StateVersion{q.Get("from"): &p.From, q.Get("to"): &p.To} {
		if *to, err = c.svc.States.Find(c.actor, id); err != nil {
			return p, nil, err
		}
		if (*to).Workspace != v.ID {
			return p, nil, errNotThere
		}
	}
	if p.From == nil || p.To == nil { // the same version twice
		return p, nil, &failure{http.StatusUnprocessableEntity, "Choose two different versions to compare."}
	}
	changes, err = c.svc.States.Difference(c.actor, p.From.ID, p.To.ID)
	return p, changes, err
}

func (c *call) difference() error {
	return c.showWorkspace("difference", "Difference of two states", func(v *service.Overview) (any, error) {
		p, changes, err := c.comparison(v.WorkspaceView)
		if err != nil {
			return nil, err
		}
		all := make([]outline.Object, len(changes))
		for i, change := range changes {
			o := change.After
			action := "update"
			switch {
			case change.Before == nil:
				action = "create"
			case change.After == nil:
				o, action = change.Before, "delete"
			}
			all[i] = outline.Object{Address: change.Address, Module: o.Module, Type: o.Type, Action: action}
		}
		base := at("app", v.Organization, v.Name, "difference")
		p.listing = c.list(all, base, "objects")
		p.Past = true
		for i := range p.Items {
			p.Items[i].Address += "?" + url.Values{"from": {p.From.ID}, "to": {p.To.ID}}.Encode()
		}
		return p, nil
	})
}

// differenceOf shows the differences of one object.
func (c *call) differenceOf() error {
	w, err := c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("ws"))
	if err != nil {
		return err
	}
	p, changes, err := c.comparison(w)
	if err != nil {
		return err
	}
	i, err := strconv.Atoi(c.arg("index"))
	if err != nil || i < 0 || i >= len(changes) {
		return errNotThere
	}
	change := changes[i]
	sides := [2]map[string]any{}
	known := true
	for side, at := range []struct {
		version *record.StateVersion
		object  *outline.Object
	}{{p.From, change.Before}, {p.To, change.After}} {
		if at.object == nil {
			continue
		}
		var ok bool
		if sides[side], ok, err = c.svc.States.Object(c.actor, at.version.ID, at.object); err != nil {
			return err
		}
		known = known && ok
	}
	space := at("app", w.Organization, w.Name)
	return c.render(http.StatusOK, "object", page{
		Title: change.Address, Section: "overview",
		Crumbs: []crumb{{w.Organization, at("app", w.Organization)}, {w.Name, space},
			{"Versions", space + "/versions"}},
	}, objectPage{Address: change.Address, Body: stated(sides[0], sides[1]), Known: known})
}
