//go:build unix

package pg

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/postgres"
)

func place(env map[string]string) backend.Place {
	return backend.Place{Kinds: backend.Kinds{Kind()}, Env: func(name string) string { return env[name] }}
}

func opened(t *testing.T, url string, more map[string]cty.Value) *store {
	t.Helper()
	args := map[string]cty.Value{"conn_str": cty.StringVal(url)}
	for name, v := range more {
		args[name] = v
	}
	b, diags := place(nil).Open(t.Context(), "pg", cty.ObjectVal(args))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	t.Cleanup(func() {
		if err := backend.Close(b); err != nil {
			t.Error(err)
		}
	})
	return b.(*store)
}

func TestTheBackendOverARealServer(t *testing.T) {
	s := postgres.Start(t)
	t.Run("contract", func(t *testing.T) {
		schemas := map[string]string{}
		backendtest.Run(t, backendtest.Suite{
			HolderUnknown: true, DiesWithHolder: true,
			Open: func(t *testing.T) backend.Backend {
				name, ok := schemas[t.Name()]
				if !ok {
					name = fmt.Sprintf("Schema %d", len(schemas)) // a name that has to be quoted
					schemas[t.Name()] = name
				}
				return opened(t, s.URL(), map[string]cty.Value{"schema_name": cty.StringVal(name)})
			},
		})
	})
	t.Run("the lock ends with its session, and who asks learns whose it is", func(t *testing.T) {
		b, other := opened(t, s.URL(), nil), opened(t, s.URL(), nil)
		ctx := t.Context()
		if err := b.Create(ctx, "w"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Lock(ctx, "w", journal.LockInfo{ID: "1"}); err != nil {
			t.Fatal(err)
		}
		_, err := other.Lock(ctx, "w", journal.LockInfo{ID: "2", Who: "other@there"})
		var held *journal.Held
		if !errors.As(err, &held) {
			t.Fatalf("acquiring the lock twice: %v", err)
		}
		// The refused command showed its own information as that of the holder, as OpenTofu does.
		h := held.Holder
		pid, err := strconv.Atoi(h.ID)
		if err != nil || pid < 2 || !strings.HasPrefix(h.Who, "postgres") || h.Created.IsZero() {
			t.Errorf("the error names the holder %+v", h)
		}
		err = other.Unlock(ctx, "w", "1")
		if !errors.Is(err, backend.ErrNotLocked) || !strings.Contains(err.Error(), "pg_terminate_backend(") {
			t.Errorf("force-unlock by another process: %v", err)
		}
		var ended bool
		err = other.db.QueryRowContext(ctx,
			"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'").Scan(&ended)
		if err != nil || !ended {
			t.Fatal(err)
		}
		lock := acquire(t, other, "w")
		// After the session of a lock had ended, writes used other sessions until that was noticed, up to ten seconds later.
		if err := b.Write(ctx, "w", []byte("{}")); err == nil || !strings.Contains(err.Error(), "the lock with it") {
			t.Errorf("writing under a lock that has ended: %v", err)
		}
		if err := other.Unlock(ctx, "w", lock.ID); err != nil {
			t.Error(err)
		}
		if err := b.Unlock(ctx, "w", "1"); err == nil {
			t.Error("a lock that was lost is released without an error")
		}
	})
	t.Run("the key of the creation lock is OpenTofu's", func(t *testing.T) {
		b := opened(t, s.URL(), nil)
		if b.creation != -3797183428 {
			t.Errorf("the key is %d", b.creation)
		}
		lock := acquire(t, b, "default") // it has no row yet
		var count int
		err := b.db.QueryRowContext(t.Context(),
			"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 4294967295 "+
				"AND objid = 497783868").Scan(&count)
		if err != nil || count != 1 {
			t.Errorf("%d such locks: %v", count, err)
		}
		if err := b.Unlock(t.Context(), "default", lock.ID); err != nil {
			t.Error(err)
		}
	})
	t.Run("a role that may not create anything uses what is there", func(t *testing.T) {
		b := opened(t, s.URL(), nil)
		for _, q := range []string{
			"CREATE ROLE poor LOGIN", "GRANT USAGE ON SCHEMA terraform_remote_state, public TO poor",
			"GRANT ALL ON ALL TABLES IN SCHEMA terraform_remote_state TO poor",
			"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO poor",
		} {
			if _, err := b.db.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		poor := opened(t, strings.Replace(s.URL(), "postgres@", "poor@", 1), map[string]cty.Value{
			"skip_table_creation": cty.True, "skip_index_creation": cty.True,
		})
		if err := poor.Write(t.Context(), "poor", []byte("{}")); err != nil {
			t.Error(err)
		}
	})
	t.Run("a server that goes away is an error, and found again", func(t *testing.T) {
		b := opened(t, s.URL(), nil)
		s.Stop()
		if err := b.Write(t.Context(), "default", []byte("{}")); err == nil {
			t.Error("writing to a server that does not run has succeeded")
		}
		s.Run()
		if err := b.Write(t.Context(), "default", []byte("{}")); err != nil {
			t.Errorf("after the server came back: %v", err)
		}
	})
}

func acquire(t *testing.T, b *store, workspace string) backend.Lock {
	t.Helper()
	lock, err := backend.Acquire(t.Context(), b, workspace, backendtest.Info("2", "OperationTypeApply"), 0, nil)
	for tries := 0; err != nil && tries < 50; tries++ { // the server notices the end of a session a moment later
		if _, wait := b.db.ExecContext(t.Context(), "SELECT pg_sleep(0.1)"); wait != nil {
			t.Fatal(wait)
		}
		lock, err = b.Lock(t.Context(), workspace, backendtest.Info("2", "OperationTypeApply"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestWrongConnectionsAreDiagnosticsWithoutThePassword(t *testing.T) {
	for claim, c := range map[string]struct{ text, want string }{
		"a server that is not there": {"postgres://u:secret@127.0.0.1:1/x?sslmode=disable", "connection refused"},
		"no valid URL":               {"postgres://u:secret@[::1/x", "not a valid URL"},
		"a mode that there is not":   {"host=127.0.0.1 password=secret sslmode=nonsense", "sslmode"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, diags := place(nil).Open(t.Context(), "pg",
				cty.ObjectVal(map[string]cty.Value{"conn_str": cty.StringVal(c.text)}))
			if !diags.HasErrors() || !strings.Contains(diags[0].Detail, c.want) ||
				strings.Contains(diags[0].Detail, "secret") {
				t.Errorf("the problems are %v", diags.Err())
			}
		})
	}
}

// The driver took values that the operation's environment did not have from the environment of the process, which
// executes other operations, too.
func TestTheOperationsEnvironmentCompletesTheConnectionAndTheProcesssDoesNot(t *testing.T) {
	for name, value := range map[string]string{
		"PGHOST": "theirs", "PGHOSTADDR": "10.0.0.1", "PGPORT": "1", "PGDATABASE": "theirs", "PGUSER": "theirs",
		"PGPASSWORD": "theirs", "PGSSLMODE": "verify-full", "PGSSLROOTCERT": "system", "PGOPTIONS": "-c geqo=off",
		"PGAPPNAME": "theirs", "PGSERVICE": "theirs", "PGPASSFILE": "/theirs",
	} {
		t.Setenv(name, value)
	}
	for claim, c := range map[string]struct {
		env   map[string]string
		given string
		want  string
	}{
		"nothing is said": {env: map[string]string{"USER": "me"}, want: "localhost:5432 me@"},
		"the connection string says": {given: `user = 'it\'s \\' dbname=d host=h port=2 password='p w'`,
			want: `h:2 it's \@d p w`},
		"a URL says": {given: "postgres://u:p@h:3/d?sslmode=disable", want: "h:3 u@d p disable"},
		"the operation's variables say": {env: map[string]string{"PGHOST": "h", "PGUSER": "u", "PGPASSWORD": `it's \`},
			want: `h:5432 u@ it's \`},
		"both say": {env: map[string]string{"PGHOST": "e", "PGPORT": "4"}, given: "host=h user=u",
			want: "h:4 u@"},
	} {
		t.Run(claim, func(t *testing.T) {
			config, err := configuration(place(c.env), c.given)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s:%d %s@%s %s %s", config.Host, config.Port, config.User, config.Database,
				config.Password,
				config.SSLMode)
			if strings.TrimRight(got, " ") != c.want {
				t.Errorf("the connection is %q, want %q", got, c.want)
			}
			rest := fmt.Sprint(config.Hostaddr, config.SSLRootCert, config.Options, config.ApplicationName,
				config.Passfile,
				config.Service)
			if strings.Contains(rest, "theirs") || config.Hostaddr.IsValid() ||
				config.SSLRootCert+config.Options != "" {
				t.Errorf("of the process it has %s", rest)
			}
		})
	}
}
