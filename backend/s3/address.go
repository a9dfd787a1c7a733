package s3

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/millipede-iac/millipede/internal/cloud/aws"
	"github.com/millipede-iac/millipede/internal/pattern"
)

// accessPoint matches the ARN of an access point: its region, its account and its name.
var accessPoint = pattern.Lazy(`^arn:[\w-]+:s3:([a-z0-9-]+):(\d{12}):accesspoint[:/]([a-z0-9-]+)$`)

// directory is the end of the names of directory buckets, whose requests need sessions.
const directory = "--x-s3"

// checkBucket returns the error in the name of a bucket, or in the ARN of an access point that replaces it; empty for
// none.
func checkBucket(bucket, region string, pathStyle bool) string {
	found := accessPoint().FindStringSubmatch(bucket)
	switch {
	case bucket == "":
		return "The value cannot be empty"
	case strings.HasSuffix(bucket, directory):
		return "Directory buckets are not supported"
	case !strings.HasPrefix(bucket, "arn:"):
		return ""
	case found == nil:
		return "The ARN must be that of an access point: arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME"
	case found[1] != region:
		return fmt.Sprintf("The access point is in the region %s, not in %q", found[1], region)
	case pathStyle:
		return "An access point cannot be used with path-style addresses"
	}
	return ""
}

// locate returns the address of a bucket or access point. custom is the configured address of the service; empty for
// that of AWS. As with AWS's libraries, the bucket is a part of the host name if it can be one, and else of the path.
func locate(client *aws.Client, bucket, custom string, pathStyle bool) (*url.URL, error) {
	point := accessPoint().FindStringSubmatch(bucket)
	endpoint := custom
	if custom == "" {
		service := "s3"
		if point != nil {
			service = "s3-accesspoint"
		}
		endpoint = client.Endpoint(service)
	}
	u, err := url.Parse(aws.WithScheme(endpoint))
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the address %q of S3 is not a valid URL", endpoint)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	_, notIP := netip.ParseAddr(u.Hostname())
	switch {
	case point != nil:
		u.Host = point[3] + "-" + point[2] + "." + u.Host
	case pathStyle || notIP == nil || !isHostName(bucket, u.Scheme == "http"):
		u.Path += "/" + bucket
	default:
		u.Host = bucket + "." + u.Host
	}
	return u, nil
}

// isHostName reports whether a bucket can be the beginning of a host name. With https there is no certificate for a
// name with more dots.
func isHostName(bucket string, dots bool) bool {
	labels := []string{bucket}
	if dots {
		labels = strings.Split(bucket, ".")
	}
	for _, l := range labels {
		if !label().MatchString(l) {
			return false
		}
	}
	return true
}

// label matches what AWS's libraries accept as a part of a host name.
var label = pattern.Lazy(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)
