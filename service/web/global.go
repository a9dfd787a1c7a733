package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// poolRow is a pool with its workers. Live is the number of those that are alive; Slots and Running are theirs.
type poolRow struct {
	Name                 string
	Live, Slots, Running int
	Workers              []service.Worker
	Halt                 *record.Halt    // nil if it is not drained
	Region               *service.Region // nil if its message store is that of all
}

// workersPage shows workers and limits.
type workersPage struct {
	Pools  []poolRow
	Limits []limitRow
	Halt   *record.Halt // of the whole service; nil if runs can start
	Admin  bool
	// Engines is nil for those who are no administrators.
	Engines *Engines
}

// limitRow is a limit with the runs that have its permits, and those that wait for some.
type limitRow struct {
	service.Limit
	Holders, Waiters permits
}

// permits are the permits of a limit that are held, or waited for, by run.
type permits struct {
	Shown   []service.Holder // runs that the person may see, at most maxHolders of them
	Further crowd            // the rest of these
	Unseen  crowd            // runs that the person may not see, and those of other programs
}

// crowd is a number of runs with their permits.
type crowd struct {
	Runs, Permits int
	Since         time.Time // of the first permit
}

func (c *crowd) add(h service.Holder) {
	if c.Runs == 0 || h.Since.Before(c.Since) {
		c.Since = h.Since
	}
	c.Runs, c.Permits = c.Runs+1, c.Permits+h.Permits
}

// maxHolders is how many runs are listed for a limit. A limit of a large estate has hundreds of permits.
const maxHolders = 25

func byRun(all []service.Permit) (p permits) {
	for _, h := range service.Holders(all) {
		switch {
		case h.Of == nil:
			p.Unseen.add(h)
		case len(p.Shown) == maxHolders:
			p.Further.add(h)
		default:
			p.Shown = append(p.Shown, h)
		}
	}
	return p
}

func (c *call) workers() error {
	workers, err := c.svc.Pools.Workers(c.r.Context(), c.actor)
	if err != nil {
		return err
	}
	p := workersPage{Admin: c.actor.User.Admin}
	for _, w := range workers {
		if n := len(p.Pools); n == 0 || p.Pools[n-1].Name != w.Pool {
			p.Pools = append(p.Pools, poolRow{Name: w.Pool})
		}
		pool := &p.Pools[len(p.Pools)-1]
		pool.Workers = append(pool.Workers, w)
		if !w.Silent {
			pool.Live, pool.Slots, pool.Running = pool.Live+1, pool.Slots+w.Slots, pool.Running+w.Running
		}
	}
	if c.o.Engines != nil && p.Admin {
		engines := c.o.Engines()
		p.Engines = &engines
	}
	drains, err := c.svc.Pools.Drained(c.actor)
	if err != nil {
		return err
	}
	for i := range p.Pools {
		p.Pools[i].Halt = drains[p.Pools[i].Name]
		delete(drains, p.Pools[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(drains)) { // drained pools without workers
		p.Pools = append(p.Pools, poolRow{Name: name, Halt: drains[name]})
	}
	if err := c.regionsOf(&p); err != nil {
		return err
	}
	if p.Halt, err = c.svc.Halts.Find(c.actor, ""); err != nil {
		return err
	}
	limits, err := c.svc.Pools.Limits(c.r.Context(), c.actor)
	if err != nil {
		return err
	}
	for _, l := range limits {
		p.Limits = append(p.Limits, limitRow{l, byRun(l.Held), byRun(l.Waiting)})
	}
	return c.render(http.StatusOK, "workers", page{Title: "Workers and limits", Section: "workers", Every: 3}, p)
}

// regionsOf adds the message stores of pools that have their own.
func (c *call) regionsOf(p *workersPage) error {
	regions, err := c.svc.Pools.Regions(c.r.Context(), c.actor)
	for _, r := range regions {
		at := slices.IndexFunc(p.Pools, func(row poolRow) bool { return row.Name == r.Pool })
		if at < 0 {
			at = len(p.Pools)
			p.Pools = append(p.Pools, poolRow{Name: r.Pool})
		}
		p.Pools[at].Region = &r
	}
	return err
}

// changeWorkers performs the action of a form: it changes a limit, or halts or continues the service or a pool.
func (c *call) changeWorkers() error {
	f := c.r.PostForm
	pool, why := f.Get("pool"), f.Get("why")
	var done string
	var err error
	switch f.Get("action") {
	case "":
		return c.resizeLimit()
	case "drain", "stop":
		err = c.svc.Halts.Halt(c.actor, "", record.Halt{Reason: why, Emergency: f.Get("action") == "stop"})
		done = "No run starts until you allow it again."
	case "lift":
		err, done = c.svc.Halts.Lift(c.actor, ""), "Runs can start again."
	case "drain-pool":
		err = c.svc.Pools.Drain(c.r.Context(), c.actor, pool, why)
		done = "No operation is dispatched to the pool " + pool + " until you allow it again."
	case "lift-pool":
		err, done = c.svc.Pools.Lift(c.r.Context(), c.actor, pool), "The pool "+pool+" gets operations again."
	default:
		return &failure{http.StatusBadRequest, "The form has no valid action for workers and limits."}
	}
	if err != nil {
		return err
	}
	return c.back("/app/settings/workers", done)
}

func (c *call) resizeLimit() error {
	slots, err := strconv.Atoi(strings.TrimSpace(c.r.PostForm.Get("slots")))
	if err != nil {
		return &failure{http.StatusUnprocessableEntity, "The number of permits must be a number."}
	}
	name := c.r.PostForm.Get("limit")
	if err := c.svc.Pools.ResizeLimit(c.r.Context(), c.actor, name, slots); err != nil {
		return err
	}
	return c.back("/app/settings/workers", fmt.Sprintf("The limit %s now has %d permits.", name, slots))
}

// tokensPage shows the tokens of the person.
type tokensPage struct {
	Rows []tokenRow
	// New is a token that was just created: it is shown only once.
	New string
	// Login says that a command line has sent the person here to create a token.
	Login bool
}

type tokenRow struct {
	*record.Token
	// Session says that the token is that of a browser; This, that it is the one of this browser.
	Session, This bool
}

func (c *call) tokens() error { return c.showTokens("") }

func (c *call) showTokens(made string) error {
	all, err := c.svc.Tokens.List(c.actor, record.TokenUser, c.actor.User.ID)
	if err != nil {
		return err
	}
	p := tokensPage{New: made, Login: c.r.URL.Query().Get("source") != ""}
	for _, t := range all {
		p.Rows = append(p.Rows, tokenRow{t, t.Description == "pages", t.ID == c.actor.Token.ID})
	}
	return c.render(http.StatusOK, "tokens", page{Title: "Your tokens", Section: "tokens"}, p)
}

// terms are the possible validities of a new token.
var terms = map[string]time.Duration{"30": 30 * 24 * time.Hour, "90": 90 * 24 * time.Hour, "365": 365 * 24 * time.Hour}

// changeTokens creates a token, which only this response shows, or revokes one.
func (c *call) changeTokens() error {
	f := c.r.PostForm
	if id := f.Get("revoke"); id != "" {
		if err := c.svc.Tokens.Delete(c.actor, id); err != nil {
			return err
		}
		return c.back("/app/settings/tokens", "The token was revoked.")
	}
	description := strings.TrimSpace(f.Get("description"))
	var expires time.Time
	if term, ok := terms[f.Get("term")]; ok {
		expires = c.o.Now().Add(term)
	}
	if description == "" || description == "pages" || len(description) > 200 {
		return &failure{http.StatusUnprocessableEntity, "Describe the purpose of the token in at most 200 characters."}
	}
	token, _, err := c.svc.Tokens.Create(c.actor, record.TokenUser, c.actor.User.ID, description, expires)
	if err != nil {
		return err
	}
	return c.showTokens(token)
}

// auditPage shows the audit log.
type auditPage struct {
	Rows   []record.Audit
	Search string
	Full   bool // there are further entries
}

// maxAudit is how many entries the page searches, and auditRows how many it shows.
const (
	maxAudit  = 20_000
	auditRows = 300
)

func (c *call) audit() error {
	search := strings.TrimSpace(c.r.URL.Query().Get("q"))
	limit := auditRows + 1
	if search != "" {
		limit = maxAudit
	}
	all, err := c.svc.Audit.Latest(c.actor, limit)
	if err != nil {
		return err
	}
	p := auditPage{Search: search}
	for _, line := range all {
		text := line.Actor + " " + line.Action + " " + line.Object + " " + line.Outcome + " " + line.From
		if search != "" && !strings.Contains(strings.ToLower(text), strings.ToLower(search)) {
			continue
		}
		if len(p.Rows) == auditRows {
			p.Full = true
			break
		}
		p.Rows = append(p.Rows, line)
	}
	return c.render(http.StatusOK, "audit", page{Title: "Audit log", Section: "audit"}, p)
}
