package web

import (
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// workspacePage is the common part of all pages of a workspace.
type workspacePage struct {
	*service.Overview
	Address string
	Tab     string
	Tabs    []tab
	Waits   service.Wait // why the current run waits; the zero value if it does not, or there is none
	Rest    any
}

// tab is one of the pages of a workspace.
type tab struct{ ID, Name, Address string }

// showWorkspace sends a page of a workspace.
func (c *call) showWorkspace(name, heading string, rest func(*service.Overview) (any, error)) error {
	cursor := c.svc.Stream().Now()
	w, err := c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("ws"))
	if err != nil {
		return err
	}
	v, err := c.svc.Workspaces.OverviewOf(c.actor, w.ID)
	if err != nil {
		return err
	}
	p := workspacePage{Overview: v, Address: at("app", w.Organization, w.Name), Tab: name}
	for _, t := range tabs {
		if t.may == nil || t.may(v.Permissions) {
			address := p.Address
			if t.id != "runs" {
				address += "/" + t.id
			}
			p.Tabs = append(p.Tabs, tab{t.id, t.name, address})
		}
	}
	if v.Run != nil && !v.Run.Status.Final() {
		if p.Waits, err = c.svc.Runs.Waits(c.r.Context(), c.actor, v.Run.ID); err != nil {
			return err
		}
	}
	if p.Rest, err = rest(v); err != nil {
		return err
	}
	return c.render(http.StatusOK, name, page{
		Title: heading + " of " + w.Name, Section: "overview",
		Crumbs: []crumb{{w.Organization, at("app", w.Organization)}, {w.Name, p.Address}},
		Events: p.Address + "/events?cursor=" + cursor.String(),
	}, p)
}

// tabs are the pages of a workspace, with the right to see each. The service checks the rights; a tab is hidden
// if its page would only refuse access.
var tabs = []struct {
	id, name string
	may      func(record.Permissions) bool
}{
	{"runs", "Runs", nil},
	{"state", "State", func(p record.Permissions) bool { return p.Outputs }},
	{"versions", "State versions", func(p record.Permissions) bool { return p.Outputs }},
	{"variables", "Variables", func(p record.Permissions) bool { return p.Variables >= record.Read }},
	{"settings", "Settings", nil},
}

// runRow is a run in a list.
type runRow struct {
	*service.RunView
	Who string
}

// runsPage shows the runs of a workspace.
type runsPage struct {
	Rows  []runRow
	Pager pager
	Now   time.Time
}

// maxRuns is how many runs of a workspace are listed.
const maxRuns = 1000

func (c *call) workspace() error {
	return c.showWorkspace("runs", "Runs", func(v *service.Overview) (any, error) {
		if v.Permissions.Runs < record.Read {
			return runsPage{}, nil
		}
		all, err := c.svc.Runs.List(c.actor, v.ID, maxRuns)
		if err != nil {
			return nil, err
		}
		p := runsPage{Now: c.o.Now()}
		some, pager := paged(c, all, 50)
		p.Pager = pager
		names := map[string]string{}
		for _, r := range some {
			if names[r.CreatedBy] == "" {
				names[r.CreatedBy] = c.svc.Users.NameOf(c.actor, r.CreatedBy)
			}
			p.Rows = append(p.Rows, runRow{r, names[r.CreatedBy]})
		}
		return p, nil
	})
}
