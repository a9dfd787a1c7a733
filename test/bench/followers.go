package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// ticking is a resource whose creation prints the time ten times a second.
const ticking = `resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "i=0; while [ $i -lt %d ]; do date +tick:%%s%%N; sleep 0.1; i=$((i+1)); done"
  }
}
`

// tick matches a line that ticking prints.
var tick = regexp.MustCompile(`tick:(\d{19})`)

// serviceLogs measures many clients that read the log of a run while it is written. Each sends its next request as
// soon as it has a response, like real clients.
func (t *table) serviceLogs(ctx context.Context) (string, bool, error) {
	const clients, ticks, watched = 1_000, 500, 15 * time.Second
	h, done, err := t.service()
	if err != nil {
		return "", false, err
	}
	defer done()
	if _, err := h.start(ctx); err != nil {
		return "", false, err
	}
	space, err := h.workspace(ctx, "log")
	if err != nil {
		return "", false, err
	}
	c, err := h.upload(ctx, space, fmt.Sprintf(ticking, ticks))
	if err != nil {
		return "", false, err
	}
	r, err := h.queue(ctx, space, c, "log", true)
	if err != nil {
		return "", false, err
	}
	at, err := h.logAddress(ctx, r, applyPhase)
	if err != nil {
		return "", false, err
	}
	client, err := h.client()
	if err != nil {
		return "", false, err
	}
	if pool, ok := client.Transport.(*http.Transport); ok {
		pool.MaxIdleConnsPerHost = 2 * clients
	}
	var behind atomic.Int64
	var answers, connected atomic.Int64
	var measuring atomic.Bool
	reading, leave := context.WithCancel(ctx)
	defer leave()
	group, reading := errgroup.WithContext(reading)
	for range clients {
		group.Go(func() error {
			first := true
			return follow(reading, client, at, func(written time.Time) {
				if first {
					connected.Add(1)
				}
				if first = false; !measuring.Load() {
					return
				}
				answers.Add(1)
				for late := int64(time.Since(written)); ; {
					most := behind.Load()
					if late <= most || behind.CompareAndSwap(most, late) {
						return
					}
				}
			})
		})
	}
	if _, err := h.becomes(ctx, r.ID, "applying"); err != nil {
		return "", false, err
	}
	for connected.Load() < clients {
		if err := pause(reading, 100*time.Millisecond); err != nil {
			return "", false, cmp.Or(group.Wait(), err)
		}
	}
	if err := pause(reading, time.Second); err != nil { // by then all have reached the end of the log
		return "", false, cmp.Or(group.Wait(), err)
	}
	before, err := process.Spent(h.PID())
	if err != nil {
		return "", false, err
	}
	measuring.Store(true)
	began := time.Now()
	if err := pause(reading, watched); err != nil {
		return "", false, cmp.Or(group.Wait(), err)
	}
	after, err := process.Spent(h.PID())
	took := time.Since(began)
	measuring.Store(false)
	if err != nil {
		return "", false, err
	}
	leave()
	if err := group.Wait(); err != nil {
		return "", false, err
	}
	cores, late := float64(after-before)/float64(took), time.Duration(behind.Load())
	return fmt.Sprintf("%.2f cores; %s (%.0f responses a second)", cores, short(late),
		float64(answers.Load())/took.Seconds()), cores <= 1 && late <= time.Second && answers.Load() > 0, nil
}

// follow reads a log until ctx ends, and calls see with the time when the first line of each response was written.
func follow(ctx context.Context, client *http.Client, address string, see func(written time.Time)) error {
	for offset := 0; ; {
		next := fmt.Sprintf("%s?limit=65536&offset=%d", address, offset)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, next, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller has canceled the request
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the reader ends
		case err != nil:
			return err
		case answer.StatusCode != http.StatusOK:
			return fmt.Errorf("the log: %s: %s", answer.Status, text)
		case offset > 0 && len(text) > 0 && text[len(text)-1] == 3:
			return errors.New("the log has ended too soon")
		}
		offset += len(text)
		if m := tick.FindSubmatch(text); m != nil {
			at, err := strconv.ParseInt(string(m[1]), 10, 64)
			if err != nil {
				return err
			}
			see(time.Unix(0, at))
		}
	}
}

// serviceFirstLine measures the time from the request to the first line of a run's log, without other load.
func (t *table) serviceFirstLine(ctx context.Context) (string, bool, error) {
	h, done, err := t.service()
	if err != nil {
		return "", false, err
	}
	defer done()
	if _, err := h.start(ctx); err != nil {
		return "", false, err
	}
	space, err := h.workspace(ctx, "log")
	if err != nil {
		return "", false, err
	}
	c, err := h.upload(ctx, space, blocks(2))
	if err != nil {
		return "", false, err
	}
	var list []time.Duration
	for i := range 50 {
		began := time.Now()
		r, err := h.queue(ctx, space, c, fmt.Sprint(i), true)
		if err != nil {
			return "", false, err
		}
		if err := h.firstLine(ctx, r); err != nil {
			return "", false, err
		}
		list = append(list, time.Since(began))
		end := "planned_and_finished"
		if i == 0 {
			end = "applied"
		}
		if _, err := h.becomes(ctx, r.ID, end); err != nil {
			return "", false, err
		}
	}
	late := hundredth(list)
	return fmt.Sprintf("%s (median %s)", short(late), short(half(list))), late <= 100*time.Millisecond, nil
}

// firstLine returns when the log of a run's plan has content.
func (h *host) firstLine(ctx context.Context, r *thing) error {
	at, err := h.logAddress(ctx, r, planPhase)
	for text := []byte(nil); err == nil && len(text) == 0; {
		text, err = h.send(ctx, h.http, http.MethodGet, at+"?limit=65536&offset=0", "", nil)
	}
	return err
}
