package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/wire/jet"
)

const poolsUsage = `
Usage: coordinator [global options] pools <subcommand>

  Says where the messages of pools are stored.

Subcommands:
  list       List the pools with a message store of their own.
  set        Set where the message store of a pool is.
`

const poolsListUsage = `
Usage: coordinator -nats=URL pools list [options]

  Lists the pools with a message store of their own, and whether it answers. All other pools use that of the server.

Options:
  -no-color             Do not use colours.
`

const poolsSetUsage = `
Usage: coordinator -nats=URL pools set POOL -domain=NAME

  Sets where the tasks, registers, keys, results and blobs of a pool are stored: in the JetStream domain NAME, which is
  that of a NATS server in the pool's region, connected as a leaf node. -domain= (empty) sets it back to the server's
  own store. The pool must have no runs that have not ended. Its workers are started with the option -domain=NAME.

Options:
  -domain=NAME          The JetStream domain. Required.
  -no-color             Do not use colours.
`

func runPoolsList(ctx context.Context, a *app, args []string) int {
	return a.overNATS(ctx, poolsListUsage, args, 0, func(conn *jet.Conn, _ []string) error {
		domains, err := conn.PoolSettings().Domains(ctx)
		if err != nil {
			return err
		}
		out := view.Clean(a.Stdout, false)
		if len(domains) == 0 {
			_, err = fmt.Fprintln(out, "All pools use the message store of the server.")
			return err
		}
		for _, pool := range slices.Sorted(maps.Keys(domains)) {
			answer := "answers"
			if err := conn.PoolSettings().Answers(ctx, domains[pool]); err != nil {
				answer = "does not answer: " + err.Error()
			}
			if _, err := fmt.Fprintf(out, "%s: domain %s, %s\n", pool, domains[pool], answer); err != nil {
				return err
			}
		}
		return nil
	})
}

func runPoolsSet(ctx context.Context, a *app, args []string) int {
	domain, pool := unset, ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") { // the pool may stand before the options
		pool, args = args[0], args[1:]
	}
	declare := func(f *flag.FlagSet) { f.StringVar(&domain, "domain", unset, "") }
	check := func(rest []string) diag.List {
		if pool != "" {
			rest = append([]string{pool}, rest...)
		}
		switch {
		case len(rest) != 1:
			return diag.Errors("Which pool?", fmt.Sprintf("The command takes the name of one pool, and got %q.", rest), nil)
		case domain == unset:
			return diag.Errors("Which domain?", "The option -domain=NAME names the JetStream domain of the pool's message "+
				"store; -domain= is the store of the server itself.", nil)
		}
		pool = rest[0]
		return nil
	}
	return a.overNATSWith(ctx, natsCommand{usage: poolsSetUsage, declare: declare, check: check, provision: true,
		do: func(conn *jet.Conn, _ []string) error { return conn.PoolSettings().SetDomain(ctx, pool, domain) }}, args)
}

// unset is the value of an option that was not given, where an empty one means something.
const unset = "\x00"
