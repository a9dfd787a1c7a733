package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/serving"
	"github.com/millipede-iac/millipede/internal/environ"
)

const groupUsage = `
Usage: coordinator [global options] group <subcommand> [options]

  Operates a group: several coordinators that are one service (serve -group).

Subcommands:
  status     Show the members, who leads, and how far their copies are
  handover   Have another member lead
  remove     Remove a member that is gone
  adopt      Turn a single service into a group
  recover    Go on with the copies of one member, when the log is lost
`

const groupStatusUsage = `
Usage: coordinator [global options] group status -address=URL [-json]

  Shows the members of a group: who leads, and by how many entries of the log the copies of the others are behind. The
  user must be an administrator of the service. Ends with exit code 1 if a member does not answer.

Options:
  -address=URL   The address of the service: https://HOST.
  -json          Write JSON.
`

const groupHandoverUsage = `
Usage: coordinator [global options] group handover -address=URL [MEMBER]

  Has another member lead the group: MEMBER, or the one whose copy is nearest to the end of the log. Runs go on. A
  member that is stopped in order hands the lead over by itself.

Options:
  -address=URL   The address of the service: https://HOST.
`

const groupRemoveUsage = `
Usage: coordinator [global options] group remove -address=URL MEMBER

  Removes a member whose process has ended for good. The others then do not ask it any more before one of them leads. A
  process with this name that is started later is a member again.

Options:
  -address=URL   The address of the service: https://HOST.
`

const groupAdoptUsage = `
Usage: coordinator [global options] group adopt -group=NAME -data=DIR -key-file=FILE

  Turns the data of a single service, which has been stopped, into those of the first member of a group: its records, its
  stores and its files go into a new log on the NATS servers (-nats). Start it then with "serve -group=NAME", and further
  members beside it. If the command is interrupted, execute it again.

Options:
  -group=NAME      The name of the group to make.
  -data=DIR        The directory of the service.
  -key-file=FILE   The key that encrypts its data.
`

const groupRecoverUsage = `
Usage: coordinator [global options] group recover -group=NAME -data=DIR -key-file=FILE -auto-approve

  Goes on with the copies of one member, when the log of a group is lost, or has lost its end for good, as after the loss
  of two of three NATS servers. All members must be stopped. What is left of the log is removed, and a new one is made
  from this directory: use the member that led last, whose copies are the newest. Nobody knows what was dispatched since,
  so no run is resumed: as after the restore of a backup, operations are settled or marked as in doubt, and nothing is
  started until an administrator lifts the halt. The other members begin with empty directories.

Options:
  -group=NAME      The name of the group.
  -data=DIR        The directory of the member.
  -key-file=FILE   The key of the group.
  -auto-approve    Confirms that what is left of the log may be removed.
`

// remakeFlags are the options of the commands that make the log of a group anew.
type remakeFlags struct{ group, data, keyFile string }

func (r *remakeFlags) register(f *flag.FlagSet) {
	f.StringVar(&r.group, "group", "", "")
	f.StringVar(&r.data, "data", "", "")
	f.StringVar(&r.keyFile, "key-file", "", "")
}

func runGroupAdopt(ctx context.Context, a *app, args []string) int {
	var r remakeFlags
	f := a.NewFlags()
	r.register(f)
	if code, done := a.Parse(f, groupAdoptUsage, args); done {
		return code
	}
	return a.operated("Failed to make the group", a.remake(ctx, r, false))
}

func runGroupRecover(ctx context.Context, a *app, args []string) int {
	var r remakeFlags
	f := a.NewFlags()
	r.register(f)
	approved := f.Bool("auto-approve", false, "")
	if code, done := a.Parse(f, groupRecoverUsage, args); done {
		return code
	}
	err := error(nil)
	if !*approved {
		err = errors.New("this removes what is left of the log of the group, and what the copies in -data do not have is " +
			"lost: add -auto-approve if that is what you want")
	}
	if err == nil {
		err = a.remake(ctx, r, true)
	}
	return a.operated("Failed to recover the group", err)
}

func (a *app) remake(ctx context.Context, r remakeFlags, recovers bool) error {
	if r.group == "" || r.data == "" || r.keyFile == "" {
		return errors.New("all are needed: -group=NAME, -data=DIR and -key-file=FILE")
	}
	o := serving.Remaking{Recover: recovers, Tell: func(line string) { fmt.Fprintln(a.Stdout, line) }}
	o.Group, o.Data, o.KeyFile = r.group, environ.Path(a.Dir, r.data), environ.Path(a.Dir, r.keyFile)
	o.Connector, o.Log = a.Connector, slog.New(slog.NewTextHandler(a.Stderr, nil))
	o.Member = "recovered"
	return serving.Remake(ctx, o)
}

func runGroupStatus(ctx context.Context, a *app, args []string) int {
	f := a.NewFlags()
	address, structured := f.String("address", "", ""), f.Bool("json", false, "")
	if code, done := a.Parse(f, groupStatusUsage, args); done {
		return code
	}
	return a.operated("Failed to show the group", a.groupStatus(ctx, *address, *structured))
}

func (a *app) groupStatus(ctx context.Context, address string, structured bool) error {
	c, err := a.controls(ctx, address)
	if err != nil {
		return err
	}
	all, err := c.Group(ctx)
	if err != nil {
		return err
	}
	missing := 0
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	if !structured {
		fmt.Fprintln(w, "MEMBER\tSTATUS\tBEHIND\tADDRESS\tMILLIPEDE")
	}
	for _, m := range all {
		status, behind := "standby", fmt.Sprint(m.Behind)
		switch {
		case m.Leads:
			status, behind = "leads since "+m.Since.Local().Format(time.DateTime), "-"
		case !m.Answers:
			missing++
			status, behind = "does not answer", "-"
			if !m.Since.IsZero() {
				status += " since " + m.Since.Local().Format(time.DateTime)
			}
		}
		if !structured {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Name, status, behind, m.Address, m.Program)
		}
	}
	if structured {
		text, err := json.MarshalIndent(map[string]any{"members": all}, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Stdout, string(text))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d members do not answer", missing, len(all))
	}
	return nil
}

func runGroupHandover(ctx context.Context, a *app, args []string) int {
	f := a.NewFlags()
	address := f.String("address", "", "")
	if code, done := a.Parse(f, groupHandoverUsage, args); done {
		return code
	}
	to := f.Arg(0)
	err := atMostOne(f.Args())
	if err == nil {
		c, failed := a.controls(ctx, *address)
		if err = failed; err == nil {
			err = c.HandOver(ctx, to)
		}
	}
	if err == nil {
		fmt.Fprintln(a.Stdout, "The lead was handed over.")
	}
	return a.operated("Failed to hand the lead over", err)
}

func runGroupRemove(ctx context.Context, a *app, args []string) int {
	f := a.NewFlags()
	address := f.String("address", "", "")
	if code, done := a.Parse(f, groupRemoveUsage, args); done {
		return code
	}
	err := atMostOne(f.Args())
	if err == nil && f.Arg(0) == "" {
		err = errors.New("name the member to remove")
	}
	if err == nil {
		c, failed := a.controls(ctx, *address)
		if err = failed; err == nil {
			err = c.RemoveMember(ctx, f.Arg(0))
		}
	}
	if err == nil {
		fmt.Fprintf(a.Stdout, "The member %s was removed.\n", f.Arg(0))
	}
	return a.operated("Failed to remove the member", err)
}

// atMostOne refuses more than one argument.
func atMostOne(args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("name one member, not %q", args)
	}
	return nil
}
