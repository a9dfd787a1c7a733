package main

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"

	"github.com/millipede-iac/millipede/cmd/internal/build"
	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/cmd/internal/logflags"
	"github.com/millipede-iac/millipede/cmd/internal/serving"
	"github.com/millipede-iac/millipede/lang/diag"
)

const serveUsage = `
Usage: coordinator [global options] serve [options]

  Manages the states of many workspaces, and executes their runs, for many people and programs: command lines with a
  cloud block or the backends "remote" and "http", and other clients of the API of HCP Terraform.

  At the first start it makes the user "admin". On a terminal it shows the token of that user. Otherwise it writes the
  token to the file admin.token in the directory of the data, and names the file: journals and logs are kept, and read by
  many.

Options:
  -listen=ADDRESS       The address to listen on; default 127.0.0.1:8443.
  -address=URL          The address of the service for clients, if it differs from that of -listen: https://HOST.
  -data=DIR             The directory for all data; default millipede in the user's data directory.
  -key-file=FILE        The key that encrypts the data. It is created if missing; back it up apart from the data. Default
                        millipede/service.key in the user's configuration directory.
  -tls-cert=FILE, -tls-key=FILE
                        The certificate and its key, which are reloaded when they change. By default the service creates a
                        certificate with an authority of its own.
  -trusted-proxies=LIST The addresses, or ranges such as 10.0.0.0/8, of proxies in front of the service, separated by
                        commas. The client of a request from there is the one in X-Forwarded-For, in logs, in the audit
                        log and for rate limits. Default: none; the header is ignored.
  -organization=NAME    The organization that is created at the first start; default main.
  -plans=N, -applies=N  How many plans and applies run at the same time; default the number of processors, and 50.
  -engines=N            How many processes evaluate configurations; default one for two processors. With 0 the service
                        does it itself: then whatever a configuration ends or reads is the service.
  -engine-memory=MIB    How much memory each of them may use; a phase that needs more ends as errored, after three
                        attempts. Default: no bound.
  -plan-time=DURATION   How long a plan may take, such as 2h, with the time for which it waits for workers. Default: no bound.
  -plan-size=MIB        How large the result of a plan may be: the plan, the schemas of its providers, and its JSON;
                        default 512. Workspaces can have lower bounds on time, size, and memory.
  -program-processes=N  How many processes and threads the user of the service may have when a plugin, a provisioner or
                        another program of a run starts one more; default 8192, and 0 for no limit. Root has none.
  -program-file-size=MIB
                        How large each file that such a program writes may be; default 8192, and 0 for no limit.
  -allow-read=PATHS, -allow-write=PATHS
                        Files and directories, separated as in PATH, that runs may read, or change as well. Where the
                        system has Landlock they can use no others, except for programs and their libraries, certificates
                        and their own directories.
  -group=NAME           Have every change of the records and of the workspaces' stores in the log of this group, which the
                        NATS servers of -nats keep: the data directory is then a copy that can be made again. The first
                        start makes the group, in an empty directory. Several processes with the same group and key are
                        its members: one leads, and another one takes its place. Default: no group.
  -member=NAME          The name of this process in the group; default the name of the machine.
  -member-address=HOST  Where other members reach this one, HOST or HOST:PORT; default the host of -listen, or the machine.
  -watch-reads=N        How many objects are read at the same time to watch for drift, over all workspaces; default 20.
  -keep-runs=N          How many ended runs a workspace keeps, with their logs, plans and configurations; default all.
  -keep-states=N        How many versions of its state a workspace keeps; default all.
  -keep-for=DURATION    The minimum age of removed runs and versions, such as 720h; default 0.
  -parallelism=N        How many operations of a run are executed at the same time; default 10.
  -metrics=ADDRESS      Serve Prometheus metrics there, at /metrics, without a token and without TLS. Use an address
                        that only the scraper can reach, such as 127.0.0.1:9464. Default: none.
  -oidc-issuer=URL, -oidc-client=ID, -oidc-secret-file=FILE
                        Let people log in with their organization's OpenID provider: its address, and the credentials of the
                        service there. The redirect path is /oauth/callback. Teams whose sso-team-id is a group there get
                        the group's members.
  -oidc-groups=CLAIM    The claim with the groups of a person; default groups.
  -log-level=LEVEL      ` + logflags.UsageLevel + `
  -log-format=FORMAT    ` + logflags.UsageFormat + `
  -notify-private       Allow notifications to addresses that are not public: this machine, private networks. People who may
                        administer a workspace can then make the service send requests there.
  -smtp=URL, -smtp-from=ADDRESS, -smtp-password-file=FILE
                        The server for notifications by mail, their sender, and the password of USER:
                        smtp://[USER@]HOST[:PORT], or smtps:// for a server with implicit TLS.
`

func runServe(ctx context.Context, a *app, args []string) int {
	o := serving.Options{
		Environ: a.Environ, Dir: a.Dir, Out: a.Stdout, Watched: command.Terminal(a.Stdout), Tell: a.Tell,
		Version: build.Version(), EngineVersion: engineVersion, Stop: a.Interrupts.Stop, Hold: a.Interrupts.Hold,
		CLI: a.CLI, Services: a.Services,
		Connector: a.Connector, Who: command.Who, Stderr: a.Stderr,
	}
	var parallelism parallelismFlag
	var logs logflags.Settings
	f := a.NewFlags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8443", "")
	f.StringVar(&o.Address, "address", "", "")
	f.StringVar(&o.Data, "data", "", "")
	f.StringVar(&o.KeyFile, "key-file", "", "")
	f.StringVar(&o.CertFile, "tls-cert", "", "")
	f.StringVar(&o.CertKey, "tls-key", "", "")
	f.StringVar(&o.TrustedProxies, "trusted-proxies", "", "")
	f.StringVar(&o.Organization, "organization", "main", "")
	f.IntVar(&o.Plans, "plans", runtime.NumCPU(), "")
	f.IntVar(&o.Applies, "applies", 50, "")
	engines := 0
	if a.Alone { // else this process has other invocations, and is not the program itself
		engines = serving.DefaultEngines()
	}
	f.IntVar(&o.Engines, "engines", engines, "")
	f.Int64Var(&o.EngineMemory, "engine-memory", 0, "")
	f.DurationVar(&o.PlanTime, "plan-time", 0, "")
	f.Int64Var(&o.PlanSize, "plan-size", serving.DefaultPlanSize, "")
	f.Int64Var(&o.ProgramProcesses, "program-processes", 8192, "")
	f.Int64Var(&o.ProgramFileSize, "program-file-size", 8192, "")
	f.Func("allow-read", "", func(list string) error {
		o.Readable = append(o.Readable, filepath.SplitList(list)...)
		return nil
	})
	f.Func("allow-write", "", func(list string) error {
		o.Writable = append(o.Writable, filepath.SplitList(list)...)
		return nil
	})
	f.StringVar(&o.Group, "group", "", "")
	f.StringVar(&o.Member, "member", "", "")
	f.StringVar(&o.MemberAddress, "member-address", "", "")
	f.IntVar(&o.WatchReads, "watch-reads", 20, "")
	f.IntVar(&o.Retention.Runs, "keep-runs", 0, "")
	f.IntVar(&o.Retention.States, "keep-states", 0, "")
	f.DurationVar(&o.Retention.For, "keep-for", 0, "")
	f.StringVar(&o.Metrics, "metrics", "", "")
	f.BoolVar(&o.NotifyPrivate, "notify-private", false, "")
	f.StringVar(&o.OpenIDIssuer, "oidc-issuer", "", "")
	f.StringVar(&o.OpenIDClient, "oidc-client", "", "")
	f.StringVar(&o.OpenIDSecretFile, "oidc-secret-file", "", "")
	f.StringVar(&o.OpenIDGroups, "oidc-groups", "groups", "")
	f.StringVar(&o.MailServer, "smtp", "", "")
	f.StringVar(&o.MailFrom, "smtp-from", "", "")
	f.StringVar(&o.MailPasswordFile, "smtp-password-file", "", "")
	logs.Flags(f)
	parallelism.register(f)
	if code, done := a.Parse(f, serveUsage, args); done {
		return code
	}
	o.Parallelism = parallelism.value
	o.LogLevel, o.LogFormat = logs.Values()
	fail := func(what string, err error) int {
		a.Printer(viewFlags{}).Diagnostics(diag.Errors(what, err.Error()+".", nil)) //nolint:errcheck // there is no other output
		return 1
	}
	var err error
	if o.Log, err = logs.New(a.Stderr); err != nil {
		return fail("The service cannot start", err)
	}
	if err := o.Complete(f.Args()); err != nil {
		return fail("The service cannot start", err)
	}
	if a.Alone {
		if err := serving.Forget(a.Environ); err != nil {
			return fail("The service cannot start", err)
		}
	}
	defer a.Interrupts.Parts(command.PartsFromService)()
	err = serving.Serve(ctx, o)
	switch {
	case errors.As(err, new(*serving.StartError)):
		return fail("The service cannot start", err)
	case err != nil:
		return fail("The service has ended", err)
	}
	return 0
}
