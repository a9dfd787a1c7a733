// Package tencent sends requests to services of Tencent Cloud with configured credentials, and implements the two
// ways of signing requests.
//
// The requests to the object store belong to the packages that use it. They are few, so the vendor's library is not
// used.
package tencent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// Settings are the credentials and options. Zero fields mean the default.
type Settings struct {
	Keys   call.Keys
	Role   call.Role
	Region string
	// Transport executes the requests. Required.
	Transport *http.Transport
	UserAgent string
	Pause     time.Duration
}

// Client sends requests with an identity. Safe for concurrent use.
type Client struct {
	settings Settings
	client   *http.Client
	keys     *call.Renewed[call.Keys]
	clock    call.Clock
}

// Open checks the keys, and exchanges them for those of a role if there is one.
func Open(ctx context.Context, s Settings) (*Client, error) {
	if s.Keys.ID == "" || s.Keys.Secret == "" {
		return nil, fmt.Errorf("%w: secret_id and secret_key must be given, or TENCENTCLOUD_SECRET_ID and "+
			"TENCENTCLOUD_SECRET_KEY in the environment", call.ErrCredentials)
	}
	client := &Client{settings: s, client: &http.Client{Transport: s.Transport, CheckRedirect: call.NoRedirects}}
	client.keys = call.NewRenewed(early, client.fetch)
	_, err := client.keys.Get(ctx)
	return client, err
}

// early is how long before their expiry keys are no longer used.
const early = 5 * time.Minute

// fetch returns the keys, or those of the role with their expiry.
func (s *Client) fetch(ctx context.Context) (call.Keys, time.Time, error) {
	role := s.settings.Role
	if role.ARN == "" {
		return s.settings.Keys, time.Time{}, nil
	}
	in := map[string]any{"RoleArn": role.ARN, "RoleSessionName": role.SessionName, "DurationSeconds": role.Seconds}
	if role.Policy != "" {
		in["Policy"] = url.QueryEscape(role.Policy) // required by the service
	}
	var out struct {
		Credentials struct {
			ID     string `json:"TmpSecretId"`
			Secret string `json:"TmpSecretKey"`
			Token  string
		}
		ExpiredTime int64
	}
	if err := s.ask(ctx, s.settings.Keys, "sts", "AssumeRole", in, &out); err != nil {
		return call.Keys{}, time.Time{}, fmt.Errorf("%w: assuming the role %s: %w", call.ErrCredentials, role.ARN, err)
	}
	c := out.Credentials
	if c.ID == "" {
		return call.Keys{}, time.Time{}, fmt.Errorf("%w: assuming the role %s: the answer holds no keys",
			call.ErrCredentials, role.ARN)
	}
	return call.Keys{ID: c.ID, Secret: c.Secret, Token: c.Token}, time.Unix(out.ExpiredTime, 0), nil
}

// apiVersion is the API version of the services for tags and for roles.
const apiVersion = "2018-08-13"

// apiTimeout bounds one attempt at these services.
const apiTimeout = 30 * time.Second

// Ask calls an operation of a service with JSON responses, such as "tag". An error response is a *call.Error.
func (s *Client) Ask(ctx context.Context, service, operation string, in, out any) error {
	keys, err := s.keys.Get(ctx)
	if err != nil {
		return err
	}
	return s.ask(ctx, keys, service, operation, in, out)
}

func (s *Client) ask(ctx context.Context, keys call.Keys, service, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	h := http.Header{
		"Content-Type": {"application/json"}, "X-Tc-Action": {operation}, "X-Tc-Version": {apiVersion},
		"X-Tc-Region": {s.settings.Region}, "X-Tc-Language": {"en-US"},
	}
	if keys.Token != "" {
		h.Set("X-Tc-Token", keys.Token)
	}
	caller := s.caller(func(_ context.Context, r *http.Request, body []byte) error {
		signAPI(r, body, service, keys, s.clock.Now())
		return nil
	}, apiTimeout)
	host := "https://" + service + ".tencentcloudapi.com/"
	answer, err := caller.Do(ctx, call.Request{Method: http.MethodPost, URL: host, Header: h, Body: body})
	if err != nil {
		return err
	}
	var envelope struct {
		Response json.RawMessage
	}
	var refusal struct {
		Error *struct{ Code, Message string }
	}
	if err := json.Unmarshal(answer.Body, &envelope); err != nil || json.Unmarshal(envelope.Response, &refusal) != nil {
		return fmt.Errorf("%s of the service %s: the answer is not its JSON", operation, service)
	}
	if e := refusal.Error; e != nil { // with a success status
		return &call.Error{Status: http.StatusOK, Code: e.Code, Message: e.Message, Attempt: answer.Attempt}
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(bytes.NewReader(envelope.Response)).Decode(out)
}

// Objects returns a Caller for the object store.
func (s *Client) Objects() *call.Caller {
	return s.caller(func(ctx context.Context, r *http.Request, _ []byte) error {
		keys, err := s.keys.Get(ctx)
		if err != nil {
			return err
		}
		signObject(r, keys, s.clock.Now())
		return nil
	}, objectTimeout)
}

// objectTimeout bounds one attempt at the object store.
const objectTimeout = 5 * time.Minute

// caller returns a Caller whose requests are prepared by sign.
func (s *Client) caller(sign func(context.Context, *http.Request, []byte) error, timeout time.Duration) *call.Caller {
	return &call.Caller{
		Client: s.client, Sign: sign, UserAgent: s.settings.UserAgent, Pause: s.settings.Pause, Timeout: timeout,
		Clock: &s.clock,
	}
}
