package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
)

// settings are the stored settings of pools, by name.
type settings map[string]setting

type setting struct {
	Domain string `json:"domain,omitempty"`
}

// PoolSettings reads and changes where the message stores of pools are. It is valid as long as its connection.
type PoolSettings struct{ c *Conn }

// PoolSettings returns the settings that the servers keep for pools.
func (c *Conn) PoolSettings() PoolSettings { return PoolSettings{c} }

// read returns the stored settings, and the sequence of their message; 0 if nobody has set anything.
func (p PoolSettings) read(ctx context.Context) (settings, uint64, error) {
	all := settings{}
	if p.c.opts.inProcess != nil {
		return all, 0, nil
	}
	m, err := p.c.lastMessage(ctx, settingsStream, settingsSubject)
	if errors.Is(err, wire.ErrNotFound) {
		return all, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &all)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading the settings of pools: %w", err)
	}
	return all, m.Sequence, nil
}

// Domains returns the domains of all pools that somebody has set, by pool.
func (p PoolSettings) Domains(ctx context.Context) (map[string]string, error) {
	all, _, err := p.read(ctx)
	out := map[string]string{}
	for pool, s := range all {
		out[pool] = s.Domain
	}
	return out, err
}

// SetDomain says where the message store of a pool is: in a JetStream domain, which must answer, or at the hub for an
// empty one. The former store must have nothing of runs that have not ended; its streams of the pool are removed.
// Workers and coordinators that are connected find out when they connect again. It returns an *UnfinishedError for runs
// that have not ended.
func (p PoolSettings) SetDomain(ctx context.Context, pool, domain string) error {
	if p.c.opts.inProcess != nil {
		return errors.New("an embedded server has no domains")
	}
	if domain != "" && wire.Token(domain) != domain {
		return fmt.Errorf("%q is not the name of a domain: it may have letters, digits, - and _", domain)
	}
	if err := p.c.topology.ensure(ctx, settingsStream); err != nil {
		return err
	}
	all, last, err := p.read(ctx)
	if err == nil {
		err = p.c.regions.adopt(all)
	}
	if err != nil || all[pool].Domain == domain {
		return err
	}
	if err := p.Answers(ctx, domain); err != nil {
		return err
	}
	if err := p.leaveStore(ctx, pool); err != nil {
		return err
	}
	all[pool] = setting{domain}
	if domain == "" {
		delete(all, pool)
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	err = p.c.store(ctx, &nats.Msg{Subject: settingsSubject, Data: data},
		jetstream.WithExpectLastSequencePerSubject(last))
	if conflict(err) {
		return errors.New("somebody else has changed the settings of pools at the same moment: try it again")
	}
	return err
}

// Answers checks that the JetStream of a domain answers under its name.
func (p PoolSettings) Answers(ctx context.Context, domain string) error {
	if domain == "" {
		return nil
	}
	js, err := jetstream.NewWithDomain(p.c.nc, domain, jetstream.WithDefaultTimeout(p.c.opts.Timeout))
	if err != nil {
		return err
	}
	ctx, cancel := p.c.bounded(ctx)
	defer cancel()
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return fmt.Errorf("the JetStream domain %q does not answer. Start the server of the region, check its leaf node, "+
			"and import $JS.%s.API.> into the account of the coordinators: %w", domain, domain, problem(err))
	}
	if info.Domain != domain {
		return fmt.Errorf("%w: who answers for the domain %q is the domain %q", wire.ErrElsewhere, domain, info.Domain)
	}
	return nil
}

// UnfinishedError says that a store has messages of runs that have not ended.
type UnfinishedError struct {
	Pool string
	Runs []string
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("the message store of the pool %q has messages of runs that have not ended: %s. End them first "+
		"(coordinator runs list, runs resume, runs cancel)", e.Pool, strings.Join(e.Runs, ", "))
}

// leaveStore removes the streams of a pool from its present store. Registers of runs that have ended keep them for as
// long as a worker may hold a task that it has fetched before.
func (p PoolSettings) leaveStore(ctx context.Context, pool string) error {
	names := []string{tasksStream(pool), resultsStream(pool), keysStream(pool), bucket{p.c, poolBucket(pool)}.stream(),
		claimsStream(pool)} // the registers last: a crash in between leaves them to be found
	runs := map[string]bool{}
	age := claimWindow
	for _, name := range names {
		s, err := p.c.topology.existing(ctx, name)
		if err != nil {
			return fmt.Errorf("looking at stream %s: %w", name, err)
		}
		if s == nil {
			continue
		}
		asking, cancel := p.c.bounded(ctx)
		info, err := s.Info(asking, jetstream.WithSubjectFilter(">"))
		cancel()
		if err != nil {
			return fmt.Errorf("looking at stream %s: %w", name, problem(err))
		}
		for run := range unfinishedIn(info.State.Subjects) {
			runs[run] = true
		}
		if _, kind := poolOf(name); kind == registersOfPool && info.State.Msgs > 0 {
			age = info.TimeStamp.Sub(info.State.LastTime)
		}
	}
	if len(runs) > 0 {
		return &UnfinishedError{pool, slices.Sorted(maps.Keys(runs))}
	}
	if age < claimWindow {
		return fmt.Errorf("the last run in the pool %q ended %s ago: its message store can be changed %s after that",
			pool, age.Round(time.Second), claimWindow)
	}
	for _, name := range names {
		deleting, cancel := p.c.bounded(ctx)
		err := p.c.regions.at(name).DeleteStream(deleting, name)
		cancel()
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("removing stream %s: %w", name, problem(err))
		}
		p.c.topology.streamSlot(name).forget()
	}
	p.c.regions.mu.Lock()
	delete(p.c.regions.used, wire.Token(pool))
	p.c.regions.mu.Unlock()
	return nil
}

// unfinishedIn returns the runs of tasks and results, and of registers without the mark that their run is done.
func unfinishedIn(subjects map[string]uint64) map[string]bool {
	runs := map[string]bool{}
	for subject := range subjects {
		t := strings.Split(subject, ".")
		var token string
		switch {
		case (t[0] == "task" || t[0] == "result") && len(t) == 5:
			token = t[3]
		case t[0] == "claim" && len(t) == 4 && subjects["done."+t[1]+"."+t[2]] == 0:
			token = t[2]
		default:
			continue
		}
		run, err := wire.Untoken(token)
		if err != nil {
			run = token
		}
		runs[run] = true
	}
	return runs
}
