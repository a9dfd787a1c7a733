package main

import (
	"context"
	"runtime"

	"github.com/millipede-iac/millipede/cmd/command"
	"github.com/millipede-iac/millipede/cmd/logflags"
	"github.com/millipede-iac/millipede/cmd/serving"
	"github.com/millipede-iac/millipede/lang/diag"
)

const serveUsage = `
Usage: coordinator [global options] serve [options]

  Keeps the states of many workspaces, and carries out their runs, for many people and programs: command lines with a cloud
  block or the backends "remote" and "http", and everything else that speaks the API of HCP Terraform.

Options:
  -listen=ADDRESS       Where to listen; default 127.0.0.1:8443.
  -address=URL          What clients reach the service at, when that is not where it listens: https://HOST.
  -data=DIR             Where everything is kept; default millipede in the user's data directory.
  -key-file=FILE        The key that seals the data. It is made when it is not there; keep it elsewhere than the data. Default
                        millipede/service.key in the user's configuration directory.
  -tls-cert=FILE, -tls-key=FILE
                        The certificate and its key. They are read again when they change. Without them the service makes its
                        own, of an authority of its own.
  -organization=NAME    The organization that is made at the first start; default main.
  -plans=N, -applies=N  How many plans compute, and how many applies go on, at a time; default the number of processors, and 50.
  -watch-reads=N        How many objects are read at a time to watch for drift, of all workspaces together; default 20.
  -keep-runs=N          How many ended runs a workspace keeps, with their logs, plans and configurations; default all.
  -keep-states=N        How many versions of its state a workspace keeps; default all.
  -keep-for=DURATION    How old runs and versions are at least that go, such as 720h; default 0.
  -parallelism=N        How many operations of a run go on at a time; default 10.
  -metrics=ADDRESS      Answer scrapes of Prometheus there, at /metrics, without a token and without TLS. Give an address
                        that only the scraper reaches, such as 127.0.0.1:9464. Default: none.
  -oidc-issuer=URL, -oidc-client=ID, -oidc-secret-file=FILE
                        Let people log in with their organization's OpenID provider: its address, and what it knows the
                        service by. It sends them back to /oauth/callback. Teams whose sso-team-id is a group there have
                        the members that the provider says.
  -oidc-groups=CLAIM    The claim with the groups that somebody is in; default groups.
  -log-level=LEVEL      ` + logflags.UsageLevel + `
  -log-format=FORMAT    ` + logflags.UsageFormat + `
  -notify-private       Let notifications go to addresses that are not public: this machine, private networks. Who may
                        administer a workspace can then have the service send requests there.
  -smtp=URL, -smtp-from=ADDRESS, -smtp-password-file=FILE
                        The server that takes notifications by mail, whom they come from, and the password of the user:
                        smtp://[USER@]HOST[:PORT], or smtps:// for a server that encrypts from the beginning.
`

func runServe(ctx context.Context, a *app, args []string) int {
	o := serving.Options{
		Environ: a.Environ, Dir: a.Dir, Out: a.Stdout, Tell: a.Tell, Version: version,
		EngineVersion: engineVersion, Stop: a.Interrupts.Stop, Hold: a.Interrupts.Hold, CLI: a.CLI, Services: a.Services,
		Connector: a.Connector, Who: command.Who,
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
	f.StringVar(&o.Organization, "organization", "main", "")
	f.IntVar(&o.Plans, "plans", runtime.NumCPU(), "")
	f.IntVar(&o.Applies, "applies", 50, "")
	f.IntVar(&o.WatchReads, "watch-reads", 20, "")
	f.IntVar(&o.Keep.Runs, "keep-runs", 0, "")
	f.IntVar(&o.Keep.States, "keep-states", 0, "")
	f.DurationVar(&o.Keep.For, "keep-for", 0, "")
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
	fail := func(what string, err error) int {
		a.Printer(viewFlags{}).Diagnostics(diag.Errors(what, err.Error()+".", nil)) //nolint:errcheck // there is nobody else to tell
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
	if err := serving.Serve(ctx, o); err != nil {
		return fail("The service has ended", err)
	}
	return 0
}
