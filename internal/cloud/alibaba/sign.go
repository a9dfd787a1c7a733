package alibaba

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

func mac(secret, text string) string {
	h := hmac.New(sha1.New, []byte(secret)) // required by the services
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Objects returns a Caller for the objects of a bucket. The path of a request is that of the object, without the
// bucket, which is in the host name.
func (s *Client) Objects(bucket string) *call.Caller {
	return s.caller(func(ctx context.Context, r *http.Request, _ []byte) error {
		keys, err := s.keys.Get(ctx)
		if err != nil {
			return err
		}
		r.Header.Set("Date", s.clock.Now().UTC().Format(http.TimeFormat))
		if keys.Token != "" {
			r.Header.Set("X-Oss-Security-Token", keys.Token)
		}
		r.Header.Set("Authorization", "OSS "+keys.ID+":"+mac(keys.Secret, ObjectString(r.Method, r.Header, bucket,
			r.URL.Path)))
		return nil
	}, objectTimeout)
}

// objectTimeout bounds one attempt at the object store.
const objectTimeout = 5 * time.Minute

// ObjectString returns the text to sign of a request to the object store.
func ObjectString(method string, h http.Header, bucket, path string) string {
	var b strings.Builder
	for _, line := range []string{method, h.Get("Content-Md5"), h.Get("Content-Type"), h.Get("Date")} {
		b.WriteString(line + "\n")
	}
	prefixed(&b, h, "x-oss-")
	return b.String() + "/" + bucket + path
}

// prefixed returns the headers with a prefix, in lower case and sorted.
func prefixed(b *strings.Builder, h http.Header, prefix string) {
	lower := map[string]string{}
	for name, values := range h {
		if n := strings.ToLower(name); strings.HasPrefix(n, prefix) {
			lower[n] = strings.TrimSpace(values[0])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lower)) {
		b.WriteString(name + ":" + lower[name] + "\n")
	}
}

// Table returns a Caller for an instance of TableStore.
func (s *Client) Table(instance string) *call.Caller {
	return s.caller(func(ctx context.Context, r *http.Request, body []byte) error {
		keys, err := s.keys.Get(ctx)
		if err != nil {
			return err
		}
		sum := md5.Sum(body) // a checksum in the protocol
		for name, value := range map[string]string{
			"X-Ots-Date": s.clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "X-Ots-Apiversion": "2015-12-31",
			"X-Ots-Accesskeyid": keys.ID, "X-Ots-Instancename": instance,
			"X-Ots-Contentmd5": base64.StdEncoding.EncodeToString(sum[:]),
		} {
			r.Header.Set(name, value)
		}
		if keys.Token != "" {
			r.Header.Set("X-Ots-Ststoken", keys.Token)
		}
		r.Header.Set("X-Ots-Signature", mac(keys.Secret, TableString(r.URL.Path, r.Header)))
		return nil
	}, tableTimeout)
}

// tableTimeout bounds one attempt at TableStore.
const tableTimeout = 30 * time.Second

// TableString returns the text to sign of a request to TableStore. The signature's own header is left out.
func TableString(path string, h http.Header) string {
	h = h.Clone()
	h.Del("X-Ots-Signature")
	var b strings.Builder
	b.WriteString(path + "\nPOST\n\n")
	prefixed(&b, h, "x-ots-")
	return b.String()
}

// escape encodes everything but letters, digits and -_.~.
func escape(text string) string {
	return strings.NewReplacer("+", "%20", "*", "%2A", "%7E", "~").Replace(url.QueryEscape(text))
}

// QueryString returns the text to sign of a request to the other services.
func QueryString(method string, query url.Values) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "Signature" {
			pairs = append(pairs, escape(name)+"="+escape(query.Get(name)))
		}
	}
	return method + "&%2F&" + escape(strings.Join(pairs, "&"))
}

// Mac returns the signature of such a text.
func Mac(secret, text string) string { return mac(secret, text) }

// rpc calls an operation of a service whose arguments are in the query.
func (s *Client) rpc(ctx context.Context, keys call.Keys, endpoint string, query url.Values, out any) error {
	sign := func(_ context.Context, r *http.Request, _ []byte) error {
		q := url.Values{}
		for name, values := range query {
			q[name] = values
		}
		for name, value := range map[string]string{
			"Format": "JSON", "AccessKeyId": keys.ID, "SignatureMethod": "HMAC-SHA1", "SignatureVersion": "1.0",
			"SignatureNonce": rand.Text(), "Timestamp": s.clock.Now().UTC().Format("2006-01-02T15:04:05Z"),
		} {
			q.Set(name, value)
		}
		if keys.Token != "" {
			q.Set("SecurityToken", keys.Token)
		}
		q.Set("Signature", mac(keys.Secret+"&", QueryString(http.MethodGet, q)))
		r.URL.RawQuery = q.Encode()
		return nil
	}
	answer, err := s.caller(sign, tableTimeout).Do(ctx, call.Request{Method: http.MethodGet, URL: WithScheme(endpoint) +
		"/"})
	if err != nil {
		return explain(err)
	}
	if err := json.Unmarshal(answer.Body, out); err != nil {
		return fmt.Errorf("reading the answer of %s: it is no JSON", endpoint)
	}
	return nil
}
