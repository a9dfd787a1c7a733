package pg

import (
	"errors"
	"fmt"
	"net/netip"
	"os/user"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/lib/pq"

	"github.com/millipede-iac/millipede/backend"
)

// parameters are libpq's environment variables with their names in connection strings. without sets the default if
// neither a connection string nor the operation's environment sets a parameter.
var parameters = []struct {
	env, name string
	without   func(c *pq.Config, p backend.Place)
}{
	{"PGHOST", "host", func(c *pq.Config, _ backend.Place) { c.Host, c.Multi = "localhost", nil }},
	{"PGHOSTADDR", "hostaddr", func(c *pq.Config, _ backend.Place) { c.Hostaddr = netip.Addr{} }},
	{"PGPORT", "port", func(c *pq.Config, _ backend.Place) { c.Port = 5432 }},
	{"PGDATABASE", "dbname", func(c *pq.Config, _ backend.Place) { c.Database = "" }},
	{"PGUSER", "user", func(c *pq.Config, p backend.Place) { c.User = userOf(p) }},
	{"PGPASSWORD", "password", func(c *pq.Config, _ backend.Place) { c.Password = "" }},
	{"PGPASSFILE", "passfile", func(c *pq.Config, _ backend.Place) { c.Passfile = "" }},
	{"PGSSLMODE", "sslmode", func(c *pq.Config, _ backend.Place) {
		if !filepath.IsAbs(c.Host) { // otherwise it is a socket, and the driver has set the mode
			c.SSLMode = ""
		}
	}},
	{"PGSSLNEGOTIATION", "sslnegotiation", func(c *pq.Config, _ backend.Place) { c.SSLNegotiation = "" }},
	{"PGSSLCERT", "sslcert", func(c *pq.Config, _ backend.Place) { c.SSLCert = "" }},
	{"PGSSLKEY", "sslkey", func(c *pq.Config, _ backend.Place) { c.SSLKey = "" }},
	{"PGSSLROOTCERT", "sslrootcert", func(c *pq.Config, _ backend.Place) { c.SSLRootCert = "" }},
	{"PGOPTIONS", "options", func(c *pq.Config, _ backend.Place) { c.Options = "" }},
	{"PGAPPNAME", "application_name", func(c *pq.Config, _ backend.Place) { c.ApplicationName = "" }},
	{"PGTARGETSESSIONATTRS", "target_session_attrs",
		func(c *pq.Config, _ backend.Place) { c.TargetSessionAttrs = "" }},
	{"PGLOADBALANCEHOSTS", "load_balance_hosts", func(c *pq.Config, _ backend.Place) { c.LoadBalanceHosts = "" }},
	{"PGTZ", "tz", func(c *pq.Config, _ backend.Place) { c.TZ = "" }},
	{"PGCONNECT_TIMEOUT", "connect_timeout", nil}, // connection always sets it
	{"PGSERVICE", "service", nil},                 // and this
}

// userOf returns the default user: the operation's user, else the process's.
func userOf(p backend.Place) string {
	if name := p.Env("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// configuration parses a connection string, completed by the operation's environment. The driver itself uses the
// process's environment, which may belong to another operation: settings that come only from there are removed.
func configuration(p backend.Place, given string) (pq.Config, error) {
	text, err := connection(p, given)
	if err != nil {
		return pq.Config{}, err
	}
	config, err := pq.NewConfig(text)
	if err != nil {
		return pq.Config{}, err
	}
	said := names(text)
	if config.Service != "" { // it may have set anything
		return config, nil
	}
	for _, param := range parameters {
		if !said[param.name] && param.without != nil {
			param.without(&config, p)
		}
	}
	return config, nil
}

// connection returns the connection string, preceded by the settings of the operation's environment.
func connection(p backend.Place, given string) (string, error) {
	if strings.HasPrefix(given, "postgres://") || strings.HasPrefix(given, "postgresql://") {
		// Only pairs can be joined with those of the operation's environment.
		pairs, err := pq.ParseURL(given) //nolint:staticcheck // it is deprecated for passing a URL on
		if err != nil {
			return "", errors.New("it is not a valid URL") // the library's error contains it, with the password
		}
		given = pairs
	}
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	pairs := []string{fmt.Sprintf("connect_timeout=%d %s", connectTimeout, checkedAtOnce)}
	for _, param := range parameters {
		if v := p.Env(param.env); v != "" {
			pairs = append(pairs, param.name+"='"+escape.Replace(v)+"'")
		}
	}
	return strings.Join(append(pairs, given), " "), nil
}

// checkedAtOnce are parameters that the driver checks when it parses a connection string, before those of the
// process's environment can be removed.
const checkedAtOnce = "service='' sslrootcert='' sslnegotiation=postgres"

// names returns the names of the pairs of a valid connection string.
func names(text string) map[string]bool {
	out := map[string]bool{}
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			return out
		}
		out[strings.TrimRightFunc(name, unicode.IsSpace)] = true
		text = afterValue(strings.TrimLeftFunc(rest, unicode.IsSpace))
	}
}

// afterValue returns the rest of a text after the value at its beginning.
func afterValue(text string) string {
	quoted := strings.HasPrefix(text, "'")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case quoted && c == '\'' && i > 0:
			return text[i+1:]
		case !quoted && unicode.IsSpace(rune(c)):
			return text[i:]
		}
	}
	return ""
}
