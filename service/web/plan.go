package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/outline"
	"github.com/millipede-iac/millipede/service/tables"
)

// Sizes of lists of objects: above the first one, modules are shown before objects.
const (
	groupsFrom = 200
	perList    = 100
	maxGroups  = 200
	// openUpTo is the maximum number of changes whose attributes are shown at once.
	openUpTo = 8
)

// actionOrder is the order in which actions are listed: the ones that cannot be undone first.
var actionOrder = []string{"drift", "delete", "replace", "create", "update", "forget", "move", "import", "read"}

// actionWords are the mark of each action, and its verb in a plan.
var actionWords = map[string][2]string{
	"create": {"+", "create"}, "update": {"~", "change"}, "delete": {"\u2212", "destroy"},
	"replace": {"\u00b1", "replace"}, "read": {"\u2190", "read"}, "forget": {"\u00b7", "forget"},
	"move": {"\u2192", "move"}, "import": {"\u21d3", "import"}, "drift": {"\u2260", "drifted"},
}

// reasons are the explanations of planned actions for people.
var reasons = map[string]string{
	"replace_because_tainted":           "it is tainted",
	"replace_because_cannot_update":     "it cannot be changed in place",
	"replace_by_request":                "it was requested",
	"replace_by_triggers":               "replace_triggered_by says so",
	"delete_because_no_resource_config": "the configuration has no such resource",
	"delete_because_wrong_repetition":   "the configuration uses count or for_each in another way",
	"delete_because_count_index":        "its index is not in the range of count",
	"delete_because_each_key":           "its key is not in for_each",
	"delete_because_no_module":          "the configuration has no such module",
	"delete_because_no_move_target":     "it was moved to a resource that is not in the configuration",
	"read_because_config_unknown":       "parts of its configuration are not known yet",
	"read_because_dependency_pending":   "one of its dependencies changes",
	"read_because_check_nested":         "a check reads it again",
}

// group has the objects of one module.
type group struct {
	Module, Address string
	Counts          []actionCount
	Total           int
}

// actionCount is the number of objects with an action.
type actionCount struct {
	Action, Address string
	N               int
	Chosen          bool
}

// item is an object in a list.
type item struct {
	Index   int
	Address string // of the page of the object
	*outline.Object
	Reason string
	// Body is the change of the object; nil if it is fetched when the item is opened.
	Body any
}

// listing is a list of objects, which may be too long to be shown as a whole.
type listing struct {
	Groups             []group
	MoreGroups         int
	Items              []item
	Pager              pager
	Counts             []actionCount
	Total, Chosen      int
	Search, Module     string
	Action, Everything string
	InModule           bool
	Anchor             string
	Past               bool // the actions are not planned: they have been carried out
}

// list selects objects by the action, the part of an address and the module in the query. If many are left, it
// shows modules first.
func (c *call) list(all []outline.Object, base, anchor string) listing {
	q := c.r.URL.Query()
	l := listing{Total: len(all), Search: q.Get("q"), Module: q.Get("module"), InModule: q.Has("module"),
		Action: q.Get("action"), Anchor: anchor}
	with := func(key, value string) string {
		q := c.r.URL.Query()
		q.Del("page")
		if q.Del(key); value != "" || key == "module" {
			q.Set(key, value)
		}
		return "?" + q.Encode() + "#" + anchor
	}
	without := c.r.URL.Query()
	for _, key := range []string{"q", "module", "action", "page", "list"} {
		without.Del(key)
	}
	l.Everything = "?" + without.Encode() + "#" + anchor
	counts := map[string]int{}
	groups := map[string]map[string]int{}
	var chosen []int
	for i := range all {
		o := &all[i]
		if l.Search != "" && !strings.Contains(o.Address, l.Search) || l.InModule && o.Module != l.Module {
			continue
		}
		counts[o.Action]++
		if l.Action != "" && o.Action != l.Action {
			continue
		}
		chosen = append(chosen, i)
		if groups[o.Module] == nil {
			groups[o.Module] = map[string]int{}
		}
		groups[o.Module][o.Action]++
	}
	l.Chosen = len(chosen)
	l.Counts = countsOf(counts, func(action string) string {
		if action == l.Action {
			return with("action", "")
		}
		return with("action", action)
	})
	for i := range l.Counts {
		l.Counts[i].Chosen = l.Counts[i].Action == l.Action
	}
	if len(chosen) > groupsFrom && len(groups) > 1 && !q.Has("list") {
		l.group(groups, with)
		return l
	}
	some, pager := paged(c, chosen, perList)
	l.Pager = pager
	for _, i := range some {
		o := &all[i]
		l.Items = append(l.Items, item{Index: i, Object: o, Reason: reasons[o.Reason],
			Address: base + "/" + strconv.Itoa(i)})
	}
	return l
}

func countsOf(counts map[string]int, address func(action string) string) []actionCount {
	var out []actionCount
	for _, action := range actionOrder {
		if counts[action] > 0 {
			out = append(out, actionCount{Action: action, Address: address(action), N: counts[action]})
		}
	}
	return out
}

// group lists modules, the ones with the most destructions first.
func (l *listing) group(groups map[string]map[string]int, with func(key, value string) string) {
	for _, module := range sortedKeys(groups) {
		g := group{Module: module, Address: with("module", module), Counts: countsOf(groups[module],
			func(string) string { return "" })}
		for _, n := range groups[module] {
			g.Total += n
		}
		l.Groups = append(l.Groups, g)
	}
	slices.SortStableFunc(l.Groups, func(x, y group) int {
		gone := func(g group) int { return groups[g.Module]["delete"] + groups[g.Module]["replace"] }
		if d := gone(y) - gone(x); d != 0 {
			return d
		}
		return y.Total - x.Total
	})
	if len(l.Groups) > maxGroups {
		l.Groups, l.MoreGroups = l.Groups[:maxGroups], len(l.Groups)-maxGroups
	}
}

// planPart is the part of a run's page about its plan.
type planPart struct {
	listing
	Same    int
	Drift   int
	Outputs *difference
}

// planOf makes that part.
func (c *call) planOf(v *service.RunView, address string) (*planPart, error) {
	o, err := c.svc.Plans.Outline(c.actor, v.ID)
	if err != nil {
		return nil, err
	}
	p := &planPart{listing: c.list(o.Changes, address+"/changes", "plan"), Same: o.Same, Drift: len(o.Drift)}
	if len(p.Items) <= openUpTo {
		for i := range p.Items {
			text, err := c.svc.Plans.Change(c.actor, v.ID, p.Items[i].Object)
			if err != nil {
				return nil, err
			}
			d, err := planned(text)
			if err != nil {
				return nil, err
			}
			p.Items[i].Body = d
		}
	}
	p.Outputs, err = outputsOf(o.Outputs)
	return p, err
}

// outputsOf compares the two sides of the changes of output values.
func outputsOf(text []byte) (*difference, error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	before, after := part{there: true}, part{there: true}
	sides, err := decodeOutputs(text)
	if err != nil {
		return nil, err
	}
	xs, ys, xSecret, ySecret, unknown := map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{},
		map[string]any{}
	for name, o := range sides {
		xs[name], ys[name], xSecret[name], ySecret[name] = o.Before, o.After, o.BeforeSecret, o.AfterSecret
		unknown[name] = o.Unknown
	}
	before.value, before.secret, after.value, after.secret, after.unknown = xs, xSecret, ys, ySecret, unknown
	d := differ(before, after, func(string) bool { return false })
	if len(d.Changed) == 0 {
		return nil, nil //nolint:nilnil // none changes
	}
	return &d, nil
}

// change shows a change of a plan by its index; changeOf, by the address of its object.
func (c *call) change() error {
	i, err := strconv.Atoi(c.arg("index"))
	if err != nil {
		return errNotThere
	}
	return c.showChange(func(*outline.Plan) int { return i })
}

func (c *call) changeOf() error {
	address := c.r.URL.Query().Get("address")
	return c.showChange(func(p *outline.Plan) int {
		return slices.IndexFunc(p.Changes, func(o outline.Object) bool { return o.Address == address })
	})
}

func (c *call) showChange(find func(*outline.Plan) int) error {
	v, err := c.runAsked()
	if err != nil {
		return err
	}
	o, err := c.svc.Plans.Outline(c.actor, v.ID)
	if errors.Is(err, tables.ErrNotFound) && c.arg("index") == "" {
		c.w.WriteHeader(http.StatusNoContent) // there is no plan yet
		return nil
	}
	if err != nil {
		return err
	}
	i := find(o)
	if i < 0 && c.arg("index") == "" {
		c.w.WriteHeader(http.StatusNoContent) // the object does not change
		return nil
	}
	if i < 0 || i >= len(o.Changes) {
		return errNotThere
	}
	text, err := c.svc.Plans.Change(c.actor, v.ID, &o.Changes[i])
	if err != nil {
		return err
	}
	d, err := planned(text)
	if err != nil {
		return err
	}
	run := at("app", v.Organization, v.On.Name, "runs", v.ID)
	return c.render(http.StatusOK, "object", page{
		Title: o.Changes[i].Address, Section: "overview",
		Crumbs: []crumb{{v.Organization, at("app", v.Organization)}, {v.On.Name, at("app", v.Organization, v.On.Name)},
			{"Run " + v.ID, run}},
	}, objectPage{Address: o.Changes[i].Address, Action: o.Changes[i].Action, Reason: reasons[o.Changes[i].Reason],
		Body: d, Known: true, Graph: run + "?" + url.Values{"vertex": {o.Changes[i].Address}}.Encode() + "#picture"})
}

// objectPage shows one object.
type objectPage struct {
	Address, Action, Reason string
	Body                    difference
	// Known says that the service knows which values are sensitive.
	Known bool
	Last  *lastChange
	Graph string
}
