package call

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Bound keeps a client from waiting longer than people would: a request that nothing was heard of is not sent again,
// and a pause is as long as the service asks for, but at most the client's own longest one.
func Bound(c *retryablehttp.Client) {
	check := c.CheckRetry
	c.CheckRetry = func(ctx context.Context, answer *http.Response, err error) (bool, error) {
		if err != nil && ctx.Err() == nil && silent(err) {
			return false, err
		}
		return check(ctx, answer, err)
	}
	backoff := c.Backoff
	c.Backoff = func(least, most time.Duration, attempt int, answer *http.Response) time.Duration {
		return min(backoff(least, most, attempt, answer), max(most, maxPause))
	}
}
