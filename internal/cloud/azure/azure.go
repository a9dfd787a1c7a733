// Package azure sends requests to services of Microsoft Azure with configured credentials.
//
// Microsoft's library exchanges credentials for tokens; the requests themselves are few, and belong to the packages
// that use it. The package does not depend on states or keys.
package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/environ"
)

// Settings are the cloud, the credentials and options. Zero fields mean the default.
type Settings struct {
	// Environment is the name of a cloud: public (default), usgovernment, china, or one of their other names.
	// MetadataHost is a host that describes another cloud; it takes precedence.
	Environment, MetadataHost string
	Identity                  Identity

	// Transport executes the requests. Required.
	Transport *http.Transport
	// Env returns variables of the operation's environment. Required.
	Env func(name string) string
	// Environ is the environment in which the Azure CLI is started.
	Environ environ.Variables
	// Path makes the path of a file absolute; default: unchanged.
	Path      func(string) string
	UserAgent string
	// Pause is the pause before a request is retried; default that of package call. Timeout bounds one attempt.
	Pause, Timeout time.Duration
}

// Cloud sends requests to one of Azure's clouds. Safe for concurrent use.
type Cloud struct {
	clock call.Clock

	settings Settings
	client   *http.Client
	login    string // with a slash at the end
	manager  string // the address of the resource manager, without one
	audience string // the resource that its tokens are for
	suffix   string // of the hosts of storage accounts
	// private is set for a cloud that Microsoft's directory does not contain.
	private bool
}

// ErrEnvironment means that there is no cloud of this name.
var ErrEnvironment = errors.New("there is no such environment of Azure")

// ErrMetadata means that the metadata host does not describe its cloud.
var ErrMetadata = errors.New("the metadata host does not describe its cloud")

// Open determines the cloud. It sends requests only to the metadata host, if there is one.
func Open(ctx context.Context, s Settings) (*Cloud, error) {
	if s.Path == nil {
		s.Path = func(p string) string { return p }
	}
	c := &Cloud{settings: s, client: &http.Client{Transport: s.Transport, CheckRedirect: call.NoRedirects}}
	if s.MetadataHost != "" {
		c.private = true
		return c, c.described(ctx)
	}
	switch strings.ToLower(s.Environment) {
	case "", "public", "global", "canary":
		c.login, c.manager, c.audience, c.suffix = "https://login.microsoftonline.com/", "https://management.azure.com",
			"https://management.core.windows.net/", "core.windows.net"
	case "usgovernment", "usgovernmentl4", "usgovernmentl5", "dod":
		c.login, c.manager, c.audience, c.suffix = "https://login.microsoftonline.us/",
			"https://management.usgovcloudapi.net",
			"https://management.core.usgovcloudapi.net", "core.usgovcloudapi.net"
	case "china":
		c.login, c.manager, c.audience, c.suffix = "https://login.chinacloudapi.cn/",
			"https://management.chinacloudapi.cn",
			"https://management.core.chinacloudapi.cn", "core.chinacloudapi.cn"
	default:
		return nil, fmt.Errorf("%w: %q; there are public, usgovernment and china", ErrEnvironment, s.Environment)
	}
	return c, nil
}

// described requests the addresses of a cloud from its metadata host.
func (c *Cloud) described(ctx context.Context) error {
	address := "https://" + c.settings.MetadataHost + "/metadata/endpoints?api-version=2023-11-01"
	if u, err := url.Parse(address); err != nil || u.Host != c.settings.MetadataHost {
		return fmt.Errorf("%w: %q is not a host", ErrMetadata, c.settings.MetadataHost)
	}
	answer, err := c.caller(nil).Do(ctx, call.Request{Method: http.MethodGet, URL: address})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	var about struct {
		Authentication struct {
			LoginEndpoint string
			Audiences     []string
		}
		ResourceManager string
		Suffixes        struct{ Storage string }
	}
	if err := json.Unmarshal(answer.Body, &about); err != nil {
		return fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	a := about.Authentication
	if a.LoginEndpoint == "" || len(a.Audiences) == 0 || about.ResourceManager == "" || about.Suffixes.Storage == "" {
		return fmt.Errorf(
			"%w: it names no login endpoint, audience, resource manager or suffix of storage accounts",
			ErrMetadata,
		)
	}
	c.login, c.audience = strings.TrimSuffix(a.LoginEndpoint, "/")+"/", a.Audiences[0]
	c.manager, c.suffix = strings.TrimSuffix(about.ResourceManager, "/"), about.Suffixes.Storage
	return nil
}

// caller returns a Caller whose requests are prepared by sign.
func (c *Cloud) caller(sign func(context.Context, *http.Request, []byte) error) *call.Caller {
	return &call.Caller{
		Client: c.client, Sign: sign, UserAgent: c.settings.UserAgent, Pause: c.settings.Pause,
		Timeout: c.settings.Timeout, Clock: &c.clock,
	}
}

// Account is a storage account, with the authorization for its blobs.
type Account struct {
	Name string
	// AccessKey is a key of the account, in base64; it wins. SAS is a shared access signature, as a query; it wins over
	// the identity of the settings.
	AccessKey, SAS string
	// Directory authorizes requests for blobs with tokens of the identity. Otherwise the identity requests the
	// account's key from the resource manager, which requires ResourceGroup and SubscriptionID (default: that of
	// the CLI).
	Directory                     bool
	ResourceGroup, SubscriptionID string
}

// ErrAccessKey means that an account's key is not base64.
var ErrAccessKey = errors.New("the access key is not base64")

// storageVersion is the API version of the storage services.
const storageVersion = "2021-12-02"

// Blobs returns the address of an account's blobs, without a slash at the end, and a Caller for them.
func (c *Cloud) Blobs(ctx context.Context, a Account) (address string, caller *call.Caller, err error) {
	address = "https://" + a.Name + ".blob." + c.suffix
	switch {
	case a.AccessKey != "":
	case a.SAS != "":
		query, err := url.ParseQuery(strings.TrimPrefix(a.SAS, "?"))
		if err != nil || query.Get("sig") == "" {
			return "", nil, ErrSAS
		}
		return address, c.caller(func(_ context.Context, r *http.Request, _ []byte) error {
			all := r.URL.Query()
			for name, values := range query {
				all[name] = values
			}
			r.URL.RawQuery = all.Encode()
			r.Header.Set("X-Ms-Version", storageVersion)
			return nil
		}), nil
	default:
		who, err := c.credential(ctx)
		if err != nil {
			return "", nil, err
		}
		if a.Directory {
			return address, c.caller(func(ctx context.Context, r *http.Request, _ []byte) error {
				r.Header.Set("X-Ms-Version", storageVersion)
				r.Header.Set("X-Ms-Date", c.clock.Now().UTC().Format(http.TimeFormat))
				return who.authorize(ctx, r, "https://storage.azure.com/.default")
			}), nil
		}
		if a.AccessKey, err = c.accessKey(ctx, who, a); err != nil {
			return "", nil, err
		}
	}
	key, err := sharedKey(a.Name, a.AccessKey)
	if err != nil {
		return "", nil, err
	}
	return address, c.caller(func(_ context.Context, r *http.Request, body []byte) error {
		key.sign(r, body, c.clock.Now())
		return nil
	}), nil
}

// ErrSAS means that a shared access signature is invalid.
var ErrSAS = errors.New("the SAS token is not the query of a shared access signature")

// accessKey requests the first key of an account from the resource manager.
func (c *Cloud) accessKey(ctx context.Context, who *credential, a Account) (string, error) {
	if a.SubscriptionID == "" {
		a.SubscriptionID = who.subscription
	}
	var missing []string
	if a.ResourceGroup == "" {
		missing = append(missing, "resource_group_name")
	}
	if a.SubscriptionID == "" {
		missing = append(missing, "subscription_id")
	}
	if len(missing) > 0 {
		return "", fmt.Errorf(
			"%w: to ask for the key of the storage account, %s must be given (or use_azuread_auth set, or an "+
				"access_key or sas_token given)",
			call.ErrCredentials,
			strings.Join(missing, " and "),
		)
	}
	caller := c.caller(func(ctx context.Context, r *http.Request, _ []byte) error {
		return who.authorize(ctx, r, c.audience+"/.default")
	})
	answer, err := caller.Do(ctx, call.Request{
		Method: http.MethodPost,
		URL: c.manager + "/subscriptions/" + url.PathEscape(
			a.SubscriptionID,
		) + "/resourceGroups/" + url.PathEscape(
			a.ResourceGroup,
		) +
			"/providers/Microsoft.Storage/storageAccounts/" + url.PathEscape(
			a.Name,
		) + "/listKeys?api-version=2023-05-01",
	})
	if err != nil {
		return "", fmt.Errorf("asking for the keys of the storage account %s: %w", a.Name, err)
	}
	var list struct{ Keys []struct{ Value string } }
	if err := json.Unmarshal(answer.Body, &list); err != nil || len(list.Keys) == 0 || list.Keys[0].Value == "" {
		return "", fmt.Errorf("asking for the keys of the storage account %s: the answer holds none", a.Name)
	}
	return list.Keys[0].Value, nil
}
