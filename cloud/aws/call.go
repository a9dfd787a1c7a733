package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// maxAnswer is how large an answer may be that is read whole, in bytes.
const maxAnswer = 1 << 30

// Request is one call. Do signs it for each attempt anew.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	// MaxAnswer is how large the answer may be, in bytes; 0 means a gibibyte.
	MaxAnswer int64
	// Service is the name that the signature is for, as "s3".
	Service string
	// Region is the region that the signature is for; default: the session's.
	Region string
}

// Response is an answer, read whole.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Error is an answer that says no.
type Error struct {
	Status        int
	Code, Message string
	// RequestID is what the service calls the request; empty when it does not say.
	RequestID string
}

func (e *Error) Error() string {
	text := e.Code
	if e.Message != "" {
		text += ": " + e.Message
	}
	if text == "" {
		text = http.StatusText(e.Status)
	}
	text = fmt.Sprintf("%s (status %d", text, e.Status)
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	return text + ")"
}

// IsCode tells whether an error is an *Error with one of these codes.
func IsCode(err error, codes ...string) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}

// Do sends a request, and again after a pause while the service is busy, or is not reached, as often as the settings
// say. A host that does not exist or refuses connections is not asked again. The error of an answer of 300 or above is
// *Error.
func (s *Session) Do(ctx context.Context, r Request) (*Response, error) {
	for attempt := 1; ; attempt++ {
		answer, err := s.once(ctx, r)
		if err == nil || ctx.Err() != nil || attempt >= s.retryer.MaxAttempts() || !again(err) {
			return answer, err
		}
		pause, delayErr := s.retryer.RetryDelay(attempt, err)
		if delayErr != nil {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// again tells whether an attempt that failed so may succeed a moment later.
func again(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		switch e.Code {
		case "RequestTimeout", "RequestTimeoutException", "Throttling", "ThrottlingException", "ThrottledException",
			"RequestThrottled", "RequestThrottledException", "SlowDown", "TooManyRequestsException",
			"RequestLimitExceeded",
			"BandwidthLimitExceeded", "LimitExceededException", "PriorRequestNotComplete",
			"TransactionInProgressException",
			"ProvisionedThroughputExceededException", "EC2ThrottledException", "InternalError":
			return true
		}
		return e.Status == http.StatusTooManyRequests || e.Status >= 500 && e.Status != http.StatusNotImplemented
	}
	var missing *net.DNSError
	if errors.As(err, &missing) && missing.IsNotFound || errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	return !errors.Is(err, context.Canceled)
}

func (s *Session) once(ctx context.Context, r Request) (*Response, error) {
	h, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		h.Header[http.CanonicalHeaderKey(name)] = values
	}
	h.Header.Set("User-Agent", s.userAgent)
	sum := sha256.Sum256(r.Body)
	hash := hex.EncodeToString(sum[:])
	if r.Service == "s3" {
		h.Header.Set("X-Amz-Content-Sha256", hash)
	}
	region := r.Region
	if region == "" {
		region = s.Region
	}
	who, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("no valid credentials were found: %w", err)
	}
	err = v4.NewSigner().SignHTTP(ctx, who, h, hash, r.Service, region, s.now(), func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = r.Service == "s3"
	})
	if err != nil {
		return nil, fmt.Errorf("signing the request: %w", err)
	}
	answer, err := s.client.Do(h)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() // read to its end, or given up
	limit := r.MaxAnswer
	if limit <= 0 {
		limit = maxAnswer
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("the answer has more than %d bytes", limit)
	case answer.StatusCode >= 300:
		return nil, refusal(answer, body)
	}
	return &Response{answer.StatusCode, answer.Header, body}, nil
}

// refusal reads why a service says no: XML from S3, JSON from the others, nothing after HEAD.
func refusal(answer *http.Response, body []byte) error {
	e := &Error{Status: answer.StatusCode, RequestID: answer.Header.Get("X-Amzn-Requestid")}
	if id := answer.Header.Get("X-Amz-Request-Id"); id != "" {
		e.RequestID = id
	}
	var document struct {
		Code, Message string
	}
	var object struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	switch text := bytes.TrimSpace(body); {
	case len(text) == 0 && answer.StatusCode == http.StatusNotFound:
		e.Code = "NotFound"
	case len(text) > 0 && text[0] == '<' && xml.Unmarshal(text, &document) == nil:
		e.Code, e.Message = document.Code, document.Message
	case len(text) > 0 && text[0] == '{' && json.Unmarshal(text, &object) == nil:
		e.Code, e.Message = object.Type[strings.LastIndex(object.Type, "#")+1:], object.Message
	}
	return e
}

// Ask calls an operation of a service with a JSON protocol, as DynamoDB and KMS have: target names the operation,
// version the protocol's ("1.0" or "1.1"). out is filled from the answer.
func (s *Session) Ask(ctx context.Context, service, endpoint, target, version string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := s.Do(ctx, Request{
		Method: http.MethodPost, URL: strings.TrimSuffix(endpoint, "/") + "/", Body: body, Service: service,
		Header: http.Header{"Content-Type": {"application/x-amz-json-" + version}, "X-Amz-Target": {target}},
	})
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(answer.Body, out); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", target, err)
	}
	return nil
}

// EscapePath encodes everything in the path of an object but what the signature leaves as it is.
func EscapePath(p string) string {
	var out strings.Builder
	for i := range len(p) {
		c := p[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~/", c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
