// Package aws sends requests to services of Amazon Web Services with configured credentials.
//
// The official library finds the credentials and signs; the requests themselves are few, and belong to the packages
// that use it. The package does not depend on states or modules.
package aws

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"golang.org/x/net/http/httpproxy"

	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/pattern"
)

// Settings are the credentials and options. Zero fields mean the library's default.
type Settings struct {
	// Region is required; it is checked against the known partitions unless SkipRegionValidation.
	Region               string
	SkipRegionValidation bool

	// AccessKey, SecretKey and Token are static credentials; if any is set, they take precedence over everything
	// else.
	AccessKey, SecretKey, Token string
	// Profile is a section of the shared files.
	Profile                                   string
	SharedCredentialsFiles, SharedConfigFiles []string
	// WebIdentity exchanges a token for credentials; AssumeRole exchanges the credentials for those of a role.
	WebIdentity *WebIdentity
	AssumeRole  *AssumeRole

	// SkipCredentialsValidation skips the validation of the credentials with STS.
	SkipCredentialsValidation bool
	// SkipAccountID leaves the account unknown.
	SkipAccountID                      bool
	AllowedAccounts, ForbiddenAccounts []string

	// SkipMetadata disables or enables the metadata service of EC2; nil leaves it to the library.
	SkipMetadata                   *bool
	MetadataEndpoint, MetadataMode string

	// Attempts is the total number of attempts of a call; 0 means 5. RetryMode is "standard" or "adaptive".
	Attempts  int
	RetryMode string

	// HTTPProxy, HTTPSProxy and NoProxy replace those of the environment, if they are not nil.
	HTTPProxy, HTTPSProxy, NoProxy *string
	Insecure                       bool
	CABundle                       string
	DualStack, FIPS                bool

	STSEndpoint, STSRegion string

	// Transport executes the requests; the client modifies and owns it. Required.
	Transport *http.Transport
	// Env returns variables of the operation's environment, which take precedence over the process's. Required.
	Env func(name string) string
	// Path returns the absolute path of a file; nil leaves names unchanged.
	Path      func(name string) string
	UserAgent string
}

// AssumeRole is a role that credentials are exchanged for. Zero fields are not sent.
type AssumeRole struct {
	RoleARN, ExternalID, Policy, SessionName string
	PolicyARNs                               []string
	Duration                                 time.Duration
	Tags                                     map[string]string
	TransitiveTagKeys                        []string
}

// WebIdentity is a token of an OpenID provider that is exchanged for a role. Either Token or TokenFile is set.
type WebIdentity struct {
	RoleARN, Token, TokenFile, SessionName, Policy string
	PolicyARNs                                     []string
	Duration                                       time.Duration
}

// Client sends requests with an identity. Safe for concurrent use.
type Client struct {
	Region  string
	Account string // empty if it was not requested

	credentials sdk.CredentialsProvider
	client      *http.Client
	attempts    int
	userAgent   string
	endpoints   endpoints
	clock       call.Clock
}

// Close closes the connections.
func (s *Client) Close() { s.client.CloseIdleConnections() }

// AccountError means that the credentials belong to an account that the settings exclude.
type AccountError struct{ Account string }

func (e *AccountError) Error() string {
	return fmt.Sprintf("the account %s of these credentials is not one that the configuration allows", e.Account)
}

// ErrCredentials means that no source has valid credentials.
var ErrCredentials = errors.New("no valid credentials were found")

// ErrRegion means that the region is missing or does not belong to any partition.
var ErrRegion = errors.New("invalid region")

// regions are the patterns of the partitions' regions, as their endpoint rules have them.
var regions = pattern.Lazy(
	`^(us|eu|ap|sa|ca|me|af|il|mx|cn|us-gov|us-iso|us-isob|eu-isoe|us-isof|eusc)-[a-z]+(-[a-z]+)?-\d+$`)

// Open finds the credentials, and validates them with STS unless that is disabled.
func Open(ctx context.Context, s Settings) (*Client, error) {
	if s.Region == "" || !s.SkipRegionValidation && !regions().MatchString(s.Region) {
		return nil, fmt.Errorf("%w %q", ErrRegion, s.Region)
	}
	if err := s.setTransport(); err != nil {
		return nil, err
	}
	attempts := s.Attempts
	if attempts <= 0 {
		attempts = 5
	}
	standard := func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Retryables = append([]retry.IsErrorRetryable{retry.RetryableHTTPStatusCode{
			Codes: map[int]struct{}{http.StatusTooManyRequests: {}}, // from proxies, without a code of AWS
		}}, o.Retryables...)
	}
	var retryer sdk.RetryerV2 = retry.NewStandard(standard)
	if s.RetryMode == "adaptive" {
		retryer = retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
			o.StandardOptions = append(
				o.StandardOptions, standard)
		})
	}
	httpClient := &http.Client{Transport: s.Transport, CheckRedirect: call.NoRedirects}
	// Only the library's own client supports the certificates of AWS_CA_BUNDLE, which the library reads itself.
	own := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.Proxy, t.TLSClientConfig = s.Transport.Proxy, s.Transport.TLSClientConfig.Clone()
		if s.Transport.DialContext != nil {
			t.DialContext = s.Transport.DialContext // the same limit on silence
		}
	})
	loaded, err := config.LoadDefaultConfig(ctx, s.options(own, retryer)...)
	if err != nil {
		return nil, err
	}
	stsClient := sts.NewFromConfig(loaded, func(o *sts.Options) {
		if s.STSRegion != "" {
			o.Region = s.STSRegion
		}
		if s.STSEndpoint != "" {
			o.BaseEndpoint = sdk.String(WithScheme(s.STSEndpoint))
		}
	})
	client := &Client{
		Region: s.Region, client: httpClient, attempts: attempts, userAgent: s.UserAgent,
		endpoints: s.endpoints(ctx, loaded),
	}
	client.credentials = s.provider(loaded, stsClient)
	stsClient = sts.New(stsClient.Options(), func(o *sts.Options) { o.Credentials = client.credentials })
	if _, err := client.credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	limited := len(s.AllowedAccounts)+len(s.ForbiddenAccounts) > 0
	if s.SkipCredentialsValidation && (s.SkipAccountID || !limited) {
		return client, nil
	}
	who, err := stsClient.GetCallerIdentity(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("asking STS whose credentials these are: %w", err)
	}
	client.Account = sdk.ToString(who.Account)
	if slices.Contains(s.ForbiddenAccounts, client.Account) ||
		len(s.AllowedAccounts) > 0 && !slices.Contains(s.AllowedAccounts, client.Account) {
		return nil, &AccountError{client.Account}
	}
	return client, nil
}

// options returns the library's options for the settings and the operation's environment.
func (s *Settings) options(client config.HTTPClient, retryer sdk.Retryer) []func(*config.LoadOptions) error {
	o := []func(*config.LoadOptions) error{
		config.WithRegion(s.Region), config.WithHTTPClient(client),
		config.WithRetryer(func() sdk.Retryer { return retryer }),
	}
	profile := s.Profile
	if profile == "" {
		profile = s.Env("AWS_PROFILE")
	}
	if profile != "" {
		o = append(o, config.WithSharedConfigProfile(profile))
	}
	if files := s.SharedCredentialsFiles; len(files) > 0 {
		o = append(o, config.WithSharedCredentialsFiles(s.paths(files)))
	}
	if files := s.SharedConfigFiles; len(files) > 0 {
		o = append(o, config.WithSharedConfigFiles(s.paths(files)))
	}
	switch {
	case s.AccessKey+s.SecretKey+s.Token != "":
		o = append(o, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(s.AccessKey,
			s.SecretKey, s.Token)))
	case s.Profile == "" && s.Env("AWS_ACCESS_KEY_ID") != "" && s.Env("AWS_SECRET_ACCESS_KEY") != "":
		o = append(o, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(
			s.Env("AWS_ACCESS_KEY_ID"), s.Env("AWS_SECRET_ACCESS_KEY"), s.Env("AWS_SESSION_TOKEN"))))
	}
	if s.SkipMetadata != nil {
		state := imds.ClientEnabled
		if *s.SkipMetadata {
			state = imds.ClientDisabled
		}
		o = append(o, config.WithEC2IMDSClientEnableState(state))
	}
	if s.MetadataEndpoint != "" {
		o = append(o, config.WithEC2IMDSEndpoint(s.MetadataEndpoint))
	}
	switch strings.ToLower(s.MetadataMode) {
	case "ipv4":
		o = append(o, config.WithEC2IMDSEndpointMode(imds.EndpointModeStateIPv4))
	case "ipv6":
		o = append(o, config.WithEC2IMDSEndpointMode(imds.EndpointModeStateIPv6))
	}
	if s.DualStack {
		o = append(o, config.WithUseDualStackEndpoint(sdk.DualStackEndpointStateEnabled))
	}
	if s.FIPS {
		o = append(o, config.WithUseFIPSEndpoint(sdk.FIPSEndpointStateEnabled))
	}
	return o
}

// paths returns the paths of files. A leading ~ is the home directory.
func (s *Settings) paths(files []string) []string {
	out := make([]string, len(files))
	for i, f := range files {
		if rest, ok := strings.CutPrefix(f, "~/"); ok && s.Env("HOME") != "" {
			f = s.Env("HOME") + "/" + rest
		}
		if s.Path != nil {
			f = s.Path(f)
		}
		out[i] = f
	}
	return out
}

// provider wraps the library's credentials in the configured exchanges.
func (s *Settings) provider(loaded sdk.Config, client *sts.Client) sdk.CredentialsProvider {
	base := loaded.Credentials
	if w := s.WebIdentity; w != nil && s.AccessKey+s.SecretKey+s.Token == "" {
		var token stscreds.IdentityTokenRetriever = stscreds.IdentityTokenFile(s.paths([]string{w.TokenFile})[0])
		if w.Token != "" {
			token = staticToken(w.Token)
		}
		base = sdk.NewCredentialsCache(stscreds.NewWebIdentityRoleProvider(client, w.RoleARN, token,
			func(o *stscreds.WebIdentityRoleOptions) {
				o.RoleSessionName, o.Duration, o.PolicyARNs = w.SessionName, w.Duration, policies(w.PolicyARNs)
				o.Policy = optional(w.Policy)
			}))
	}
	r := s.AssumeRole
	if r == nil {
		return base
	}
	client = sts.New(client.Options(), func(o *sts.Options) { o.Credentials = base })
	return sdk.NewCredentialsCache(stscreds.NewAssumeRoleProvider(client, r.RoleARN,
		func(o *stscreds.AssumeRoleOptions) {
			o.Duration, o.RoleSessionName, o.PolicyARNs = r.Duration, r.SessionName, policies(r.PolicyARNs)
			o.ExternalID, o.Policy = optional(r.ExternalID), optional(r.Policy)
			for k, v := range r.Tags {
				o.Tags = append(o.Tags, ststypes.Tag{Key: sdk.String(k), Value: sdk.String(v)})
			}
			o.TransitiveTagKeys = r.TransitiveTagKeys
		}))
}

func policies(arns []string) []ststypes.PolicyDescriptorType {
	var out []ststypes.PolicyDescriptorType
	for _, a := range arns {
		out = append(out, ststypes.PolicyDescriptorType{Arn: sdk.String(a)})
	}
	return out
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type staticToken string

func (t staticToken) GetIdentityToken() ([]byte, error) { return []byte(t), nil }

// ErrCABundle means that the file of certificates cannot be used.
var ErrCABundle = errors.New("the certificate authorities cannot be used")

// setTransport configures the certificates and proxies of the transport.
func (s *Settings) setTransport() error {
	t := s.Transport.TLSClientConfig // it may contain the authorities of the operation's environment
	if t == nil {
		t = &tls.Config{}
	}
	t.MinVersion, t.InsecureSkipVerify = max(t.MinVersion, tls.VersionTLS12), s.Insecure
	if s.CABundle != "" {
		text, err := os.ReadFile(s.paths([]string{s.CABundle})[0])
		if err != nil {
			return fmt.Errorf("%w: reading the certificates of custom_ca_bundle: %w", ErrCABundle, err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%w: the file %s of custom_ca_bundle holds no certificate in PEM form",
				ErrCABundle, s.CABundle)
		}
	}
	s.Transport.TLSClientConfig = t
	if s.HTTPProxy == nil && s.HTTPSProxy == nil && s.NoProxy == nil {
		return nil
	}
	either := func(set *string, names ...string) string {
		if set != nil {
			return *set
		}
		for _, n := range names {
			if v := s.Env(n); v != "" {
				return v
			}
		}
		return ""
	}
	proxies := httpproxy.Config{
		HTTPProxy:  either(s.HTTPProxy, "HTTP_PROXY", "http_proxy"),
		HTTPSProxy: either(s.HTTPSProxy, "HTTPS_PROXY", "https_proxy"),
		NoProxy:    either(s.NoProxy, "NO_PROXY", "no_proxy"),
	}
	if s.HTTPProxy != nil && s.HTTPSProxy == nil && proxies.HTTPSProxy == "" {
		proxies.HTTPSProxy = *s.HTTPProxy
	}
	choose := proxies.ProxyFunc()
	s.Transport.Proxy = func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
	return nil
}
