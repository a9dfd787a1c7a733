package act

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// Stage is where calls take place. It is safe for concurrent use.
type Stage struct {
	Log   *record.Log
	Cloud *cloud.Cloud
	// Exit ends the process; it does not return, except in tests.
	Exit func(code int)
	// Complaints gets the last output of a crashing process.
	Complaints io.Writer
}

// Env has the settings of a provider from the environment.
type Env struct {
	Record, Cloud string // paths; empty for none
	Worker, Pool  string
}

// ReadEnv reads FLEET_RECORD, FLEET_CLOUD, MILLIPEDE_WORKER and MILLIPEDE_POOL.
func ReadEnv(getenv func(string) string) Env {
	return Env{
		Record: getenv("FLEET_RECORD"), Cloud: getenv("FLEET_CLOUD"),
		Worker: getenv("MILLIPEDE_WORKER"), Pool: getenv("MILLIPEDE_POOL"),
	}
}

// Open sets up the stage of a provider's process. The caller closes its Log.
func (e Env) Open(provider string, chance io.Reader) (*Stage, error) {
	base := record.Entry{PID: os.Getpid(), Provider: provider, Worker: e.Worker, Pool: e.Pool}
	log, err := record.Append(e.Record, base, time.Now)
	if err != nil {
		return nil, err
	}
	return &Stage{Log: log, Cloud: cloud.Open(e.Cloud, chance, time.Now), Exit: os.Exit, Complaints: os.Stderr}, nil
}

// ExitCode is the status of a process that crashed on command.
const ExitCode = 42

// Do carries out a call: it writes the start, lets the time of the operation pass, makes the trouble that the script
// has before the effect, calls effect, makes the trouble after it, and writes the end. It returns the first error.
// The effect may fill the call's entry in (ID, Region). It is not called when the context ends before.
func (s *Stage) Do(ctx context.Context, e record.Entry, script Script, effect func(*record.Entry) error) error {
	call, err := s.Log.Start(e)
	if err != nil {
		return err
	}
	err = s.perform(ctx, &call.Entry, script, effect)
	return errors.Join(err, call.End(err))
}

func (s *Stage) perform(ctx context.Context, e *record.Entry, script Script, effect func(*record.Entry) error) error {
	op := string(e.Op)
	if script.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if err := sleep(ctx, script.Last[e.Op]); err != nil {
		return fmt.Errorf("the %s was cancelled: %w", op, err)
	}
	if err := s.trouble(ctx, *e, script, op); err != nil {
		return err
	}
	if err := effect(e); err != nil {
		return err
	}
	return s.trouble(ctx, *e, script, op+After)
}

// trouble crashes, hangs or fails, if the script says so for this moment.
func (s *Stage) trouble(ctx context.Context, e record.Entry, script Script, moment string) error {
	for _, kind := range []struct {
		name    string
		moments []string
		happens func() error
	}{
		{"crash", script.Crash, func() error {
			fmt.Fprintf(s.Complaints, "%s %q crashes at the moment %s, as it was told to\n", e.Type, e.Name, moment)
			s.Exit(ExitCode)
			return errors.New("the process did not end")
		}},
		{"hang", script.Hang, func() error {
			<-ctx.Done()
			return fmt.Errorf("the hanging %s was cancelled: %w", e.Op, context.Cause(ctx))
		}},
		{"fail", script.Fail, func() error {
			return fmt.Errorf("the %s of %q was told to fail (%s)", e.Op, e.Name, moment)
		}},
	} {
		if !slices.Contains(kind.moments, moment) {
			continue
		}
		if script.Times > 0 {
			mine, err := s.Cloud.TakeTurn(fmt.Sprintf("%s %s %s %s", kind.name, moment, e.Type, e.Name), script.Times)
			if err != nil {
				return err
			}
			if !mine {
				continue
			}
		}
		return kind.happens()
	}
	return nil
}

// sleep lasts for a time, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
