// Package s3 stores snapshots in a bucket of Amazon S3, or of a compatible service, compatible with OpenTofu's
// backend "s3".
//
// A workspace is an object. It is locked by a second object, by an item in a DynamoDB table, or by both.
package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/millipede-iac/millipede/internal/cloud/aws"
	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// driver sends the requests about objects.
type driver struct {
	client  *aws.Client
	address *url.URL // of the bucket

	bucket, acl, stateTags string
	checksum               bool
	// putHeaders are sent when storing, keyHeaders with all requests about a state: a customer's key.
	putHeaders, keyHeaders map[string]string
}

// Where implements bucket.Driver.
func (d *driver) Where(key string) string { return "s3://" + d.bucket + "/" + key }

// Close implements bucket.Driver.
func (d *driver) Close() { d.client.Close() }

// ask sends a request about an object; query may be nil.
func (d *driver) ask(ctx context.Context, method, key string, query url.Values, header map[string]string,
	body []byte) (*call.Response, error) {
	h := http.Header{}
	for name, v := range header {
		h.Set(name, v)
	}
	u := *d.address
	if key != "" || u.Path == "" {
		u.Path += "/" + key
	}
	u.RawPath = aws.EscapePath(u.Path)
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return d.client.Do(ctx, "s3", call.Request{Method: method, URL: u.String(), Header: h, Body: body})
}

// readHeaders are the headers of a request that reads an object.
func (d *driver) readHeaders() map[string]string {
	h := map[string]string{}
	for k, v := range d.keyHeaders {
		h[k] = v
	}
	if d.checksum {
		h["X-Amz-Checksum-Mode"] = "ENABLED"
	}
	return h
}

// Get implements bucket.Driver.
func (d *driver) Get(ctx context.Context, key string) ([]byte, error) {
	answer, err := d.ask(ctx, http.MethodGet, key, nil, d.readHeaders(), nil)
	switch {
	case call.IsCode(err, "NoSuchBucket"):
		return nil, d.noBucket(err)
	case call.IsCode(err, "NoSuchKey", "NotFound"):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if want := answer.Header.Get("X-Amz-Checksum-Sha256"); d.checksum && want != "" && !strings.Contains(want, "-") &&
		want != checksum(answer.Body) {
		return nil, fmt.Errorf("the object %s does not have the check sum %s that S3 has for it", key, want)
	}
	return answer.Body, nil
}

func (d *driver) noBucket(err error) error {
	return fmt.Errorf("S3 bucket does not exist: the bucket %q must have been previously created, in this region and "+
		"account; Millipede does not create it: %w", d.bucket, err)
}

// put stores an object.
func (d *driver) put(ctx context.Context, key, tags string, more map[string]string, data []byte) error {
	h := map[string]string{"Content-Type": "application/json"}
	for _, headers := range []map[string]string{d.putHeaders, d.keyHeaders, more} {
		for k, v := range headers {
			h[k] = v
		}
	}
	if d.acl != "" {
		h["X-Amz-Acl"] = d.acl
	}
	if tags != "" {
		h["X-Amz-Tagging"] = tags
	}
	if d.checksum {
		h["X-Amz-Checksum-Sha256"], h["X-Amz-Sdk-Checksum-Algorithm"] = checksum(data), "SHA256"
	}
	_, err := d.ask(ctx, http.MethodPut, key, nil, h, data)
	if call.IsCode(err, "NoSuchBucket") {
		return d.noBucket(err)
	}
	return err
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Put implements bucket.Driver.
func (d *driver) Put(ctx context.Context, key string, data []byte) error {
	return d.put(ctx, key, d.stateTags, nil, data)
}

// Delete implements bucket.Driver.
func (d *driver) Delete(ctx context.Context, key string) error {
	_, err := d.ask(ctx, http.MethodDelete, key, nil, nil, nil)
	return err
}

// List implements bucket.Driver. If listing is not permitted, there is nothing to list.
func (d *driver) List(ctx context.Context, prefix, page string) (keys []string, next string, err error) {
	query := url.Values{"list-type": {"2"}, "max-keys": {"1000"}, "prefix": {prefix}}
	if page != "" {
		query.Set("continuation-token", page)
	}
	answer, err := d.ask(ctx, http.MethodGet, "", query, nil, nil)
	switch {
	case call.IsCode(err, "AccessDenied"):
		return nil, "", nil
	case call.IsCode(err, "NoSuchBucket"):
		return nil, "", d.noBucket(err)
	case err != nil:
		return nil, "", err
	}
	var list struct {
		Contents              []struct{ Key string }
		NextContinuationToken string
	}
	if err := xml.Unmarshal(answer.Body, &list); err != nil {
		return nil, "", fmt.Errorf("reading the list of objects: %w", err)
	}
	for _, object := range list.Contents {
		keys = append(keys, object.Key)
	}
	return keys, list.NextContinuationToken, nil
}
