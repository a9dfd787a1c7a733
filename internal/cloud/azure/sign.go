package azure

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signer signs with the key of a storage account.
type signer struct {
	account string
	key     []byte
}

func sharedKey(account, text string) (*signer, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) == 0 {
		return nil, ErrAccessKey
	}
	return &signer{account, key}, nil
}

func (s *signer) sign(r *http.Request, body []byte, now time.Time) {
	r.Header.Set("X-Ms-Version", storageVersion)
	r.Header.Set("X-Ms-Date", now.UTC().Format(http.TimeFormat))
	r.Header.Set("Authorization", "SharedKey "+s.account+":"+s.signature(r, len(body)))
}

func (s *signer) signature(r *http.Request, length int) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(StringToSign(s.account, r.Method, r.URL, r.Header, length)))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// StringToSign returns the text to sign with an account's key.
func StringToSign(account, method string, u *url.URL, h http.Header, length int) string {
	var b strings.Builder
	line := func(text string) { b.WriteString(text + "\n") }
	line(method)
	line(h.Get("Content-Encoding"))
	line(h.Get("Content-Language"))
	if length > 0 {
		line(strconv.Itoa(length))
	} else {
		line("")
	}
	for _, name := range []string{
		"Content-Md5", "Content-Type", "Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since",
		"Range",
	} {
		line(h.Get(name))
	}
	for _, name := range slices.SortedFunc(maps.Keys(h), func(a, b string) int {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	}) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			line(lower + ":" + strings.TrimSpace(strings.Join(h[name], ",")))
		}
	}
	b.WriteString("/" + account + u.EscapedPath())
	query := map[string][]string{}
	for name, values := range u.Query() {
		query[strings.ToLower(name)] = append(query[strings.ToLower(name)], values...)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		b.WriteString("\n" + name + ":" + strings.Join(slices.Sorted(slices.Values(query[name])), ","))
	}
	return b.String()
}
