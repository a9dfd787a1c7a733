// Package alibaba sends requests to services of Alibaba Cloud with configured credentials, and implements the three
// ways of signing requests.
//
// The requests themselves belong to the packages that use it. They are few, so the vendor's library is not used.
package alibaba

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// Settings are the credentials and options. Zero fields mean the default.
type Settings struct {
	Keys call.Keys
	// ECSRole is the role of the machine that is used if there are no keys.
	ECSRole string
	Role    call.Role
	// Profile is a profile in the file Shared (default ~/.aliyun/config.json), for unset fields.
	Profile, Shared string
	// Path makes the path of a file absolute; default: unchanged.
	Path        func(string) string
	Region      string
	STSEndpoint string

	// Transport executes the requests. Required.
	Transport *http.Transport
	// Env returns variables of the operation's environment. Required.
	Env       func(name string) string
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

// Open finds the credentials, and exchanges them for those of a role if one is named.
func Open(ctx context.Context, s Settings) (*Client, error) {
	if err := s.profile(); err != nil {
		return nil, fmt.Errorf("%w: the profile %q: %w", call.ErrCredentials, s.Profile, err)
	}
	client := &Client{settings: s, client: &http.Client{Transport: s.Transport, CheckRedirect: call.NoRedirects}}
	client.keys = call.NewRenewed(early, client.fetch)
	_, err := client.keys.Get(ctx)
	return client, err
}

// profile sets unset fields from a profile.
func (s *Settings) profile() error {
	if s.Profile == "" {
		return nil
	}
	file := s.Shared
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		file = filepath.Join(s.Env("HOME"), rest)
	} else if s.Path != nil {
		file = s.Path(file)
	}
	if file == "" {
		file = filepath.Join(s.Env("HOME"), ".aliyun", "config.json")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var all struct {
		Profiles []struct {
			Name, Mode string
			KeyID      string `json:"access_key_id"`
			Secret     string `json:"access_key_secret"`
			Token      string `json:"sts_token"`
			Region     string `json:"region_id"`
			RoleARN    string `json:"ram_role_arn"`
			Session    string `json:"ram_session_name"`
			RoleName   string `json:"ram_role_name"`
			Seconds    int    `json:"expired_seconds"`
		}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s is not the JSON of profiles", file) // err may contain it
	}
	for _, p := range all.Profiles {
		if p.Name != s.Profile {
			continue
		}
		s.Region = either(s.Region, p.Region)
		if p.Mode == "EcsRamRole" {
			s.ECSRole = either(s.ECSRole, p.RoleName)
			return nil
		}
		if s.Keys.ID == "" {
			s.Keys.ID, s.Keys.Secret = p.KeyID, either(s.Keys.Secret, p.Secret)
		}
		switch p.Mode {
		case "StsToken":
			s.Keys.Token = either(s.Keys.Token, p.Token)
		case "RamRoleArn":
			if s.Role.ARN == "" {
				s.Role = call.Role{ARN: p.RoleARN, SessionName: p.Session, Seconds: p.Seconds}
			}
		}
		return nil
	}
	return fmt.Errorf("there is no profile of this name in %s", file)
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// early is how long before their expiry keys are no longer used.
const early = 5 * time.Minute

// fetch returns the keys, those of the machine's role, or those of an assumed role, and when they expire.
func (s *Client) fetch(ctx context.Context) (k call.Keys, ends time.Time, err error) {
	k = s.settings.Keys
	if k.ID == "" && s.settings.ECSRole != "" {
		if k, ends, err = s.machine(ctx); err != nil {
			return call.Keys{}, ends, err
		}
	}
	if k.ID == "" || k.Secret == "" {
		return call.Keys{}, ends, fmt.Errorf("%w: access_key and secret_key, a profile, or ecs_role_name must be "+
			"given", call.ErrCredentials)
	}
	if s.settings.Role.ARN != "" {
		return s.assume(ctx, k)
	}
	return k, ends, nil
}

// machine requests the keys of the machine's role.
func (s *Client) machine(ctx context.Context) (call.Keys, time.Time, error) {
	address := "http://100.100.100.200/latest/meta-data/ram/security-credentials/" + url.PathEscape(s.settings.ECSRole)
	answer, err := s.caller(nil, 10*time.Second).Do(ctx, call.Request{Method: http.MethodGet, URL: address})
	if err != nil {
		return call.Keys{}, time.Time{}, fmt.Errorf("%w: asking for the keys of the machine's role %s: %w",
			call.ErrCredentials, s.settings.ECSRole, err)
	}
	var out struct {
		Code, AccessKeyID, AccessKeySecret, SecurityToken string
		Expiration                                        time.Time
	}
	if json.Unmarshal(answer.Body, &out) != nil || out.Code != "Success" || out.AccessKeyID == "" {
		return call.Keys{}, time.Time{}, fmt.Errorf("%w: the machine has no keys of the role %s",
			call.ErrCredentials, s.settings.ECSRole)
	}
	return call.Keys{ID: out.AccessKeyID, Secret: out.AccessKeySecret, Token: out.SecurityToken}, out.Expiration, nil
}

// assume exchanges keys for those of the role.
func (s *Client) assume(ctx context.Context, by call.Keys) (call.Keys, time.Time, error) {
	role := s.settings.Role
	query := url.Values{
		"Action": {"AssumeRole"}, "Version": {"2015-04-01"}, "RoleArn": {role.ARN},
		"RoleSessionName": {either(role.SessionName, "tofu")}, "DurationSeconds": {strconv.Itoa(role.Seconds)},
	}
	if role.Seconds == 0 {
		query.Set("DurationSeconds", "3600")
	}
	if role.Policy != "" {
		query.Set("Policy", role.Policy)
	}
	endpoint := s.settings.STSEndpoint
	switch {
	case endpoint == "" && s.settings.Region == "":
		endpoint = "sts.aliyuncs.com"
	case endpoint == "":
		endpoint = "sts." + s.settings.Region + ".aliyuncs.com"
	}
	var out struct {
		Credentials struct {
			AccessKeyID, AccessKeySecret, SecurityToken string
			Expiration                                  time.Time
		}
	}
	if err := s.rpc(ctx, by, endpoint, query, &out); err != nil {
		return call.Keys{}, time.Time{}, fmt.Errorf("%w: assuming the role %s: %w", call.ErrCredentials, role.ARN, err)
	}
	c := out.Credentials
	if c.AccessKeyID == "" {
		return call.Keys{}, time.Time{}, fmt.Errorf("%w: assuming the role %s: the answer holds no keys",
			call.ErrCredentials, role.ARN)
	}
	return call.Keys{ID: c.AccessKeyID, Secret: c.AccessKeySecret, Token: c.SecurityToken}, c.Expiration, nil
}

// ObjectStore returns the address of the region's object store from the location service. If that does not respond,
// it returns the usual one.
func (s *Client) ObjectStore(ctx context.Context) (string, error) {
	if s.settings.Region == "" {
		return "", ErrRegion
	}
	keys, err := s.keys.Get(ctx)
	if err != nil {
		return "", err
	}
	var out struct {
		Endpoints struct {
			Endpoint []struct{ Endpoint, Type string }
		}
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = s.rpc(within, keys, "location-readonly.aliyuncs.com", url.Values{
		"Action": {"DescribeEndpoints"}, "Version": {"2015-06-12"}, "ServiceCode": {"oss"}, "Id": {s.settings.Region},
	}, &out)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err == nil {
		for _, e := range out.Endpoints.Endpoint {
			if e.Type == "openAPI" && e.Endpoint != "" {
				return WithScheme(e.Endpoint), nil
			}
		}
	}
	return "https://oss-" + s.settings.Region + ".aliyuncs.com", nil
}

// ErrRegion means that a region is required, but not set.
var ErrRegion = errors.New("no region is set")

// WithScheme adds https to an address without a scheme.
func WithScheme(address string) string {
	if strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		return address
	}
	return "https://" + address
}

// caller returns a Caller whose requests are prepared by sign.
func (s *Client) caller(sign func(context.Context, *http.Request, []byte) error, timeout time.Duration) *call.Caller {
	return &call.Caller{
		Client: s.client, Sign: sign, UserAgent: s.settings.UserAgent, Pause: s.settings.Pause, Timeout: timeout,
		Clock: &s.clock,
	}
}
