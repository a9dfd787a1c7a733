package web

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// perPage is the number of rows of a list.
const perPage = 100

// pager has the links between the pages of a list.
type pager struct {
	Number, Last, Total int
	Previous, Next      string // addresses; empty at the ends
}

// paged returns the requested page of a list.
func paged[T any](c *call, all []T, size int) ([]T, pager) {
	number, err := strconv.Atoi(c.r.URL.Query().Get("page"))
	last := max(1, (len(all)+size-1)/size)
	if err != nil || number < 1 {
		number = 1
	}
	number = min(number, last)
	return service.Cut(all, service.Page{Number: number, Size: size}), c.pager(number, last, len(all))
}

func (c *call) pager(number, last, total int) pager {
	p := pager{Number: number, Last: last, Total: total}
	to := func(n int) string {
		if n < 1 || n > last {
			return ""
		}
		q := c.r.URL.Query()
		q.Set("page", strconv.Itoa(n))
		return (&url.URL{Path: c.r.URL.Path, RawQuery: q.Encode()}).String()
	}
	p.Previous, p.Next = to(number-1), to(number+1)
	return p
}

// overviewPage shows the workspaces of an organization.
type overviewPage struct {
	Organization              string
	Needy                     []*service.Overview // the workspaces that need a person
	More                      int                 // how many of them are not listed
	Rows                      []*service.Overview
	Pager                     pager
	Search, Show, Sort        string
	Total, UnderWay, Attended int
	Halt                      *record.Halt // of the whole service; nil if runs can start
	Pools                     []poolRow    // the drained pools, without their workers
	Admin                     bool         // may change these
	Away                      []service.Region
}

// shows are the filters of the overview.
var shows = map[string]func(*service.Overview) bool{
	"needs":   func(v *service.Overview) bool { return needs(v.Attention) != "" },
	"running": func(v *service.Overview) bool { return v.Run != nil && !v.Run.Status.Final() },
	"failed":  func(v *service.Overview) bool { return v.Run != nil && v.Run.Status == record.Errored },
	"locked":  func(v *service.Overview) bool { return v.Lock.Held() },
	"drifted": func(v *service.Overview) bool { return v.Drifted > 0 },
}

// sorts are the orders of the overview; the default order begins with the workspaces that need a person.
var sorts = map[string]func(x, y *service.Overview) int{
	"name": func(x, y *service.Overview) int { return strings.Compare(x.Name, y.Name) },
	"run": func(x, y *service.Overview) int {
		at := func(v *service.Overview) int64 {
			if v.Run == nil {
				return 0
			}
			return v.Run.CreatedAt.UnixNano()
		}
		return cmp.Compare(at(y), at(x))
	},
	"changed": func(x, y *service.Overview) int { return y.UpdatedAt.Compare(x.UpdatedAt) },
}

// most is how many workspaces that need a person are listed above the table.
const most = 20

// haltsOn adds what is halted in the whole service.
func (c *call) haltsOn(o *overviewPage) (err error) {
	if c.actor.User != nil {
		o.Admin = c.actor.User.Admin
	}
	if o.Halt, err = c.svc.Halts.Find(c.actor, ""); err != nil {
		return err
	}
	drains, err := c.svc.Pools.Drained(c.actor)
	for _, name := range slices.Sorted(maps.Keys(drains)) {
		o.Pools = append(o.Pools, poolRow{Name: name, Halt: drains[name]})
	}
	if err != nil || c.actor.User == nil {
		return err
	}
	regions, err := c.svc.Pools.Regions(c.r.Context(), c.actor)
	for _, r := range regions {
		if !r.Away.IsZero() {
			o.Away = append(o.Away, r)
		}
	}
	return err
}

func (c *call) overview() error {
	cursor := c.svc.Stream().Now()
	q := c.r.URL.Query()
	o := overviewPage{Organization: c.arg("org"), Search: q.Get("q"), Show: q.Get("show"), Sort: q.Get("sort")}
	all, err := c.svc.Workspaces.Overviews(c.actor, o.Organization, service.WorkspaceFilter{Part: o.Search})
	if err != nil {
		return err
	}
	if err := c.haltsOn(&o); err != nil {
		return err
	}
	o.Total = len(all)
	for _, v := range all {
		if v.Run != nil && !v.Run.Status.Final() {
			o.UnderWay++
		}
		if needs(v.Attention) == "" {
			continue
		}
		o.Attended++
		if len(o.Needy) < most {
			o.Needy = append(o.Needy, v)
		} else {
			o.More++
		}
	}
	if wanted := shows[o.Show]; wanted != nil {
		all = slices.DeleteFunc(all, func(v *service.Overview) bool { return !wanted(v) })
	}
	if order := sorts[o.Sort]; order != nil {
		slices.SortStableFunc(all, order)
	}
	o.Rows, o.Pager = paged(c, all, perPage)
	return c.render(http.StatusOK, "overview", page{
		Title: o.Organization, Section: "overview", Crumbs: []crumb{{o.Organization, at("app", o.Organization)}},
		Events: at("app", "settings", "events", o.Organization) + "?cursor=" + cursor.String(),
	}, o)
}
