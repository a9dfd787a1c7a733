package tfc

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	// logPart is how many bytes of a log are asked for at once.
	logPart = 256 << 10
	// A service need not hold a request until something is there: these are the pauses after an empty answer.
	firstLogPause   = 300 * time.Millisecond
	longestLogPause = 2 * time.Second
	// logAttempts is how often a part is asked for when the service fails.
	logAttempts = 10
	// The marks at the begin and the end of a log, where the service has them.
	logBegins, logEnds = 0x02, 0x03
)

// Log follows the log of a phase until it is over, and calls fn with each part of it as it comes, cut anywhere. The
// marks of the begin and the end are left out.
func (c *Client) Log(ctx context.Context, kind string, p *Phase, fn func([]byte) error) error {
	offset, pause, begun := 0, firstLogPause, false
	over := p.Over()
	for {
		part, err := c.logPart(ctx, p, offset)
		if err != nil {
			return err
		}
		offset += len(part)
		if len(part) > 0 {
			pause = firstLogPause
			ended := false
			if !begun && part[0] == logBegins {
				part = part[1:]
			}
			begun = true
			if n := len(part); n > 0 && part[n-1] == logEnds {
				part, ended = part[:n-1], true
			}
			if len(part) > 0 {
				if err := fn(part); err != nil {
					return err
				}
			}
			if ended {
				return nil
			}
			continue
		}
		if over { // it was over before this part was asked for, so that nothing comes any more
			return nil
		}
		now, err := c.Phase(ctx, kind, p.ID)
		if err != nil {
			return err
		}
		if over = now.Over(); over {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, longestLogPause)
	}
}

func (c *Client) logPart(ctx context.Context, p *Phase, offset int) ([]byte, error) {
	u, err := c.address(p.Log)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	query.Set("limit", strconv.Itoa(logPart))
	query.Set("offset", strconv.Itoa(offset))
	u.RawQuery = query.Encode()
	q := request{method: http.MethodGet, url: u, secret: true, accept: "*/*", most: logAttempts}
	answer, err := c.send(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return nil, fmt.Errorf("reading the log: %w", refusal(q, answer))
	}
	// What was read before the connection was cut counts: the rest is asked for again.
	data, err := io.ReadAll(io.LimitReader(answer.Body, logPart+1))
	if err != nil && (len(data) == 0 || ctx.Err() != nil) {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	return data, nil
}
