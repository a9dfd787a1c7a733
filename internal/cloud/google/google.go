// Package google sends requests to services of Google Cloud with configured credentials.
//
// The Go team's library finds the credentials and exchanges them for tokens; the requests themselves are few, and
// belong to the packages that use it. The package does not depend on states or modules.
package google

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// DefaultUniverse is the domain of Google's public cloud.
const DefaultUniverse = "googleapis.com"

// Settings are the credentials and options. Zero fields mean the default.
type Settings struct {
	// Anonymous sends requests without a token, as to an emulator; the other credentials are not used then.
	Anonymous bool
	// AccessToken is an existing token; it takes precedence over Credentials, and those over the environment's
	// (application default credentials).
	AccessToken string
	// Credentials is the JSON text of a key of a service account, of a user, or of an external account.
	Credentials string
	// Impersonate is the e-mail address of a service account to impersonate, through Delegates.
	Impersonate string
	Delegates   []string
	// Scopes are the scopes of tokens. Required.
	Scopes []string
	// UniverseDomain is the domain of the services; default DefaultUniverse.
	UniverseDomain string

	// Attempts is the total number of attempts of a call; default 6. Pause is the pause before the second one,
	// which doubles with each; default 250 ms.
	Attempts int
	Pause    time.Duration

	// Transport executes the requests. Required.
	Transport *http.Transport
	// Env returns variables of the operation's environment, which take precedence over the process's. Required.
	Env func(name string) string
	// Path returns the absolute path of a file; nil leaves names unchanged.
	Path      func(name string) string
	UserAgent string
}

// Client sends requests with an identity. Safe for concurrent use.
type Client struct {
	settings Settings
	plain    *call.Caller // without authorization
	caller   *call.Caller
	grants   *call.Renewed[grant]
}

// grant is a token, and the project that requests with it are charged to; empty for that of the credentials.
type grant struct {
	token *oauth2.Token
	quota string
}

// authorize adds the token and the project to a request.
func (g grant) authorize(r *http.Request) {
	g.token.SetAuthHeader(r)
	if g.quota != "" {
		r.Header.Set("X-Goog-User-Project", g.quota)
	}
}

// Open checks the settings, finds the credentials, and gets a first token.
func Open(ctx context.Context, s Settings) (*Client, error) {
	if s.UniverseDomain == "" {
		s.UniverseDomain = DefaultUniverse
	}
	if s.Attempts <= 0 {
		s.Attempts = 6
	}
	client := &Client{settings: s}
	client.grants = call.NewRenewed(early, func(ctx context.Context) (grant, time.Time, error) {
		g, err := client.fetch(ctx)
		if err != nil {
			return grant{}, time.Time{}, err
		}
		return g, g.token.Expiry, nil
	})
	client.plain, client.caller = client.over(s.Transport), client.over(authorized{client})
	if s.Anonymous {
		client.caller = client.plain
		return client, nil
	}
	err := client.caller.Repeat(ctx, func(int) error {
		_, err := client.grants.Get(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return client, nil
}

// over returns a Caller. It does not follow redirects, which could send a token or a customer's key to another
// host; the services do not need them.
func (s *Client) over(transport http.RoundTripper) *call.Caller {
	return &call.Caller{
		Client:    &http.Client{Transport: transport, CheckRedirect: call.NoRedirects},
		UserAgent: s.settings.UserAgent, Attempts: s.settings.Attempts, Pause: s.settings.Pause, Explain: explain,
	}
}

// Endpoint returns the address of a service, as https://storage.googleapis.com.
func (s *Client) Endpoint(service string) string {
	return "https://" + service + "." + s.settings.UniverseDomain
}

type authorized struct{ client *Client }

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	g, err := a.client.grants.Get(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // required of RoundTrip
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	g.authorize(r)
	return a.client.settings.Transport.RoundTrip(r)
}

// early is how long before its expiry a token is no longer used.
const early = time.Minute

// fetch gets a token within ctx. The source is created each time, because it keeps its context.
func (s *Client) fetch(ctx context.Context) (grant, error) {
	own := context.WithValue(ctx, oauth2.HTTPClient, s.plain.Client)
	scopes := s.settings.Scopes
	if s.settings.Impersonate != "" {
		scopes = []string{"https://www.googleapis.com/auth/cloud-platform"}
	}
	found, err := s.find(own, scopes)
	if err != nil {
		return grant{}, err
	}
	t, err := found.TokenSource.Token()
	if err != nil {
		return grant{}, refusedToken(err)
	}
	by := grant{t, s.quota(found.JSON)}
	if s.settings.Impersonate == "" {
		return by, nil
	}
	return s.impersonate(ctx, by)
}

// quota returns the project to charge: that of the environment, or that of the credentials' file. Many services refuse
// the credentials of a user without it.
func (s *Client) quota(credentials []byte) string {
	if project := s.settings.Env("GOOGLE_CLOUD_QUOTA_PROJECT"); project != "" {
		return project
	}
	var file struct {
		Project string `json:"quota_project_id"`
	}
	_ = json.Unmarshal(credentials, &file) // a token of its own has no file
	return file.Project
}

// find finds the credentials. The JSON of the result is nil for those without a file.
func (s *Client) find(ctx context.Context, scopes []string) (*google.Credentials, error) {
	if s.settings.AccessToken != "" {
		token := &oauth2.Token{AccessToken: s.settings.AccessToken}
		return &google.Credentials{TokenSource: oauth2.StaticTokenSource(token)}, nil
	}
	if s.settings.Credentials != "" {
		return s.fromJSON(ctx, []byte(s.settings.Credentials), scopes)
	}
	if file := s.settings.Env("GOOGLE_APPLICATION_CREDENTIALS"); file != "" {
		if s.settings.Path != nil {
			file = s.settings.Path(file)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%w: reading the file that GOOGLE_APPLICATION_CREDENTIALS names: %w",
				call.ErrCredentials, err)
		}
		return s.fromJSON(ctx, text, scopes)
	}
	if home := s.settings.Env("HOME"); home != "" {
		text, err := os.ReadFile(filepath.Join(home, ".config", "gcloud", "application_default_credentials.json"))
		if err == nil {
			return s.fromJSON(ctx, text, scopes)
		}
	}
	found, err := google.FindDefaultCredentialsWithParams(ctx, google.CredentialsParams{
		Scopes: scopes, UniverseDomain: s.settings.UniverseDomain,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: there is neither an access token, nor a file of credentials, nor application "+
			"default credentials (gcloud auth application-default login makes them): %w", call.ErrCredentials, err)
	}
	return found, nil
}

func (s *Client) fromJSON(ctx context.Context, text []byte, scopes []string) (*google.Credentials, error) {
	var head struct {
		Type     string `json:"type"`
		Universe string `json:"universe_domain"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: they are not valid JSON", call.ErrCredentials) // err may contain them
	}
	if head.Universe == "" {
		head.Universe = DefaultUniverse
	}
	if head.Universe != s.settings.UniverseDomain {
		return nil, fmt.Errorf("%w: the credentials are for the universe domain %q, the configuration for %q",
			call.ErrCredentials, head.Universe, s.settings.UniverseDomain)
	}
	found, err := google.CredentialsFromJSONWithTypeAndParams(ctx, text, google.CredentialsType(head.Type),
		google.CredentialsParams{Scopes: scopes, UniverseDomain: s.settings.UniverseDomain})
	if err != nil {
		return nil, fmt.Errorf("%w: credentials of the type %q: %w", call.ErrCredentials, head.Type, err)
	}
	found.JSON = text
	return found, nil
}

// refusedToken returns the error of a token request, in one line, and as a *call.Error for an error response.
func refusedToken(err error) error {
	var e *oauth2.RetrieveError
	if !errors.As(err, &e) || e.Response == nil {
		return fmt.Errorf("%w: asking for a token: %w", call.ErrCredentials, err)
	}
	refused := &call.Error{Status: e.Response.StatusCode, Code: e.ErrorCode, Message: e.ErrorDescription}
	return fmt.Errorf("%w: asking for a token: %w", call.ErrCredentials, refused)
}

// impersonate exchanges a token for one of the configured service account, whose requests are charged to the project of
// the environment.
func (s *Client) impersonate(ctx context.Context, by grant) (grant, error) {
	const accounts = "projects/-/serviceAccounts/"
	in := map[string]any{"scope": s.settings.Scopes, "lifetime": "3600s"}
	var delegates []string
	for _, d := range s.settings.Delegates {
		if !strings.HasPrefix(d, accounts) {
			d = accounts + d
		}
		delegates = append(delegates, d)
	}
	if len(delegates) > 0 {
		in["delegates"] = delegates
	}
	body, err := json.Marshal(in)
	if err != nil {
		return grant{}, err
	}
	address := s.Endpoint("iamcredentials") + "/v1/" + accounts + url.PathEscape(s.settings.Impersonate) +
		":generateAccessToken"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return grant{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", s.settings.UserAgent)
	by.authorize(r)
	answer, err := s.plain.Receive(r, 0)
	if err != nil {
		return grant{}, fmt.Errorf("%w: impersonating %s: %w", call.ErrCredentials, s.settings.Impersonate, err)
	}
	var out struct {
		AccessToken string
		ExpireTime  time.Time
	}
	if json.Unmarshal(answer.Body, &out) != nil || out.AccessToken == "" {
		return grant{}, fmt.Errorf("%w: impersonating %s: the answer holds no token", call.ErrCredentials,
			s.settings.Impersonate)
	}
	return grant{&oauth2.Token{AccessToken: out.AccessToken, Expiry: out.ExpireTime}, s.quota(nil)}, nil
}

// Contents returns the content of an argument that is either the path of a file or the content itself. A leading ~
// is the home directory; resolve, unless it is nil, makes a relative path absolute.
func Contents(text string, env func(string) string, resolve func(string) string) (string, error) {
	file := text
	if rest, ok := strings.CutPrefix(text, "~"); ok && env("HOME") != "" && (rest == "" || rest[0] == '/') {
		file = env("HOME") + rest
	}
	if resolve != nil {
		file = resolve(file)
	}
	if _, err := os.Stat(file); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return "", errors.New("the file that it names cannot be read")
		}
		return text, nil // no such file, or not a valid file name
	}
	data, err := os.ReadFile(file)
	if err != nil {
		if errors.Is(err, syscall.EISDIR) {
			return "", errors.New("it names a directory")
		}
		return "", err
	}
	return string(data), nil
}

// StorageEmulator returns the address of an emulator of Cloud Storage that the environment names, without the path of
// the JSON API; empty if there is none.
func StorageEmulator(env func(string) string) string {
	at := strings.TrimSuffix(env("STORAGE_EMULATOR_HOST"), "/")
	if at != "" && !strings.Contains(at, "://") {
		at = "http://" + at
	}
	return strings.TrimSuffix(at, "/storage/v1")
}
