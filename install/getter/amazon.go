package getter

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/cloud/aws"
	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// amazon gets a package from S3, or from a compatible service.
func (g *Getter) amazon(ctx context.Context, u *url.URL, into string) error {
	at, err := amazonAddress(u)
	if err != nil {
		return err
	}
	s := g.services.Environment()
	b, err := at.open(ctx, s, u)
	if err != nil {
		return err
	}
	return getObjects(ctx, b, u, at.key, query(u).Get("version"), into, g.env.TempDir())
}

// amazonDomains are the domains of the partitions' services.
var amazonDomains = []string{
	"amazonaws.com", "amazonaws.com.cn", "amazonaws.eu", "c2s.ic.gov", "sc2s.sgov.gov", "csp.hci.ic.gov",
	"cloud.adc-e.uk",
}

// amazonObject is the location of an object.
type amazonObject struct {
	region, bucket, key string
	// endpoint is the address of a compatible service; empty for Amazon's own.
	endpoint string
}

// errNoObject means that an address does not name a bucket and an object in it.
var errNoObject = errors.New("the address does not name a bucket and an object in it")

// amazonAddress parses an address: BUCKET.s3.REGION.DOMAIN/KEY, BUCKET.s3-REGION.DOMAIN/KEY,
// s3[-REGION].DOMAIN/BUCKET/KEY, s3.REGION.DOMAIN/BUCKET/KEY, or with any other host HOST/BUCKET/KEY?region=REGION.
func amazonAddress(u *url.URL) (amazonObject, error) {
	var o amazonObject
	path := strings.TrimPrefix(u.Path, "/")
	i := slices.IndexFunc(amazonDomains, func(d string) bool { return strings.HasSuffix(u.Host, "."+d) })
	if i < 0 {
		scheme := u.Scheme
		if scheme != "http" {
			scheme = "https"
		}
		o.endpoint, o.region = scheme+"://"+u.Host, query(u).Get("region")
	} else {
		labels := strings.Split(strings.TrimSuffix(u.Host, "."+amazonDomains[i]), ".")
		region := func(label string) string { return strings.TrimPrefix(strings.TrimPrefix(label, "s3"), "-") }
		switch {
		case len(labels) == 1:
			o.region = region(labels[0])
		case len(labels) == 2 && labels[0] == "s3":
			o.region = labels[1]
		case len(labels) == 2:
			o.bucket, o.region = labels[0], region(labels[1])
		case len(labels) == 3 && labels[1] == "s3":
			o.bucket, o.region = labels[0], labels[2]
		default:
			return o, fmt.Errorf("the host %q is not one of Amazon S3", u.Host)
		}
	}
	if o.region == "" {
		o.region = "us-east-1"
	}
	if o.bucket == "" {
		o.bucket, path, _ = strings.Cut(path, "/")
	}
	o.key = path
	if o.bucket == "" || o.key == "" {
		return o, errNoObject
	}
	return o, nil
}

// open opens the bucket with the credentials of the address, or else with those of the standard chain of AWS tools.
func (o amazonObject) open(ctx context.Context, s cloud.Environment, u *url.URL) (*amazonBucket, error) {
	q := query(u)
	client, err := aws.Open(ctx, aws.Settings{
		Region: o.region, SkipRegionValidation: true, SkipCredentialsValidation: true, SkipAccountID: true,
		AccessKey: q.Get("aws_access_key_id"), SecretKey: q.Get("aws_access_key_secret"),
		Token:   q.Get("aws_access_token"),
		Profile: q.Get("aws_profile"), MetadataEndpoint: s.Either("AWS_METADATA_URL"), Attempts: 3,
		Transport: s.Transport(), Env: s.Env, Path: s.Path, UserAgent: s.UserAgent,
	})
	if err != nil {
		return nil, err
	}
	endpoint := o.endpoint
	if endpoint == "" {
		endpoint = client.Endpoint("s3")
	}
	at, err := url.Parse(strings.TrimSuffix(aws.WithScheme(endpoint), "/") + "/" + o.bucket)
	if err != nil {
		return nil, err
	}
	return &amazonBucket{client, at}, nil
}

type amazonBucket struct {
	client *aws.Client
	at     *url.URL
}

func (b *amazonBucket) ask(ctx context.Context, key string, q url.Values, limit int64) ([]byte, error) {
	u := *b.at
	if key != "" {
		u.Path += "/" + key
		u.RawPath = aws.EscapePath(u.Path)
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	answer, err := b.client.Do(ctx, "s3", call.Request{Method: http.MethodGet, URL: u.String(), MaxAnswer: limit})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// list implements bucket.
func (b *amazonBucket) list(ctx context.Context, prefix, more string) ([]string, string, error) {
	q := url.Values{"list-type": {"2"}, "prefix": {prefix}}
	if more != "" {
		q.Set("continuation-token", more)
	}
	body, err := b.ask(ctx, "", q, maxList)
	if err != nil {
		return nil, "", err
	}
	var answer struct {
		Contents              []struct{ Key string }
		NextContinuationToken string
	}
	if err := xml.Unmarshal(body, &answer); err != nil {
		return nil, "", fmt.Errorf("reading the list of objects: %w", err)
	}
	var names []string
	for _, c := range answer.Contents {
		names = append(names, c.Key)
	}
	return names, answer.NextContinuationToken, nil
}

// maxList bounds the size of one page of a list, in bytes: a thousand names of a kilobyte, and their markup.
const maxList = 8 << 20

// read implements bucket.
func (b *amazonBucket) read(ctx context.Context, name, version string, limit int64) ([]byte, error) {
	q := url.Values{}
	if version != "" {
		q.Set("versionId", version)
	}
	return b.ask(ctx, name, q, limit)
}
