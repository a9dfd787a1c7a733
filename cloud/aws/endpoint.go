package aws

import (
	"context"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// endpoints are the addresses of services, as the environment and the shared files configure them.
type endpoints struct {
	env    func(name string) string
	shared config.SharedConfig // the profile's part of the shared files
	region string
	// dual and fips choose kinds of AWS's own addresses.
	dual, fips bool
}

func (s *Settings) endpoints(loaded sdk.Config) endpoints {
	e := endpoints{env: s.Env, region: s.Region}
	for _, source := range loaded.ConfigSources {
		if shared, ok := source.(config.SharedConfig); ok {
			e.shared = shared
		}
	}
	dual, given, _ := e.shared.GetUseDualStackEndpoint(context.Background()) // reads a field
	e.dual = s.DualStack || e.either("AWS_USE_DUALSTACK_ENDPOINT", given && dual == sdk.DualStackEndpointStateEnabled)
	fips, given, _ := e.shared.GetUseFIPSEndpoint(context.Background())
	e.fips = s.FIPS || e.either("AWS_USE_FIPS_ENDPOINT", given && fips == sdk.FIPSEndpointStateEnabled)
	return e
}

// either returns the value of a variable, or that of the shared files if it is not set.
func (e endpoints) either(variable string, shared bool) bool {
	if v := e.env(variable); v != "" {
		return strings.EqualFold(v, "true")
	}
	return shared
}

// ids are the names of services in variables and in the shared files.
var ids = map[string]string{"s3": "S3", "dynamodb": "DynamoDB", "kms": "KMS"}

// configured returns the address of a service in the environment or the shared files, in the order of AWS's tools: that
// of the service comes before the common one of all services. It is empty if there is none.
func (e endpoints) configured(service string) string {
	id, known := ids[service]
	if !known || e.either("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
		e.shared.IgnoreConfiguredEndpoints != nil && *e.shared.IgnoreConfiguredEndpoints) {
		return ""
	}
	if v := e.env("AWS_ENDPOINT_URL_" + strings.ToUpper(id)); v != "" {
		return v
	}
	if v, found, _ := e.shared.GetServiceBaseEndpoint(context.Background(), id); found { // reads a field
		return v
	}
	if v := e.env("AWS_ENDPOINT_URL"); v != "" {
		return v
	}
	return e.shared.BaseEndpoint
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
func (s *Session) Endpoint(service string) string {
	if custom := s.endpoints.configured(service); custom != "" {
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
