package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// Do sends a request to a service, such as "s3", and retries it after a pause while the service is busy or
// unreachable, as often as configured (call.Caller). Each attempt is signed separately.
func (s *Client) Do(ctx context.Context, service string, r call.Request) (*call.Response, error) {
	caller := &call.Caller{
		Client: s.client, UserAgent: s.userAgent, Attempts: s.attempts, Explain: explain, Clock: &s.clock,
		Sign: func(ctx context.Context, r *http.Request, body []byte) error { return s.sign(ctx, service, r, body) },
	}
	return caller.Do(ctx, r)
}

// sign signs a request.
func (s *Client) sign(ctx context.Context, service string, r *http.Request, body []byte) error {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	if service == "s3" {
		r.Header.Set("X-Amz-Content-Sha256", hash)
	}
	who, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	err = v4.NewSigner().SignHTTP(ctx, who, r, hash, service, s.Region, s.clock.Now(), func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = service == "s3"
	})
	if err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	return nil
}

// temporary are the codes of temporary refusals with client error statuses.
var temporary = map[string]bool{
	"RequestTimeout": true, "RequestTimeoutException": true, "Throttling": true, "ThrottlingException": true,
	"ThrottledException": true, "RequestThrottled": true, "RequestThrottledException": true, "SlowDown": true,
	"TooManyRequestsException": true, "RequestLimitExceeded": true, "BandwidthLimitExceeded": true,
	"LimitExceededException": true, "PriorRequestNotComplete": true, "TransactionInProgressException": true,
	"ProvisionedThroughputExceededException": true, "EC2ThrottledException": true, "InternalError": true,
}

// explain decodes the reason of an error response: call.Caller decodes the XML of S3; others return JSON, and
// nothing after HEAD.
func explain(e *call.Error, header http.Header) {
	e.RequestID = header.Get("X-Amzn-Requestid")
	if id := header.Get("X-Amz-Request-Id"); id != "" {
		e.RequestID = id
	}
	var object struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	switch text := bytes.TrimSpace(e.Body); {
	case len(text) == 0 && e.Status == http.StatusNotFound:
		e.Code = "NotFound"
	case len(text) > 0 && text[0] == '{' && json.Unmarshal(text, &object) == nil:
		e.Code, e.Message = object.Type[strings.LastIndex(object.Type, "#")+1:], object.Message
	}
	e.Temporary = temporary[e.Code]
}

// Ask calls an operation of a service with a JSON protocol, such as DynamoDB or KMS: target is the operation,
// version that of the protocol ("1.0" or "1.1"). The response is decoded into out.
func (s *Client) Ask(ctx context.Context, service, endpoint, target, version string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := s.Do(ctx, service, call.Request{
		Method: http.MethodPost, URL: strings.TrimSuffix(endpoint, "/") + "/", Body: body,
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

// EscapePath encodes everything in the path of an object except what the signature leaves unencoded.
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
