// Package service manages workspaces, with their states and runs. A Service consists of parts, one for each kind of
// thing; some of them are in packages below, which do not know the others.
//
// It implements no protocol and no pages: service/tfe, service/httpstate and others do, with its parts. It
// does not plan or apply: the Engine does. A change is durable when the method that makes it returns without an
// error.
package service

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/audit"
	"github.com/millipede-iac/millipede/service/drift"
	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/identity"
	"github.com/millipede-iac/millipede/service/notifications"
	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/retention"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/timelines"
	"github.com/millipede-iac/millipede/service/variables"
	"github.com/millipede-iac/millipede/service/work"
)

// Options configure a service.
type Options struct {
	Store  *store.Store
	Engine work.Engine
	// Apart says that engines are other processes, so that no configuration can end this one.
	Apart bool
	// Homes gives access to the files that the engine keeps in the directory of the store; nil if there are
	// none.
	Homes store.Homes
	Now   func() time.Time // default time.Now
	// Version is the version of Millipede; each run records it.
	Version string
	Logger  *slog.Logger // default: nothing is logged
	// Capacity gives access to workers and limits; nil if they are not shown.
	Capacity Capacity

	// Group is the group whose leader this process is; nil without one.
	Group Group

	// Host is the address at which clients reach the service, HOST or HOST:PORT. It is part of the name of the
	// environment variable with a run's token. Empty for none.
	Host string

	// Plans and Applies bound the number of phases that are executed at the same time.
	Plans, Applies int
	// WatchReads is how many objects are read at the same time to watch for drift; default 1.
	WatchReads int
	// MaxConfiguration and MaxState bound the size of uploads, in bytes.
	MaxConfiguration, MaxState int64
	// Became is called with each new status of a run, after it is committed. It must not block. May be nil.
	Became func(record.RunStatus)
	// Mail says whether notifications can be sent by mail.
	Mail bool
	// Retention says how long records of the past are kept.
	Retention record.Retention
	// Bounds are those on the plans of all workspaces.
	Bounds record.Bounds
	// ForceCancelAfter is the time between a cancellation and the first moment at which the run may be
	// force-canceled; default 10 s.
	ForceCancelAfter time.Duration
	// RenewIdentity is the interval at which the files with identity tokens of a phase get new tokens; 0 means a
	// quarter of the time for which a token is valid.
	RenewIdentity time.Duration
}

// Service manages workspaces and runs, by its parts. Safe for concurrent use. Runs are executed while Run, which is
// called once, is running.
type Service struct {
	*shared
	opts Options

	*accounts.Accounts

	Workspaces     *Workspaces
	Variables      *variables.Variables
	VariableSets   *variables.Sets
	Configurations *Configurations
	States         *States
	Objects        *Objects
	Drift          *drift.Findings
	Doubts         *Doubts
	Halts          *Halts
	Notifications  *notifications.Notifications
	RunTriggers    *RunTriggers
	Retention      *retention.Sweeper

	Runs      *Runs
	Plans     *Plans
	Logs      *Logs
	Timelines *timelines.Timelines
	Identity  *Identity
	Pools     *Pools
	Upgrades  *Upgrades
	Members   *Members
	Audit     *audit.Log

	queue       *queue.Queue
	transitions *transitions
	outlines    *outlines
	homes       *homes
	watcher     *drift.Watcher
}

// shared is what all parts of the service use.
type shared struct {
	store  *store.Store
	now    func() time.Time
	log    *slog.Logger
	stream *events.Stream
	audit  *audit.Log
}

// New returns a service with its store. The caller calls Run, and closes the store after Run has returned.
func New(o Options) (*Service, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Homes == nil {
		o.Homes = noHomes{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Plans <= 0 || o.Applies <= 0 || o.MaxConfiguration <= 0 || o.MaxState <= 0 {
		return nil, errors.New("a service needs its limits")
	}
	o.WatchReads = max(1, o.WatchReads)
	if o.Became == nil {
		o.Became = func(record.RunStatus) {}
	}
	if o.RenewIdentity == 0 {
		o.RenewIdentity = identity.Term / 4
	}
	if o.ForceCancelAfter == 0 {
		o.ForceCancelAfter = 10 * time.Second
	}
	s := assemble(&o)
	o.Store.OnUnsure(s.queue.RequireReread)
	return s, s.recover()
}

// assemble makes the parts of a service, and connects them. Some parts know each other, so that they are connected
// after both are made.
func assemble(o *Options) *Service {
	c := &shared{store: o.Store, now: o.Now, log: o.Logger, stream: events.New(o.Now),
		audit: &audit.Log{Store: o.Store, Now: o.Now}}
	s := &Service{shared: c, opts: *o, outlines: newOutlines(c)}
	s.VariableSets = variables.NewSets(o.Store, c.audit)
	s.Accounts = accounts.New(o.Store, o.Now, o.Logger, c.audit, organizationWorkspaces{s.VariableSets})
	s.Notifications = notifications.New(o.Store, o.Now, o.Logger, c.audit, o.Mail)
	s.transitions = &transitions{shared: c, notifications: s.Notifications, became: o.Became, version: o.Version}
	s.Logs = newLogs(c)
	carriers := &phases{shared: c, engine: o.Engine, host: o.Host, tokens: s.Tokens, outlines: s.outlines,
		bounds: o.Bounds}
	deaths := 2 // others die with this process
	if o.Apart {
		deaths = 3 // the third time, a plan was in a process of its own
	}
	q := queue.New(queue.Options{Store: o.Store, Now: o.Now, Log: o.Logger, Plans: o.Plans, Applies: o.Applies,
		MaxDeaths:   deaths,
		Transitions: s.transitions, Phases: carriers, Logs: phaseLogs{s.Logs, o.Version}, Tell: c.tell})
	s.queue, s.transitions.queue, carriers.queue, s.Logs.queue = q, q, q, q
	s.Runs = &Runs{shared: c, queue: q, transitions: s.transitions, forceCancelAfter: o.ForceCancelAfter}
	s.Logs.runs = s.Runs
	s.Timelines = timelines.New(timelines.Options{Store: o.Store, Now: o.Now, Log: o.Logger, Stream: c.stream,
		Run: runOf(s.Runs.Find), RunOfPhase: runOf(s.Runs.OfPhase)})
	s.Pools = &Pools{shared: c, capacity: o.Capacity, runs: s.Runs, timelines: s.Timelines}
	s.Runs.pools = s.Pools
	s.Members = &Members{shared: c, group: o.Group}
	s.Upgrades = &Upgrades{shared: c, version: o.Version, capacity: o.Capacity, members: s.Members}
	s.Identity = &Identity{shared: c, host: o.Host, renewIdentity: o.RenewIdentity}
	carriers.identity, carriers.timelines = s.Identity, s.Timelines
	s.Drift = drift.New(drift.Options{Store: o.Store, Now: o.Now, Log: o.Logger, Engine: o.Engine, Reads: o.WatchReads,
		Outlines: s.outlines, Work: carriers.read, PlansWait: q.PlansWait, Deliver: s.Notifications.Deliver,
		Changed: c.tellAfter, CreateRun: s.Runs.Create})
	s.watcher = drift.NewWatcher(s.Drift)
	s.outlines.drift, s.outlines.queue = s.Drift, q
	s.homes = &homes{shared: c, kept: o.Homes}
	s.Workspaces = &Workspaces{shared: c, homes: s.homes, drift: s.Drift, runs: s.Runs, queue: q,
		transitions: s.transitions, watcher: s.watcher, bounds: o.Bounds, apart: o.Apart}
	uploads := &queues{}
	s.Variables = variables.New(o.Store, c.audit)
	s.Configurations = &Configurations{shared: c, maxConfiguration: o.MaxConfiguration, queue: q,
		transitions: s.transitions, uploads: uploads}
	s.States = &States{shared: c, users: s.Users, outlines: s.outlines, maxState: o.MaxState, uploads: uploads}
	s.Objects = &Objects{shared: c, engine: o.Engine, phases: carriers, queue: q, transitions: s.transitions}
	s.Doubts = &Doubts{shared: c, engine: o.Engine, phases: carriers, queue: q, transitions: s.transitions,
		timelines: s.Timelines, workspaces: s.Workspaces}
	s.Halts = &Halts{shared: c, queue: q}
	s.RunTriggers = &RunTriggers{shared: c}
	s.Retention = retention.New(retention.Options{Store: o.Store, Now: o.Now, Log: o.Logger, Default: o.Retention,
		DropRun: dropRun})
	s.Plans = &Plans{shared: c, engine: o.Engine, outlines: s.outlines, runs: s.Runs}
	s.Audit = c.audit
	return s
}

// runOf returns a function that returns the record of a run that find finds.
func runOf(find func(*rights.Actor, string) (*RunView, error)) func(*rights.Actor, string) (*record.Run, error) {
	return func(a *rights.Actor, id string) (*record.Run, error) {
		v, err := find(a, id)
		if err != nil {
			return nil, err
		}
		return &v.Run, nil
	}
}

// Run executes runs until ctx ends. It then stops the phases in progress as by an interrupt, waits for them,
// and returns.
func (s *Service) Run(ctx context.Context) error {
	s.Pools.applyDrains(ctx)
	var others sync.WaitGroup
	others.Go(func() { s.outlines.makeWanted(ctx) })
	others.Go(func() { s.Retention.SweepAlways(ctx) })
	others.Go(func() { s.homes.sweepAlways(ctx) })
	others.Go(func() { s.watcher.Run(ctx) })
	err := s.queue.Run(ctx)
	s.stream.Close()
	others.Wait()
	return errors.Join(err, s.Logs.close())
}

// Page selects a part of a list. Number counts from 1.
type Page struct{ Number, Size int }

// Cut returns the part of a list that a page selects.
func Cut[T any](all []T, p Page) []T {
	from := min(len(all), max(0, p.Number-1)*p.Size)
	return all[from:min(len(all), from+p.Size)]
}
