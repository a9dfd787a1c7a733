package tencent

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

func mac(of func() hash.Hash, key []byte, text string) []byte {
	h := hmac.New(of, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// signAPI signs a request to a service with JSON responses.
func signAPI(r *http.Request, body []byte, service string, keys call.Keys, now time.Time) {
	r.Header.Set("X-Tc-Timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("Authorization", APIAuthorization(r.URL.Host, r.Header, body, service, keys.ID, keys.Secret))
}

// APIAuthorization returns the authorization header of such a request. The time is in the header X-TC-Timestamp.
func APIAuthorization(host string, h http.Header, body []byte, service, id, secret string) string {
	seconds, _ := strconv.ParseInt(h.Get("X-Tc-Timestamp"), 10, 64)
	date := time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	canonical := "POST\n/\n\ncontent-type:" + h.Get("Content-Type") + "\nhost:" + host + "\n\ncontent-type;host\n" +
		sha256Hex(body)
	scope := date + "/" + service + "/tc3_request"
	text := "TC3-HMAC-SHA256\n" + h.Get("X-Tc-Timestamp") + "\n" + scope + "\n" + sha256Hex([]byte(canonical))
	key := mac(sha256.New, []byte("TC3"+secret), date)
	key = mac(sha256.New, mac(sha256.New, key, service), "tc3_request")
	return fmt.Sprintf("TC3-HMAC-SHA256 Credential=%s/%s, SignedHeaders=content-type;host, Signature=%x", id, scope,
		mac(sha256.New, key, text))
}

// valid is how long a signature of a request to the object store is valid. It begins a while ago, because clocks
// differ.
const (
	valid = time.Hour
	ago   = 5 * time.Minute
)

// signObject signs a request to the object store.
func signObject(r *http.Request, keys call.Keys, now time.Time) {
	if keys.Token != "" {
		r.Header.Set("X-Cos-Security-Token", keys.Token)
	}
	r.Header.Set("Host", r.URL.Host) // signed; net/http sends it by itself
	defer r.Header.Del("Host")
	var signed []string
	for name := range r.Header {
		n := strings.ToLower(name)
		if n == "host" || strings.HasPrefix(n, "x-cos-") {
			signed = append(signed, n)
		}
	}
	slices.Sort(signed)
	during := fmt.Sprintf("%d;%d", now.Add(-ago).Unix(), now.Add(valid).Unix())
	r.Header.Set("Authorization", ObjectAuthorization(r.Method, r.URL, r.Header, signed, during, keys.ID, keys.Secret))
}

// ObjectAuthorization returns the authorization header of a request to the object store. Host must be among the
// headers.
func ObjectAuthorization(method string, u *url.URL, h http.Header, signed []string, during, id, secret string) string {
	headers := map[string]string{}
	for _, name := range signed {
		headers[name] = h.Get(name)
	}
	query := map[string]string{}
	for name, values := range u.Query() {
		query[name] = values[0]
	}
	headerText, headerNames := pairs(headers)
	queryText, queryNames := pairs(query)
	sum := sha1.Sum([]byte(strings.ToLower(method) + "\n" + u.Path + "\n" + queryText + "\n" + headerText + "\n"))
	key := hex.EncodeToString(mac(sha1.New, []byte(secret), during))
	signature := mac(sha1.New, []byte(key), fmt.Sprintf("sha1\n%s\n%x\n", during, sum))
	return fmt.Sprintf("q-sign-algorithm=sha1&q-ak=%s&q-sign-time=%s&q-key-time=%s"+
		"&q-header-list=%s&q-url-param-list=%s&q-signature=%x",
		id, during, during, headerNames, queryNames, signature)
}

// pairs returns names and values in the form for signing, and the list of the names.
func pairs(m map[string]string) (text, names string) {
	escaped := map[string]string{}
	for name, value := range m {
		escaped[strings.ToLower(escape(name))] = escape(value)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(escaped)) {
		all = append(all, name+"="+escaped[name])
	}
	return strings.Join(all, "&"), strings.Join(slices.Sorted(maps.Keys(escaped)), ";")
}

// escape encodes everything but letters, digits and -_.~.
func escape(text string) string {
	return strings.NewReplacer("+", "%20", "%7E", "~").Replace(url.QueryEscape(text))
}
