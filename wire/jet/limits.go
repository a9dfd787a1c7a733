package jet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
)

// A limit is a durable consumer of the stream ADMIT, shared by all coordinators: the server delivers its messages in
// order, with at most MaxAckPending unacknowledged ones, even if processes die. A permit is such a message.

const limitPrefix = "limit-"

func limitConsumer(l wire.Limit, ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: limitPrefix + wire.Token(l.Name), FilterSubject: "admit." + wire.Token(l.Name) + ".>",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxDeliver:    -1, // with a maximum, a permit whose holder is gone would free its slot by itself
		MaxAckPending: l.Slots,
	}
}

// DeclareLimit implements wire.Semaphore.
func (s *semaphore) DeclareLimit(ctx context.Context, l wire.Limit) (wire.Limit, error) {
	if err := l.Check(); err != nil {
		return wire.Limit{}, err
	}
	cfg := limitConsumer(l, s.c.opts.ackWait(permitAckWait))
	ctx, cancel := s.c.bounded(ctx)
	defer cancel()
	for tries := 0; ; tries++ {
		consumer, err := s.c.topology.consumer(ctx, admitStream, cfg)
		if err != nil {
			return wire.Limit{}, fmt.Errorf("declaring limit %q: %w", l.Name, err)
		}
		info, err := consumer.Info(ctx)
		switch {
		case gone(err) && tries == 0: // somebody has deleted it
			s.c.topology.slot(admitStream, cfg.Durable).forget()
			continue
		case err != nil:
			return wire.Limit{}, fmt.Errorf("declaring limit %q: %w", l.Name, problem(err))
		}
		l.Slots = info.Config.MaxAckPending
		s.declare(l)
		return l, nil
	}
}

// ResizeLimit implements wire.Semaphore. Permits above a smaller limit stay held; nobody is admitted until enough of
// them are released.
func (s *semaphore) ResizeLimit(ctx context.Context, l wire.Limit) error {
	if err := l.Check(); err != nil {
		return err
	}
	consumer, err := s.limitOf(ctx, l.Name)
	if err != nil {
		return err
	}
	ctx, cancel := s.c.bounded(ctx)
	defer cancel()
	cfg := consumer.CachedInfo().Config
	cfg.MaxAckPending = l.Slots
	if _, err := s.c.js.UpdateConsumer(ctx, admitStream, cfg); err != nil {
		if gone(err) {
			s.c.topology.slot(admitStream, cfg.Durable).forget()
		}
		return fmt.Errorf("resizing limit %q to %d: %w", l.Name, l.Slots, problem(err))
	}
	s.declare(l)
	return nil
}

// limit returns the consumer of a limit that somebody has declared.
func (s *semaphore) limitOf(ctx context.Context, name string) (jetstream.Consumer, error) {
	consumer, err := s.c.topology.slot(admitStream, limitPrefix+wire.Token(name)).get(func() (jetstream.Consumer, error) {
		ctx, cancel := s.c.bounded(ctx)
		defer cancel()
		return s.c.js.Consumer(ctx, admitStream, limitPrefix+wire.Token(name))
	})
	if l, ours := s.declared(name); errors.Is(err, jetstream.ErrConsumerNotFound) && ours && s.c.opts.Provision {
		// Somebody has deleted it. Those that hold its permits are handed theirs again.
		consumer, err = s.c.topology.consumer(ctx, admitStream, limitConsumer(l, s.c.opts.ackWait(permitAckWait)))
	}
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("limit %q: %w", name, wire.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for limit %q: %w", name, problem(err))
	}
	return consumer, nil
}

// Limits implements wire.Semaphore. It reads every admission message, so it is for people, not for loops.
func (s *semaphore) Limits(ctx context.Context) ([]wire.LimitStatus, error) {
	admissions, err := s.c.topology.existing(ctx, admitStream)
	if err != nil || admissions == nil {
		return nil, err
	}
	ctx, cancel := s.c.bounded(ctx)
	defer cancel()
	var list []wire.LimitStatus
	consumers := admissions.ListConsumers(ctx)
	for info := range consumers.Info() {
		token, ok := strings.CutPrefix(info.Name, limitPrefix)
		name, err := wire.Untoken(token)
		if !ok || err != nil {
			continue // not one of ours
		}
		status := wire.LimitStatus{Limit: wire.Limit{Name: name, Slots: info.Config.MaxAckPending}}
		if err := s.readAdmissions(ctx, &status, info.Delivered.Stream); err != nil {
			return nil, fmt.Errorf("reading the requests of limit %q: %w", name, err)
		}
		list = append(list, status)
	}
	if err := consumers.Err(); err != nil {
		return nil, fmt.Errorf("listing the limits: %w", problem(err))
	}
	s.askHolders(ctx, list)
	slices.SortFunc(list, func(a, b wire.LimitStatus) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

const (
	// silentAfter is how long a coordinator has to answer whether it is there.
	silentAfter = 300 * time.Millisecond
	// mostAsked is how many coordinators are asked.
	mostAsked = 64
)

// askHolders asks the coordinators that hold permits whether they are there, and what they hold them for.
func (s *semaphore) askHolders(ctx context.Context, list []wire.LimitStatus) {
	silent := map[string]wire.Silence{}
	for _, l := range list {
		for _, r := range l.Held {
			if len(silent) < mostAsked {
				silent[r.Coordinator] = 0
			}
		}
	}
	type permit struct{ limit, coordinator, id string }
	uses := map[permit]wire.PermitUse{}
	var mu sync.Mutex // guards the values of silent, and uses
	var group sync.WaitGroup
	for _, coordinator := range slices.Collect(maps.Keys(silent)) {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, silentAfter)
			defer cancel()
			m, err := s.c.nc.RequestWithContext(ctx, wire.PermitSubject(coordinator), nil)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, nats.ErrNoResponders):
				silent[coordinator] = wire.Gone
			case err != nil:
				silent[coordinator] = wire.Mute
			default:
				told, _ := wire.DecodePermitUses(m.Data) // another version says nothing
				for _, u := range told {
					uses[permit{u.Limit, coordinator, u.ID}] = u
				}
			}
		})
	}
	group.Wait()
	for i := range list {
		for _, r := range list[i].Held {
			if u, told := uses[permit{list[i].Name, r.Coordinator, r.ID}]; told {
				if list[i].Uses == nil {
					list[i].Uses = map[string]wire.PermitUse{}
				}
				list[i].Uses[r.ID] = u
			}
			if why := silent[r.Coordinator]; why != 0 {
				if list[i].Silent == nil {
					list[i].Silent = map[string]wire.Silence{}
				}
				list[i].Silent[r.Coordinator] = why
			}
		}
	}
}

// readAdmissions sorts the requests of a limit. The stream keeps a message until its permit is released, and delivers
// them in order. So the requests up to the last delivered one are held, and those behind it wait.
func (s *semaphore) readAdmissions(ctx context.Context, status *wire.LimitStatus, delivered uint64) error {
	return s.eachAdmission(ctx, "admit."+wire.Token(status.Name)+".>",
		func(m *storedMessage, r wire.PermitRequest) error {
			if m.Sequence <= delivered {
				status.Held = append(status.Held, r)
			} else {
				status.Waiting = append(status.Waiting, r)
			}
			return nil
		})
}

// eachAdmission calls fn for every admission message of a subject, in their order, until it fails.
func (s *semaphore) eachAdmission(ctx context.Context, subject string,
	fn func(*storedMessage, wire.PermitRequest) error) error {
	for seq := uint64(1); ; {
		m, err := s.c.getMessage(ctx, admitStream, map[string]any{"seq": seq, "next_by_subj": subject})
		if errors.Is(err, wire.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := wire.DecodePermitRequest(m.Data)
		if err != nil {
			return err
		}
		if err := fn(m, r); err != nil {
			return err
		}
		seq = m.Sequence + 1
	}
}

// contendedFor is how long an answer of Contended is good.
const contendedFor = 50 * time.Millisecond

// Contended implements wire.Semaphore. The answer may be 50 ms old.
func (s *semaphore) Contended(ctx context.Context, limit, run string) (bool, error) {
	l := s.limit(limit)
	l.mu.Lock()
	waiting, at := l.queued, l.queuedAt
	own := l.waitingOf(run)
	l.mu.Unlock()
	if now := time.Now(); at.IsZero() || now.Sub(at) > contendedFor {
		consumer, err := s.limitOf(ctx, limit)
		if err != nil {
			return false, err
		}
		ctx, cancel := s.c.bounded(ctx)
		defer cancel()
		info, err := consumer.Info(ctx)
		if err != nil {
			if gone(err) {
				s.c.topology.slot(admitStream, limitPrefix+wire.Token(limit)).forget()
			}
			return false, fmt.Errorf("asking who waits for limit %q: %w", limit, problem(err))
		}
		waiting = int(info.NumPending)
		l.mu.Lock()
		l.queued, l.queuedAt = waiting, now
		own = l.waitingOf(run)
		l.mu.Unlock()
	}
	return waiting > own, nil
}
