package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/work"
)

// doubts lists the operations in doubt.
func (c *call) doubts() error {
	all, err := c.svc.Organizations.List(c.actor)
	if err != nil {
		return err
	}
	var out []service.WorkspaceDoubts
	for _, o := range all {
		some, err := c.svc.Doubts.OfOrganization(c.actor, o.Name)
		if err != nil {
			return err
		}
		out = append(out, some...)
	}
	return c.render(http.StatusOK, "doubts", page{Title: "Doubts", Section: "doubts"}, out)
}

// doubtsLeftBy returns the operations in doubt that a run has left; nil if there are none.
func (c *call) doubtsLeftBy(v *service.RunView) (*service.WorkspaceDoubts, error) {
	d, err := c.svc.Doubts.OfWorkspace(c.actor, v.Workspace)
	if err != nil || d.By == nil || d.By.ID != v.ID {
		return nil, err
	}
	return &d, nil
}

// maxResolved is the maximum number of operations whose outcomes one form states.
const maxResolved = 1000

// resolve records the outcomes of operations in doubt, as the person states them: of operation I, the fields address-I,
// outcome-I and id-I. An operation without an outcome stays in doubt.
func (c *call) resolve() error {
	f := c.r.PostForm
	var all []work.Resolution
	for i := range maxResolved {
		n := strconv.Itoa(i)
		if !f.Has("address-" + n) {
			break
		}
		r := work.Resolution{Address: f.Get("address-" + n), ID: strings.TrimSpace(f.Get("id-" + n))}
		switch outcome := f.Get("outcome-" + n); {
		case outcome == "" && r.ID == "":
			continue
		case outcome == "created" && r.ID == "":
			return &failure{http.StatusUnprocessableEntity, r.Address + ": the ID of the object is missing."}
		case outcome == "not-created" && r.ID != "", outcome == "":
			return &failure{http.StatusUnprocessableEntity, r.Address + ": say either that the object exists, with its ID, " +
				"or that it does not."}
		case outcome != "created" && outcome != "not-created":
			return &failure{http.StatusBadRequest, "The form has no valid outcome for " + r.Address + "."}
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return &failure{http.StatusUnprocessableEntity, "State the outcome of at least one operation."}
	}
	if err := c.svc.Doubts.Resolve(c.r.Context(), c.actor, f.Get("workspace"), all...); err != nil {
		return err
	}
	done := all[0].Address + " is resolved."
	if len(all) > 1 {
		done = fmt.Sprintf("%d operations are resolved.", len(all))
	}
	return c.back("/app/settings/doubts", done)
}
