package call

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Bound limits a client's retries: a request without any response is not retried, and a pause is as long as the
// service requests, but at most the client's own maximum.
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
