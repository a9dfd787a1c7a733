package backends

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
	"github.com/millipede-iac/millipede/test/stage/postgres"
	"github.com/millipede-iac/millipede/test/stage/proxy"
)

// outage is a way in which a storage service fails.
type outage string

const (
	forbidden   outage = "denies writes"
	failing     outage = "responds with internal errors"
	busy        outage = "responds that it is busy"
	silent      outage = "does not respond"
	unreachable outage = "is unreachable"
)

// fail makes the storage service fail in the given way until repair is called.
func (w *world) fail(d outage) {
	if w.database != nil {
		w.database.fail(d)
		return
	}
	fault := map[outage]faults.Fault{
		failing: {Status: http.StatusInternalServerError}, busy: {Status: http.StatusTooManyRequests, RetryAfter: 1},
		silent: {Silent: true}, unreachable: {Broken: true},
	}
	if d != forbidden {
		w.faults.Always(fault[d])
		return
	}
	w.faults.Set(func(r *http.Request) faults.Fault {
		// A token of Consul that may not write keys may still create sessions.
		if r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasPrefix(r.URL.Path, "/v1/session/") {
			return faults.Fault{}
		}
		return faults.Fault{Status: http.StatusForbidden}
	})
}

// repair ends the outage.
func (w *world) repair() {
	if w.database != nil {
		w.database.repair()
		return
	}
	w.faults.Set(nil)
}

// schema is the schema of the database in which states are stored. The tests connect as role, which is no superuser.
const (
	schema = "Some Schema"
	role   = "millipede"
)

// database is a PostgreSQL server behind a proxy. undo ends the current outage.
type database struct {
	server *postgres.Server
	proxy  *proxy.Proxy
	undo   func()
}

func startDatabase(t *testing.T) *database {
	t.Helper()
	s := postgres.Start(t)
	p, err := proxy.Start(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Do("CREATE ROLE " + role + " LOGIN; GRANT CREATE ON DATABASE postgres TO " + role +
		"; GRANT CREATE, USAGE ON SCHEMA public TO " + role)
	return &database{server: s, proxy: p, undo: func() {}}
}

// address returns the connection string of the database; connections go through the proxy.
func (d *database) address() string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", role, d.proxy.Address())
}

// cut terminates all sessions, which releases their locks.
func (d *database) cut() {
	d.server.Do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'")
}

func (d *database) fail(how outage) {
	const table = `"` + schema + `".states`
	switch how {
	case unreachable:
		d.server.Stop()
		d.undo = d.server.Run
	case forbidden:
		d.server.Do("REVOKE INSERT, UPDATE ON " + table + " FROM " + role)
		d.undo = func() { d.server.Do("GRANT INSERT, UPDATE ON " + table + " TO " + role) }
	case failing:
		d.server.Do("REVOKE SELECT, INSERT, UPDATE ON " + table + " FROM " + role)
		d.undo = func() { d.server.Do("GRANT SELECT, INSERT, UPDATE ON " + table + " TO " + role) }
	case busy:
		d.server.Do("ALTER ROLE " + role + " CONNECTION LIMIT 0")
		d.cut()
		d.undo = func() { d.server.Do("ALTER ROLE " + role + " CONNECTION LIMIT -1") }
	case silent:
		d.proxy.Hold()
		d.undo = func() {
			d.proxy.Cut() // so that no delayed data of old connections arrives
			d.proxy.Mend()
		}
	}
}

func (d *database) repair() {
	d.undo()
	d.undo = func() {}
}
