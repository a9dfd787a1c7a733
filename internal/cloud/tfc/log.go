package tfc

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
)

const (
	// logPart is the number of bytes of a log in one request.
	logPart = 256 << 10
	// A service need not hold a request until there is content: these are the pauses after an empty response.
	firstLogPause   = 300 * time.Millisecond
	longestLogPause = 2 * time.Second
	// logAttempts is the number of attempts for a part if the service fails.
	logAttempts = 10
	// The marks at the beginning and the end of a log, if the service has them.
	logBegins, logEnds = 0x02, 0x03
)

// Log follows the log of a phase until it is complete, and calls fn with each part as it arrives, split anywhere.
// The marks of the beginning and the end are left out.
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
		if over { // the phase was over before this request, so there is no more content
			return nil
		}
		now, err := c.Phase(ctx, kind, p.ID)
		if err != nil {
			return err
		}
		if over = now.Over(); over {
			continue
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
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
	for attempt := 1; ; attempt++ {
		answer, err := c.send(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("reading the log: %w", err)
		}
		if answer.StatusCode >= 300 {
			err := refusal(q, answer)
			answer.Body.Close()
			return nil, fmt.Errorf("reading the log: %w", err)
		}
		// Data read before the connection broke are kept: the rest is requested again.
		data, err := io.ReadAll(io.LimitReader(answer.Body, logPart+1))
		answer.Body.Close()
		switch {
		case err == nil, len(data) > 0 && ctx.Err() == nil:
			return data, nil
		case ctx.Err() != nil, attempt == readAttempts:
			return nil, fmt.Errorf("reading the log: %w", err)
		}
	}
}
