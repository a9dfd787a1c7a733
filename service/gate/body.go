package gate

import (
	"io"
	"net/http"
	"time"
)

// The time that a client has for the body of a request: bodyTime, and a second for each bodyRate bytes. Without a
// limit, clients that send nothing would keep their connections open for ever; they need no token for that.
const (
	bodyTime = 30 * time.Second
	bodyRate = 1 << 10
)

// timedBody is the body of a request that must arrive in time.
type timedBody struct {
	io.ReadCloser
	c     *http.ResponseController
	end   time.Time // of the time for the body, if nothing has arrived
	set   time.Time // the deadline of the connection
	count int64
}

// InTime limits the time for the body of a request that another process answers. w must be the writer of the server.
func InTime(w http.ResponseWriter, r *http.Request) *http.Request { return inTime(w, r, bodyTime) }

// inTime limits the time for the body of a request. w must be the writer of the server.
func inTime(w http.ResponseWriter, r *http.Request, most time.Duration) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	b := &timedBody{ReadCloser: r.Body, c: http.NewResponseController(w), end: time.Now().Add(most)}
	b.limit(b.end)
	r = r.WithContext(r.Context())
	r.Body = b
	return r
}

// limit sets the deadline of the connection, unless that is almost the same. Writers of tests have no deadline.
func (b *timedBody) limit(at time.Time) {
	if at.IsZero() || at.Sub(b.set) >= time.Second {
		b.set = at
		_ = b.c.SetReadDeadline(at)
	}
}

// Read implements io.Reader. After the end of the body there is no limit: the request may take longer, and the server
// reads from the connection to notice that the client has disconnected.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count += int64(n)
	if err == io.EOF { // bodies return it as it is
		b.limit(time.Time{})
	} else {
		b.limit(b.end.Add(time.Duration(b.count/bodyRate) * time.Second))
	}
	return n, err
}
