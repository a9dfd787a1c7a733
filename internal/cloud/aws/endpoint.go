package aws

import (
	"cmp"
	"context"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// endpoints are the addresses of services.
type endpoints struct {
	custom map[string]string // by service: those that the environment or the shared files configure
	region string
	// dual and fips choose kinds of AWS's own addresses.
	dual, fips bool
}

// ids are the names of services in variables and in the shared files.
var ids = map[string]string{"s3": "S3", "dynamodb": "DynamoDB", "kms": "KMS"}

// endpoints reads the environment, and the profile that the library has loaded.
func (s *Settings) endpoints(ctx context.Context, loaded sdk.Config) endpoints {
	var profile config.SharedConfig
	for _, source := range loaded.ConfigSources {
		if found, ok := source.(config.SharedConfig); ok {
			profile = found
		}
	}
	// either returns the value of a variable, or that of the profile if it is not set.
	either := func(variable string, profile bool) bool {
		if v := s.Env(variable); v != "" {
			return strings.EqualFold(v, "true")
		}
		return profile
	}
	e := endpoints{custom: map[string]string{}, region: s.Region}
	e.dual = s.DualStack || either("AWS_USE_DUALSTACK_ENDPOINT",
		profile.UseDualStackEndpoint == sdk.DualStackEndpointStateEnabled)
	e.fips = s.FIPS || either("AWS_USE_FIPS_ENDPOINT", profile.UseFIPSEndpoint == sdk.FIPSEndpointStateEnabled)
	if either("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", sdk.ToBool(profile.IgnoreConfiguredEndpoints)) {
		return e
	}
	for service, id := range ids { // the address of the service comes before the common one, as in AWS's tools
		ofProfile, _, _ := profile.GetServiceBaseEndpoint(ctx, id) // it reads a field
		e.custom[service] = cmp.Or(s.Env("AWS_ENDPOINT_URL_"+strings.ToUpper(id)), ofProfile, s.Env("AWS_ENDPOINT_URL"),
			profile.BaseEndpoint)
	}
	return e
}

// partitions have the domains of regions that begin with a prefix; the last one has all others.
var partitions = []struct{ prefix, domain, dual string }{
	{"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"},
	{"eusc-", "amazonaws.eu", "api.amazonwebservices.eu"},
	{"us-iso-", "c2s.ic.gov", "api.aws.ic.gov"},
	{"us-isob-", "sc2s.sgov.gov", "api.aws.scloud"},
	{"eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"},
	{"us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"},
	{"", "amazonaws.com", "api.aws"},
}

// own returns AWS's address of a service: without dual stack and FIPS https://SERVICE.REGION.amazonaws.com.
func (e endpoints) own(service string) string {
	i := 0
	for !strings.HasPrefix(e.region, partitions[i].prefix) {
		i++
	}
	domain, s3 := partitions[i].domain, strings.HasPrefix(service, "s3")
	// All addresses of DynamoDB for the US government conform to FIPS, and have no other name for it.
	if e.fips && !(service == "dynamodb" && strings.HasPrefix(e.region, "us-gov-") && !e.dual) {
		service += "-fips"
	}
	switch {
	case e.dual && s3:
		service += ".dualstack"
	case e.dual:
		domain = partitions[i].dual
	}
	return "https://" + service + "." + e.region + "." + domain
}

// Endpoint returns the address of a service, such as "s3": the configured one, or AWS's own.
func (s *Client) Endpoint(service string) string {
	if custom := s.endpoints.custom[service]; custom != "" {
		return WithScheme(custom)
	}
	return s.endpoints.own(service)
}

// WithScheme adds https:// to an address without a scheme.
func WithScheme(endpoint string) string {
	if strings.Contains(endpoint, "://") {
		return endpoint
	}
	return "https://" + endpoint
}
