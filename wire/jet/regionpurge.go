package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/wire"
)

// cleanPatience is how long the end of a run waits for the store of a region, and not longer: what could not be cleaned
// there is noted at the hub, and cleaned at the end of a later run that uses the pool.
const cleanPatience = 3 * time.Second

// cleanRegion removes everything of a run from the store of a pool, and of earlier runs that could not be cleaned.
// If the store does not answer, it notes the run. The notes are at the hub, so any coordinator finds them.
func (p *purger) cleanRegion(ctx context.Context, pool, run string) error {
	err := p.cleanInRegion(ctx, pool, run)
	if err != nil && ctx.Err() == nil && (temporary(err) || errors.Is(err, wire.ErrStore)) {
		if note := p.noteLeft(ctx, pool, run); note != nil {
			return errors.Join(err, note)
		}
		p.c.opts.Log(fmt.Sprintf("the message store of the pool %s does not answer: what run %s has left there will be "+
			"removed at the end of a later run (%v)", pool, run, err))
		return nil
	}
	if err != nil {
		return err
	}
	return p.cleanLeft(ctx, pool)
}

// cleanInRegion is cleanRegion for one run.
func (p *purger) cleanInRegion(ctx context.Context, pool, run string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanPatience)
	defer cancel()
	streams := []string{tasksStream(pool), claimsStream(pool), keysStream(pool), resultsStream(pool)}
	if err := p.purgeStreams(ctx, streams, run); err != nil {
		return err
	}
	if err := (bucket{p.c, poolBucket(pool)}).dropSpilled(ctx, run); err != nil {
		return err
	}
	if err := p.markAllDone(ctx, streams, run); err != nil {
		return err
	}
	return p.emptyRegisters(ctx, streams, purgeGrace)
}

// leftSubject is where a run is noted that could not be cleaned in the store of a pool.
func leftSubject(pool, run string) string {
	return leftPrefix + wire.Token(pool) + "." + wire.Token(run)
}

func (p *purger) noteLeft(ctx context.Context, pool, run string) error {
	return p.c.store(ctx, &nats.Msg{Subject: leftSubject(pool, run)})
}

// mostLeft is how many earlier runs the end of a run cleans.
const mostLeft = 64

// cleanLeft cleans earlier runs. Its errors are none of the run that ends: the notes stay.
func (p *purger) cleanLeft(ctx context.Context, pool string) error {
	prefix := leftPrefix + wire.Token(pool) + "."
	for range mostLeft {
		m, err := p.c.getMessage(ctx, settingsStream, map[string]any{"seq": 1, "next_by_subj": prefix + "*"})
		if err != nil {
			return ignore(err, wire.ErrNotFound)
		}
		run, err := wire.Untoken(strings.TrimPrefix(m.Subject, prefix))
		if err == nil {
			err = p.cleanInRegion(ctx, pool, run)
		}
		if err == nil {
			err = p.c.topology.purge(ctx, settingsStream, m.Subject)
		}
		if err != nil {
			p.c.opts.Log(fmt.Sprintf("cleaning the message store of the pool %s: %v", pool, err))
			return nil
		}
	}
	return nil
}
