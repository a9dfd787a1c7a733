package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// connectTimeout is the default time limit for connecting, in seconds.
const connectTimeout = 10

// Kind returns the kind "pg".
func Kind() *backend.Kind {
	text := func() *schema.Attribute { return &schema.Attribute{Type: cty.String, Optional: true} }
	flag := func() *schema.Attribute { return &schema.Attribute{Type: cty.Bool, Optional: true} }
	return &backend.Kind{
		Name: "pg",
		Schema: &schema.Block{Attributes: map[string]*schema.Attribute{
			"conn_str":             text(),
			"schema_name":          text(),
			"table_name":           text(),
			"index_name":           text(),
			"skip_schema_creation": flag(),
			"skip_table_creation":  flag(),
			"skip_index_creation":  flag(),
		}},
		Env: map[string][]string{
			"conn_str":             {"PG_CONN_STR"},
			"schema_name":          {"PG_SCHEMA_NAME"},
			"table_name":           {"PG_TABLE_NAME"},
			"index_name":           {"PG_INDEX_NAME"},
			"skip_schema_creation": {"PG_SKIP_SCHEMA_CREATION"},
			"skip_table_creation":  {"PG_SKIP_TABLE_CREATION"},
			"skip_index_creation":  {"PG_SKIP_INDEX_CREATION"},
		},
		Defaults: map[string]cty.Value{
			"schema_name": cty.StringVal("terraform_remote_state"),
			"table_name":  cty.StringVal("states"),
			"index_name":  cty.StringVal("states_by_name"),
		},
		Address: address,
		Open:    open,
	}
}

// open connects to the database, and creates schema, table and index unless that is disabled.
func open(ctx context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	wrong := func(err error) diag.List {
		return diag.List{args.Problem("conn_str", "Invalid database connection",
			fmt.Sprintf("The connection string cannot be used: %s.", err))}
	}
	config, err := configuration(p, args.String("conn_str"))
	if err != nil {
		return nil, wrong(err)
	}
	connector, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, wrong(err)
	}
	connector.Dialer(p.Environment().Dialer())
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(2)
	db.SetConnMaxIdleTime(time.Minute)
	schemaName, table := args.String("schema_name"), args.String("table_name")
	b := &store{
		db:       db,
		where:    where(config, schemaName, table),
		table:    quote(schemaName) + "." + quote(table),
		creation: creationKey(schemaName, table),
		held:     map[string]*heldLock{},
	}
	if err := b.prepare(ctx, args); err != nil {
		return nil, diag.List{args.Problem("conn_str", "Failed to open the database",
			fmt.Sprintf("%s: %s.", b.where, err))}.
			Append(closing(db))
	}
	return b, nil
}

// address returns where the states are: the database, and the table.
func address(p backend.Place, args backend.Arguments, _ string) string {
	config, err := configuration(p, args.String("conn_str"))
	if err != nil {
		return "" // open refuses it
	}
	return where(config, args.String("schema_name"), args.String("table_name"))
}

func where(c pq.Config, schema, table string) string {
	return fmt.Sprintf("postgres://%s:%d/%s %s.%s", c.Host, c.Port, c.Database, schema, table)
}

func closing(db *sql.DB) diag.List {
	if err := db.Close(); err != nil {
		return diag.Errors("Failed to close the database", err.Error()+".", nil)
	}
	return nil
}

// prepare creates the missing database objects. A role that may not create a schema is sufficient if the schema
// exists.
func (b *store) prepare(ctx context.Context, args backend.Arguments) error {
	name := args.String("schema_name")
	if !args.Bool("skip_schema_creation") {
		var count int
		err := b.db.QueryRowContext(ctx, "SELECT count(1) FROM information_schema.schemata WHERE schema_name = $1",
			name).Scan(&count)
		if err != nil {
			return err
		}
		if count == 0 {
			if err := b.define(ctx, "the schema", "CREATE SCHEMA IF NOT EXISTS "+quote(name)); err != nil {
				return err
			}
		}
	}
	if !args.Bool("skip_table_creation") {
		if err := b.define(ctx, "the sequence",
			"CREATE SEQUENCE IF NOT EXISTS public.global_states_id_seq AS bigint"); err != nil {
			return err
		}
		err := b.define(ctx, "the table", "CREATE TABLE IF NOT EXISTS "+b.table+" (id bigint NOT NULL DEFAULT "+
			"nextval('public.global_states_id_seq') PRIMARY KEY, name text UNIQUE, data text)")
		if err != nil {
			return err
		}
	}
	if !args.Bool("skip_index_creation") {
		err := b.define(ctx, "the index",
			"CREATE UNIQUE INDEX IF NOT EXISTS "+quote(args.String("index_name"))+" ON "+b.table+" (name)")
		if err != nil {
			return err
		}
	}
	return b.db.PingContext(ctx)
}

// define creates a database object if it does not exist. Two processes that do this at the same time conflict in
// the database's own tables in spite of "if not exists"; the one that fails retries once, and finds it.
func (b *store) define(ctx context.Context, what, statement string) error {
	_, err := b.db.ExecContext(ctx, statement)
	var refused *pq.Error
	if errors.As(err, &refused) && (refused.Code == "23505" || refused.Code == "42P07" || refused.Code == "42P06") {
		_, err = b.db.ExecContext(ctx, statement)
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", what, err)
	}
	return nil
}
