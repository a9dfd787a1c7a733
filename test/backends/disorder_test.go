package backends

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/clouds/faults"
	"github.com/millipede-iac/millipede/test/postgres"
	"github.com/millipede-iac/millipede/test/proxy"
)

// disorder is a way in which a place does not do what it is asked.
type disorder string

const (
	refusing  disorder = "refuses everything"
	forbidden disorder = "forbids writing"
	failing   disorder = "answers with internal errors"
	busy      disorder = "answers that it is busy"
	silent    disorder = "does not answer"
	away      disorder = "is away"
)

// goes puts the place out of order until mend.
func (w *world) goes(d disorder) {
	if w.database != nil {
		w.database.goes(d)
		return
	}
	fault := map[disorder]faults.Fault{
		refusing: {Status: http.StatusNotImplemented}, failing: {Status: http.StatusInternalServerError},
		busy: {Status: http.StatusTooManyRequests, RetryAfter: 1}, silent: {Silent: true}, away: {Broken: true},
	}
	if d != forbidden {
		w.faults.Always(fault[d])
		return
	}
	w.faults.Set(func(r *http.Request) faults.Fault {
		// Who may not write keys of Consul may have sessions.
		if r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasPrefix(r.URL.Path, "/v1/session/") {
			return faults.Fault{}
		}
		return faults.Fault{Status: http.StatusForbidden}
	})
}

// mend has the place be itself again.
func (w *world) mend() {
	if w.database != nil {
		w.database.mend()
		return
	}
	w.faults.Set(nil)
}

// schema is the schema of a database that states lie in; role is who asks, and is no superuser.
const (
	schema = "Some Schema"
	role   = "millipede"
)

// database is a PostgreSQL server behind a proxy.
type database struct {
	server *postgres.Server
	proxy  *proxy.Proxy
	mended func()
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
	return &database{server: s, proxy: p, mended: func() {}}
}

// address is that of the database, through the proxy.
func (d *database) address() string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", role, d.proxy.Address())
}

// cut ends all sessions, and with them their locks.
func (d *database) cut() {
	d.server.Do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'")
}

func (d *database) goes(how disorder) {
	const table = `"` + schema + `".states`
	switch how {
	case refusing, away:
		d.server.Stop()
		d.mended = d.server.Run
	case forbidden:
		d.server.Do("REVOKE INSERT, UPDATE ON " + table + " FROM " + role)
		d.mended = func() { d.server.Do("GRANT INSERT, UPDATE ON " + table + " TO " + role) }
	case failing:
		d.server.Do("REVOKE SELECT, INSERT, UPDATE ON " + table + " FROM " + role)
		d.mended = func() { d.server.Do("GRANT SELECT, INSERT, UPDATE ON " + table + " TO " + role) }
	case busy:
		d.server.Do("ALTER ROLE " + role + " CONNECTION LIMIT 0")
		d.cut()
		d.mended = func() { d.server.Do("ALTER ROLE " + role + " CONNECTION LIMIT -1") }
	case silent:
		d.proxy.Hold()
		d.mended = func() {
			d.proxy.Cut() // so that nothing of before arrives late
			d.proxy.Mend()
		}
	}
}

func (d *database) mend() {
	d.mended()
	d.mended = func() {}
}
