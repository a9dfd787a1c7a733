package call

import (
	"errors"
	"net/url"
)

// withoutQuery removes the query from the address in a client's error, because it may contain signatures.
func withoutQuery(err error) error {
	var e *url.Error
	if !errors.As(err, &e) {
		return err
	}
	u, bad := url.Parse(e.URL)
	if bad != nil {
		return e.Err
	}
	u.RawQuery, u.User = "", nil
	return &url.Error{Op: e.Op, URL: u.String(), Err: e.Err}
}
