package web

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is a path with its handler. Routes that are not open require a login.
type route struct {
	path      string
	get, post func(*call) error
	open      bool
}

// route404 is for other addresses. Below /app it asks for a login, so that it does not tell what exists.
var route404 = route{get: func(*call) error { return errNotThere }}

// routes are tried in this order. The addresses of runs are those that command lines print. After /app, a fixed word
// must be one that record.Reserved keeps from organizations. After an organization there is none, because a workspace
// may have any name.
var routes = []route{
	{path: "/", get: (*call).home},
	{path: "/app", get: (*call).home},
	{path: "/app/login", get: (*call).loginForm, post: (*call).login, open: true},
	{path: "/app/logout", post: (*call).logout},

	{path: "/app/settings/workers", get: (*call).workers, post: (*call).changeWorkers},
	{path: "/app/settings/doubts", get: (*call).doubts, post: (*call).resolve},
	{path: "/app/settings/tokens", get: (*call).tokens, post: (*call).changeTokens},
	{path: "/app/settings/users", get: (*call).users, post: (*call).changeUsers},
	{path: "/app/settings/audit", get: (*call).audit},
	{path: "/app/settings/events/{org}", get: (*call).overviewEvents},

	{path: "/app/{org}", get: (*call).overview},
	{path: "/app/{org}/{ws}", get: (*call).workspace},
	{path: "/app/{org}/{ws}/runs", get: (*call).workspace},
	{path: "/app/{org}/{ws}/events", get: (*call).workspaceEvents},
	{path: "/app/{org}/{ws}/runs/{run}", get: (*call).run, post: (*call).actOnRun},
	{path: "/app/{org}/{ws}/runs/{run}/events", get: (*call).runEvents},
	{path: "/app/{org}/{ws}/runs/{run}/changes", get: (*call).changeOf},
	{path: "/app/{org}/{ws}/runs/{run}/changes/{index}", get: (*call).change},
	{path: "/app/{org}/{ws}/state", get: (*call).state, post: (*call).actOnState},
	{path: "/app/{org}/{ws}/state/{version}/{index}", get: (*call).object},
	{path: "/app/{org}/{ws}/variables", get: (*call).variables, post: (*call).changeVariables},
	{path: "/app/{org}/{ws}/settings", get: (*call).settings, post: (*call).changeSettings},
	{path: "/app/{org}/{ws}/versions", get: (*call).versions, post: (*call).restore},
	{path: "/app/{org}/{ws}/difference", get: (*call).difference},
	{path: "/app/{org}/{ws}/difference/{index}", get: (*call).differenceOf},
	{path: "/app/{org}/{ws}/runs/{run}/log/{phase}", get: (*call).logPart},
	{path: "/app/{org}/{ws}/runs/{run}/timeline/{phase}", get: (*call).timeline},

	{path: "/app/{org}/workspaces/{ws}", get: (*call).elsewhere}, // after the pages of a workspace of that name
}

// match returns the route for a path.
func match(path string) (*route, map[string]string) {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
next:
	for i := range routes {
		r := &routes[i]
		pattern := strings.Split(strings.TrimSuffix(r.path, "/"), "/")
		if len(pattern) != len(parts) {
			continue
		}
		args := map[string]string{}
		for j, p := range pattern {
			name, variable := strings.CutPrefix(p, "{")
			switch {
			case variable && parts[j] != "":
				args[strings.TrimSuffix(name, "}")] = parts[j]
			case p != parts[j]:
				continue next
			}
		}
		return r, args
	}
	return nil, nil
}

// at makes a path from its parts.
func at(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// home redirects to the organization of the person; if there are several, it shows a list.
func (c *call) home() error {
	all, err := c.svc.Organizations.List(c.actor)
	if err != nil {
		return err
	}
	if len(all) == 1 {
		http.Redirect(c.w, c.r, at("app", all[0].Name), http.StatusSeeOther)
		return nil
	}
	return c.render(http.StatusOK, "organizations", page{Title: "Organizations"}, all)
}

// elsewhere redirects from a workspace's address in the form of the API.
func (c *call) elsewhere() error {
	http.Redirect(c.w, c.r, at("app", c.arg("org"), c.arg("ws")), http.StatusSeeOther)
	return nil
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
