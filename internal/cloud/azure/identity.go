package azure

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/launch"
)

// Identity is the configured credentials. The first method that is configured completely is used: client
// certificate, client secret, Azure DevOps, OpenID Connect, managed identity, workload identity of AKS, Azure CLI.
type Identity struct {
	TenantID, SubscriptionID string
	// A value and the content of its file must agree if both are given.
	ClientID, ClientIDFile                             string
	ClientSecret, ClientSecretFile                     string
	Certificate, CertificateFile, CertificatePassword  string // Certificate is PKCS#12 in base64
	OIDCToken, OIDCTokenFile                           string
	OIDCRequestURL, OIDCRequestToken, ServiceConnected string // ServiceConnected is the ID of a service connection
	MSIEndpoint                                        string
	UseOIDC, UseMSI, UseAKS, UseCLI                    bool
}

// credential gets tokens. Safe for concurrent use.
type credential struct {
	source       tokenSource
	subscription string // the CLI's subscription
	// turn is held during a request for a token; cached, by scope, belongs to its holder.
	turn   chan struct{}
	cached map[string]azcore.AccessToken
}

type tokenSource interface {
	GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error)
}

// early is how long before its expiry a token is no longer used.
const early = 2 * time.Minute

// authorize adds a token to a request.
func (c *credential) authorize(ctx context.Context, r *http.Request, scope string) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	t, ok := c.cached[scope]
	if !ok || time.Until(t.ExpiresOn) < early {
		var err error
		t, err = c.source.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		if err != nil {
			return fmt.Errorf("%w: asking for a token: %s", call.ErrCredentials, oneLine(err))
		}
		c.cached[scope] = t
	}
	r.Header.Set("Authorization", "Bearer "+t.Token)
	return nil
}

// oneLine returns the library's message without the dump of the exchange.
func oneLine(err error) string {
	var failed *azidentity.AuthenticationFailedError
	if errors.As(err, &failed) && failed.RawResponse != nil {
		var body struct {
			Description string `json:"error_description"`
		}
		// The library has read the body, and made it readable again.
		if json.NewDecoder(failed.RawResponse.Body).Decode(&body) == nil && body.Description != "" {
			line, _, _ := strings.Cut(body.Description, "\r\n")
			return line
		}
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimRight(line, ". ")
}

// method is a way to get tokens. ready returns why it cannot be used; make makes its source.
type method struct {
	name  string
	ready func(context.Context) error
	make  func() (tokenSource, error)
}

// credential selects the first usable method. If there is none, the error says for each why not.
func (c *Cloud) credential(ctx context.Context) (*credential, error) {
	out := &credential{turn: make(chan struct{}, 1), cached: map[string]azcore.AccessToken{}}
	var why []string
	for _, m := range c.methods(out) {
		if err := m.ready(ctx); err != nil {
			why = append(why, fmt.Sprintf("  %s: %s", m.name, strings.TrimRight(err.Error(), ".\n")))
			continue
		}
		source, err := m.make()
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", call.ErrCredentials, m.name, err)
		}
		out.source = source
		return out, nil
	}
	return nil, fmt.Errorf(
		"%w. The methods, and why each of them cannot be used:\n%s",
		call.ErrCredentials,
		strings.Join(why, "\n"),
	)
}

func (c *Cloud) options() azcore.ClientOptions {
	return azcore.ClientOptions{
		Cloud: cloud.Configuration{ActiveDirectoryAuthorityHost: c.login}, Transport: c.client,
		Telemetry: policy.TelemetryOptions{Disabled: true},
	}
}

func (c *Cloud) methods(out *credential) []method {
	id := c.settings.Identity
	application := func() (tenant, client string, err error) {
		if id.TenantID == "" {
			return "", "", errors.New("tenant_id is not given")
		}
		client, err = c.either("client_id", id.ClientID, id.ClientIDFile)
		return id.TenantID, client, err
	}
	// of makes the ready function of an application's method with one additional requirement.
	of := func(more func() error) func(context.Context) error {
		return func(context.Context) error {
			if _, _, err := application(); err != nil {
				return err
			}
			return more()
		}
	}
	assertion := func(get func(context.Context) (string, error)) func() (tokenSource, error) {
		return func() (tokenSource, error) {
			tenant, client, _ := application()
			return azidentity.NewClientAssertionCredential(tenant, client, get,
				&azidentity.ClientAssertionCredentialOptions{
					ClientOptions: c.options(), DisableInstanceDiscovery: c.private,
				})
		}
	}
	return []method{
		{"client certificate", of(func() error { _, err := c.certificate(); return err }), func() (tokenSource, error) {
			tenant, client, _ := application()
			data, err := c.certificate()
			if err != nil {
				return nil, err
			}
			certs, key, err := azidentity.ParseCertificates(data, []byte(id.CertificatePassword))
			if err != nil {
				return nil, fmt.Errorf("the certificate cannot be read: %w", err)
			}
			return azidentity.NewClientCertificateCredential(
				tenant,
				client,
				certs,
				key,
				&azidentity.ClientCertificateCredentialOptions{
					ClientOptions: c.options(), DisableInstanceDiscovery: c.private,
				},
			)
		}},
		{"client secret", of(func() error {
			_, err := c.either("client_secret", id.ClientSecret, id.ClientSecretFile)
			return err
		}), func() (tokenSource, error) {
			tenant, client, _ := application()
			secret, err := c.either("client_secret", id.ClientSecret, id.ClientSecretFile)
			if err != nil {
				return nil, err
			}
			return azidentity.NewClientSecretCredential(tenant, client, secret,
				&azidentity.ClientSecretCredentialOptions{
					ClientOptions: c.options(), DisableInstanceDiscovery: c.private,
				})
		}},
		{"Azure DevOps", of(func() error {
			switch {
			case !id.UseOIDC || id.ServiceConnected == "":
				return errors.New("use_oidc and ado_service_connection_id are not both set")
			case c.settings.Env("SYSTEM_OIDCREQUESTURI") == "":
				return errors.New("the environment variable SYSTEM_OIDCREQUESTURI, which Azure DevOps sets, is not set")
			case id.OIDCRequestToken == "":
				return errors.New("oidc_request_token is not given")
			}
			return nil
		}), assertion(c.devOps)},
		{"OpenID Connect", func(ctx context.Context) error {
			if !id.UseOIDC {
				return errors.New("use_oidc is not set")
			}
			if _, _, err := application(); err != nil {
				return err
			}
			_, err := c.oidcToken(ctx)
			return err
		}, assertion(c.oidcToken)},
		{"managed identity", func(context.Context) error {
			if !id.UseMSI {
				return errors.New("use_msi is not set")
			}
			return nil
		}, c.managed},
		{"workload identity of AKS", func(context.Context) error {
			if !id.UseAKS {
				return errors.New("use_aks_workload_identity is not set")
			}
			for _, name := range []string{"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"} {
				if c.settings.Env(name) == "" {
					return fmt.Errorf("the environment variable %s, which AKS sets, is not set", name)
				}
			}
			return nil
		}, func() (tokenSource, error) {
			get := func(context.Context) (string, error) { return read(c.settings.Env("AZURE_FEDERATED_TOKEN_FILE")) }
			return azidentity.NewClientAssertionCredential(
				c.settings.Env("AZURE_TENANT_ID"),
				c.settings.Env("AZURE_CLIENT_ID"),
				get,
				&azidentity.ClientAssertionCredentialOptions{ClientOptions: c.options(),
					DisableInstanceDiscovery: c.private},
			)
		}},
		{"Azure CLI", func(ctx context.Context) error {
			if !id.UseCLI {
				return errors.New("use_cli is false")
			}
			subscription, err := c.cliSubscription(ctx)
			out.subscription = subscription
			return err
		}, func() (tokenSource, error) {
			return azidentity.NewAzureCLICredential(&azidentity.AzureCLICredentialOptions{
				Subscription: id.SubscriptionID, TenantID: id.TenantID,
			})
		}},
	}
}

// either returns a value that is given directly, in a file, or equally in both.
func (c *Cloud) either(name, value, file string) (string, error) {
	if file == "" {
		if value == "" {
			return "", fmt.Errorf("%s is not given", name)
		}
		return value, nil
	}
	text, err := read(c.settings.Path(file))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, err)
	case value != "" && value != text:
		return "", fmt.Errorf("%s and its file differ; give one of them, or make them the same", name)
	}
	return text, nil
}

func read(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// certificate returns the PKCS#12 file that is configured.
func (c *Cloud) certificate() ([]byte, error) {
	id := c.settings.Identity
	var value, file []byte
	var err error
	if id.Certificate != "" {
		if value, err = base64.StdEncoding.DecodeString(id.Certificate); err != nil {
			return nil, errors.New("client_certificate is not base64")
		}
	}
	if id.CertificateFile != "" {
		if file, err = os.ReadFile(c.settings.Path(id.CertificateFile)); err != nil {
			return nil, fmt.Errorf("client_certificate_path: %w", err)
		}
	}
	switch {
	case value == nil && file == nil:
		return nil, errors.New("client_certificate is not given")
	case value != nil && file != nil && string(value) != string(file):
		return nil, errors.New("client_certificate and its file differ; give one of them, or make them the same")
	case value != nil:
		return value, nil
	}
	return file, nil
}

// oidcToken returns the token of an identity provider: the given one, or a new one.
func (c *Cloud) oidcToken(ctx context.Context) (string, error) {
	id := c.settings.Identity
	if id.OIDCToken != "" || id.OIDCTokenFile != "" {
		return c.either("oidc_token", id.OIDCToken, id.OIDCTokenFile)
	}
	if id.OIDCRequestURL == "" || id.OIDCRequestToken == "" {
		return "", errors.New("neither oidc_token, nor its file, nor oidc_request_url with oidc_request_token is given")
	}
	u, err := url.Parse(id.OIDCRequestURL)
	if err != nil || u.Host == "" {
		return "", errors.New("oidc_request_url is no URL")
	}
	if query := u.Query(); !query.Has("audience") {
		audience := "api://AzureADTokenExchange"
		switch c.login {
		case "https://login.chinacloudapi.cn/":
			audience += "China"
		case "https://login.microsoftonline.us/":
			audience += "USGov"
		}
		query.Set("audience", audience)
		u.RawQuery = query.Encode()
	}
	var answer struct{ Value string }
	if err := c.ask(ctx, http.MethodGet, u.String(), &answer); err != nil {
		return "", err
	}
	if answer.Value == "" {
		return "", errors.New("the answer of oidc_request_url holds no token")
	}
	return answer.Value, nil
}

// devOps requests a token of the service connection from Azure DevOps.
func (c *Cloud) devOps(ctx context.Context) (string, error) {
	u, err := url.Parse(c.settings.Env("SYSTEM_OIDCREQUESTURI"))
	if err != nil || u.Host == "" {
		return "", errors.New("SYSTEM_OIDCREQUESTURI is no URL")
	}
	query := u.Query()
	query.Set("api-version", "7.1")
	query.Set("serviceConnectionId", c.settings.Identity.ServiceConnected)
	u.RawQuery = query.Encode()
	var answer struct{ OidcToken string }
	if err := c.ask(ctx, http.MethodPost, u.String(), &answer); err != nil {
		return "", err
	}
	if answer.OidcToken == "" {
		return "", errors.New("the answer of Azure DevOps holds no token")
	}
	return answer.OidcToken, nil
}

// ask requests JSON, authorized by the token for token requests.
func (c *Cloud) ask(ctx context.Context, method, address string, out any) error {
	caller := c.caller(nil)
	answer, err := caller.Do(ctx, call.Request{Method: method, URL: address, Header: http.Header{
		"Authorization": {"Bearer " + c.settings.Identity.OIDCRequestToken},
		"Accept":        {"application/json; api-version=2.0"},
		"Content-Type":  {"application/json"},
	}})
	if err != nil {
		return fmt.Errorf("asking for an OIDC token: %w", err)
	}
	if err := json.Unmarshal(answer.Body, out); err != nil {
		return errors.New("asking for an OIDC token: the answer is no JSON")
	}
	return nil
}

// managed returns the source of tokens of the machine's own identity.
func (c *Cloud) managed() (tokenSource, error) {
	id := c.settings.Identity
	if id.MSIEndpoint != "" {
		return msiEndpoint{c}, nil
	}
	o := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: c.options()}
	if client, err := c.either("client_id", id.ClientID, id.ClientIDFile); err == nil {
		o.ID = azidentity.ClientID(client)
	}
	return azidentity.NewManagedIdentityCredential(o)
}

// msiEndpoint requests tokens from an endpoint like that of Azure's Cloud Shell. The library finds it only in the
// process's environment.
type msiEndpoint struct{ cloud *Cloud }

// GetToken implements tokenSource.
func (m msiEndpoint) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	body := url.Values{"resource": {strings.TrimSuffix(o.Scopes[0], "/.default")}}
	answer, err := m.cloud.caller(nil).Do(ctx, call.Request{
		Method: http.MethodPost, URL: m.cloud.settings.Identity.MSIEndpoint, Body: []byte(body.Encode()),
		Header: http.Header{"Metadata": {"true"}, "Content-Type": {"application/x-www-form-urlencoded"}},
	})
	if err != nil {
		return azcore.AccessToken{}, err
	}
	var token struct {
		AccessToken string      `json:"access_token"`
		ExpiresOn   json.Number `json:"expires_on"`
	}
	if err := json.Unmarshal(answer.Body, &token); err != nil || token.AccessToken == "" {
		return azcore.AccessToken{}, errors.New("the answer of the MSI endpoint holds no token")
	}
	end, _ := strconv.ParseInt(token.ExpiresOn.String(), 10, 64) // without it the token is not cached
	return azcore.AccessToken{Token: token.AccessToken, ExpiresOn: time.Unix(end, 0)}, nil
}

// cliSubscription returns the subscription of the Azure CLI.
func (c *Cloud) cliSubscription(ctx context.Context) (string, error) {
	program, err := c.settings.Environ.Program("", "az")
	if err != nil {
		return "", errors.New("the program az is not in PATH")
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := launch.Command(ctx, c.settings.Path("."), c.settings.Environ.List(), program, "account", "show", "-o", "json")
	cmd.WaitDelay = time.Second
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return "", fmt.Errorf("az account show: %s", strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("az account show: %w", err)
	}
	var account struct{ ID string }
	if err := json.Unmarshal(text, &account); err != nil {
		return "", errors.New("az account show: the answer is no JSON")
	}
	return account.ID, nil
}
