package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// The content of a run's bucket.
var (
	runKey       = []byte("run")    // journal.Run
	planKey      = []byte("plan")   // the plan, compressed
	eventsBucket = []byte("events") // number -> the events of one commit
)

// BeginRun records a run and its plan.
func (s *Store) BeginRun(ctx context.Context, lockID string, r journal.Run, plan []byte) error {
	if err := s.unlockForWriting(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	packed := compress(plan)
	return s.write(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, r.Workspace)
		if err != nil {
			return err
		}
		request, err := s.fence(w, lockID)
		if err == nil && request != nil {
			err = s.begun(w, request, r.ID)
		}
		if err != nil {
			return err
		}
		b, err := tx.Bucket(runsBucket).CreateBucket([]byte(r.ID))
		if err != nil {
			return fmt.Errorf("recording run %s: %w", r.ID, err)
		}
		if err := b.Put(runKey, data); err != nil {
			return err
		}
		if err := s.runBox(b, r.ID).put(planKey, packed); err != nil {
			return err
		}
		_, err = b.CreateBucket(eventsBucket)
		return err
	})
}

// EndRun records how a run ended, and removes the oldest ended runs.
func (s *Store) EndRun(ctx context.Context, lockID, id, status string, at time.Time) error {
	return s.write(ctx, func(tx *recorded.Tx) error {
		r, _, err := findRun(tx, id)
		if err != nil {
			return err
		}
		w, err := s.workspace(tx, r.Workspace)
		if err != nil {
			return err
		}
		if _, err := s.fence(w, lockID); err != nil {
			return err
		}
		return endRun(tx, id, journal.Ending{Status: status, At: at})
	})
}

// endRun is EndRun, for callers that have checked the lock.
func endRun(tx *recorded.Tx, id string, end journal.Ending) error {
	r, b, err := findRun(tx, id)
	if err != nil {
		return err
	}
	r.Status, r.Ended = end.Status, end.At
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := b.Put(runKey, data); err != nil {
		return err
	}
	return pruneRuns(tx, r.Workspace, journal.KeptRuns, false)
}

// Runs lists the runs of a workspace, newest first.
func (s *Store) Runs(ctx context.Context, name string) (runs []journal.Run, err error) {
	err = s.read(ctx, func(tx *recorded.Tx) error {
		if _, err := s.workspace(tx, name); err != nil {
			return err
		}
		runs, err = runsOf(tx, name)
		return err
	})
	return runs, err
}

// RunPlan returns a run and its plan.
func (s *Store) RunPlan(ctx context.Context, id string) (r journal.Run, plan []byte, err error) {
	if err := s.unlock(ctx); err != nil {
		return r, nil, err
	}
	err = s.read(ctx, func(tx *recorded.Tx) error {
		var b *recorded.Bucket
		if r, b, err = findRun(tx, id); err != nil {
			return err
		}
		packed, err := s.runBox(b, id).get(planKey)
		if err == nil {
			plan, err = decompress(packed)
		}
		if err != nil {
			return damaged(s.path, fmt.Sprintf("the plan of run %s: %s", id, err))
		}
		return nil
	})
	return r, plan, err
}

// Events returns the events of a run.
func (s *Store) Events(ctx context.Context, id string) (events []journal.Event, err error) {
	if err := s.unlock(ctx); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(tx *recorded.Tx) error {
		_, b, err := findRun(tx, id)
		if err != nil {
			return err
		}
		list := s.runBox(b.Bucket(eventsBucket), id, string(eventsBucket))
		return list.b.ForEach(func(k, v []byte) error {
			data, err := list.open(k, v)
			if err != nil {
				return damaged(s.path, fmt.Sprintf("the events of run %s: %s", id, err))
			}
			batch, err := decodeEvents(data)
			if err != nil {
				return damaged(s.path, fmt.Sprintf("the events of run %s: %s", id, err))
			}
			events = append(events, batch...)
			return nil
		})
	})
	return events, err
}

// decodeEvents decodes the events of one commit.
func decodeEvents(data []byte) ([]journal.Event, error) {
	const depth = 8 // an event has two levels
	var events []journal.Event
	if err := coding.Unmarshal(data, depth, &events); err != nil {
		return nil, err
	}
	for i := range events {
		events[i].At = events[i].At.UTC()
	}
	return events, nil
}

// appendEvents adds events to a run's journal.
func (s *Store) appendEvents(tx *recorded.Tx, run string, events []journal.Event) error {
	if run == "" || len(events) == 0 {
		return nil
	}
	_, b, err := findRun(tx, run)
	if err != nil {
		return err
	}
	data, err := msgpack.Marshal(events)
	if err != nil {
		return err
	}
	list := s.runBox(b.Bucket(eventsBucket), run, string(eventsBucket))
	number, err := list.b.NextSequence()
	if err != nil {
		return err
	}
	list.b.GrowsAtItsEnd() // they only grow at the end
	return list.put(binary.BigEndian.AppendUint64(nil, number), data)
}

// runBox returns the box of a bucket of a run.
func (s *Store) runBox(b *recorded.Bucket, id string, within ...string) box {
	return s.box(b, append([]string{string(runsBucket), id}, within...)...)
}

func findRun(tx *recorded.Tx, id string) (journal.Run, *recorded.Bucket, error) {
	var r journal.Run
	b := tx.Bucket(runsBucket).Bucket([]byte(id))
	if b == nil {
		return r, nil, fmt.Errorf("run %s: %w", id, journal.ErrNoRun)
	}
	if err := json.Unmarshal(b.Get(runKey), &r); err != nil {
		return r, nil, fmt.Errorf("run %s: %w: %w", id, ErrDamaged, err)
	}
	return r, b, nil
}

// runsOf returns the runs of a workspace, newest first.
func runsOf(tx *recorded.Tx, workspace string) ([]journal.Run, error) {
	var runs []journal.Run
	err := tx.Bucket(runsBucket).ForEachBucket(func(id []byte) error {
		r, _, err := findRun(tx, string(id))
		if err == nil && r.Workspace == workspace {
			runs = append(runs, r)
		}
		return err
	})
	slices.SortFunc(runs, func(a, b journal.Run) int {
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return bytes.Compare([]byte(b.ID), []byte(a.ID))
	})
	return runs, err
}

// pruneRuns removes all but the newest ended runs of a workspace. It keeps those that have not ended, unless all is
// set.
func pruneRuns(tx *recorded.Tx, workspace string, keep int, all bool) error {
	runs, err := runsOf(tx, workspace)
	if err != nil {
		return err
	}
	for _, r := range runs {
		switch {
		case r.Status == journal.Running && !all:
		case keep > 0:
			keep--
		default:
			if err := tx.Bucket(runsBucket).DeleteBucket([]byte(r.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// One encoder and one decoder serve all: both may be used concurrently for whole buffers.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		// With the default window, the encoder would keep 8 MiB.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("bolt: " + err.Error()) // only for invalid options
		}
		return e
	})
	decoderOf = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			panic("bolt: " + err.Error())
		}
		return d
	})
)

func compress(data []byte) []byte            { return encoder().EncodeAll(data, nil) }
func decompress(data []byte) ([]byte, error) { return decoderOf().DecodeAll(data, nil) }
