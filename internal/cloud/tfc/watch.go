package tfc

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// maxLine is the maximum length of a line of a watched run: that of a run of a million vertices.
const maxLine = 256 << 20

// Watch calls see with each line about a run in progress, which only Millipede's service provides, until the
// service ends it, see returns an error, or ctx ends. phase and cursor are those that were read last; initially
// empty and 0.
func (c *Client) Watch(ctx context.Context, run, phase string, cursor uint64, see func(line []byte) error) error {
	u, err := c.o.Base.Parse("/api/millipede/v1/runs/" + url.PathEscape(run) + "/watch")
	if err != nil {
		return err
	}
	query := url.Values{}
	if phase != "" {
		query.Set("phase", phase)
		query.Set("cursor", strconv.FormatUint(cursor, 10))
	}
	u.RawQuery = query.Encode()
	q := request{method: http.MethodGet, url: u, accept: "application/x-ndjson"}
	answer, err := c.once(ctx, q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refusal(q, answer)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		if err := see(lines.Bytes()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return lines.Err()
}

// maxTimeline is the maximum size of a piece of a timeline in bytes: that of a run of a million vertices.
const maxTimeline = maxLine

// Timeline returns a piece of the timeline of the last phase of a run, "shape" or "story", which only Millipede's
// service provides. The error is NotFound if there is none.
func (c *Client) Timeline(ctx context.Context, run, piece string) ([]byte, error) {
	u, err := c.o.Base.Parse("/api/millipede/v1/runs/" + url.PathEscape(run) + "/timeline")
	if err != nil {
		return nil, err
	}
	u.RawQuery = url.Values{"piece": {piece}}.Encode()
	_, text, err := c.read(ctx, request{method: http.MethodGet, url: u, accept: "application/json"}, maxTimeline)
	return text, err
}
