package google_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/cloud/google"
	fake "github.com/millipede-iac/millipede/test/stage/clouds/google"
)

const scope = "https://www.googleapis.com/auth/devstorage.read_write"

// settings returns settings with which every name leads to the fake.
func settings(s *fake.Server) google.Settings {
	transport := s.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
	}
	if s.TLS != nil {
		transport.TLSClientConfig.ServerName = "example.com" // the name in the fake's certificate
	}
	return google.Settings{
		Scopes: []string{scope}, Transport: transport, Env: func(string) string { return "" }, Pause: time.Millisecond,
	}
}

func get(s *google.Client, ctx context.Context) error {
	_, err := s.Do(ctx, call.Request{Method: http.MethodGet, URL: s.Endpoint("storage") + "/storage/v1/b/states/o"})
	return err
}

func TestAServiceAccountIsImpersonatedOverDelegates(t *testing.T) {
	s := fake.NewTLS(t, "states")
	with := settings(s)
	with.Credentials, with.Impersonate = s.ServiceAccount(), "deploy@p.iam.gserviceaccount.com"
	with.Delegates = []string{"a@p.iam.gserviceaccount.com", "projects/-/serviceAccounts/b@p.iam.gserviceaccount.com"}
	client, err := google.Open(t.Context(), with)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := get(client, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	asked := s.Exchanges()
	if len(asked) != 2 {
		t.Fatalf("tokens were asked for by %q, want one of the account and one of the impersonated", asked)
	}
	const want = `/v1/projects/-/serviceAccounts/deploy@p.iam.gserviceaccount.com {"delegates":[` +
		`"projects/-/serviceAccounts/a@p.iam.gserviceaccount.com",` +
		`"projects/-/serviceAccounts/b@p.iam.gserviceaccount.com"],` +
		`"lifetime":"3600s","scope":["` + scope + `"]}`
	if asked[1] != want {
		t.Errorf("asked by\n%s\nwant\n%s", asked[1], want)
	}
}

// The project to charge was not sent, without which many services, Cloud KMS among them, refuse the credentials of a
// user.
func TestRequestsAreChargedToTheProjectOfTheEnvironmentOrOfTheCredentials(t *testing.T) {
	const other = "deploy@p.iam.gserviceaccount.com"
	for claim, c := range map[string]struct {
		variable, impersonate string
		want                  string // the projects of the request to impersonate, if there is one, and of the last one
	}{
		"that of the credentials":                {want: "mine"},
		"that of the environment before":         {variable: "ours", want: "ours"},
		"that of the credentials to impersonate": {impersonate: other, want: "mine "},
		"that of the environment for everything": {impersonate: other, variable: "ours", want: "ours"},
	} {
		t.Run(claim, func(t *testing.T) {
			s := fake.NewTLS(t, "states")
			with := settings(s)
			with.Impersonate = c.impersonate
			with.Credentials = strings.Replace(s.ServiceAccount(), "{", `{"quota_project_id":"mine",`, 1)
			with.Env = func(name string) string {
				return map[string]string{"GOOGLE_CLOUD_QUOTA_PROJECT": c.variable}[name]
			}
			client, err := google.Open(t.Context(), with)
			if err == nil {
				err = get(client, t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.Projects(), " "); got != c.want {
				t.Errorf("the requests were for the projects %q, want %q", got, c.want)
			}
		})
	}
}

// A relative name in GOOGLE_APPLICATION_CREDENTIALS was opened in the working directory of the process, which is not
// that of the operation.
func TestCredentialsOfTheEnvironmentAreReadInTheDirectoryOfTheOperation(t *testing.T) {
	s := fake.NewTLS(t, "states")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key.json"), []byte(s.ServiceAccount()), 0o600); err != nil {
		t.Fatal(err)
	}
	with := settings(s)
	with.Env = func(name string) string {
		return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "key.json"}[name]
	}
	with.Path = func(name string) string { return filepath.Join(dir, name) }
	if _, err := google.Open(t.Context(), with); err != nil {
		t.Error(err)
	}
}

func TestARefusedImpersonationSaysWhoseItWasToBe(t *testing.T) {
	s := fake.NewTLS(t, "states")
	with := settings(s)
	with.AccessToken, with.Impersonate = fake.Token, "deploy@p" // a token of storage alone
	_, err := google.Open(t.Context(), with)
	if !errors.Is(err, call.ErrCredentials) || !strings.Contains(err.Error(), "deploy@p") ||
		!call.IsStatus(err, 403) {
		t.Errorf("the error is %v", err)
	}
	if strings.Contains(err.Error(), fake.Token) {
		t.Errorf("the error shows the token: %v", err)
	}
}

func TestABrokenServiceIsAskedAsOftenAsTheSettingsSay(t *testing.T) {
	s := fake.NewTLS(t, "states")
	with := settings(s)
	with.AccessToken, with.Attempts = fake.Token, 3
	client, err := google.Open(t.Context(), with)
	if err != nil {
		t.Fatal(err)
	}
	s.Fail(500, 502, 503, 429)
	err = get(client, t.Context())
	var refused *call.Error
	if !errors.As(err, &refused) || refused.Status != 503 || refused.Attempt != 3 || len(s.Requests()) != 3 {
		t.Errorf("after %d requests the error is %v", len(s.Requests()), err)
	}
	s.Fail(403)
	if err := get(client, t.Context()); !call.IsStatus(err, 403) || len(s.Requests()) != 4 {
		t.Errorf("after %d requests the error is %v", len(s.Requests()), err)
	}
}

func TestATokenIsAskedForAgainWhileItsServiceIsBusy(t *testing.T) {
	s := fake.NewTLS(t, "states")
	with := settings(s)
	with.Credentials = s.ServiceAccount()
	s.Fail(503)
	client, err := google.Open(t.Context(), with)
	if err != nil {
		t.Fatal(err)
	}
	if err := get(client, t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStoppingIsHeardDuringThePause(t *testing.T) {
	s := fake.NewTLS(t, "states")
	with := settings(s)
	with.AccessToken, with.Pause = fake.Token, time.Hour
	client, err := google.Open(t.Context(), with)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Fail(503)
	s.Before(func(string, string) { t.Error("the service was asked a second time") })
	done := make(chan error, 1)
	go func() { done <- get(client, ctx) }()
	for len(s.Requests()) == 0 {
		select {
		case err := <-done:
			t.Fatalf("it ended before it asked: %v", err)
		default:
		}
	}
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("the error is %v", err)
	}
}
