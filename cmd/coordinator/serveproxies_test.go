package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/environ"
)

func TestOnlyATrustedProxyNamesTheClient(t *testing.T) {
	for option, want := range map[string]string{
		"-trusted-proxies=": "from=127.0.0.1", "-trusted-proxies=127.0.0.0/8": "from=198.51.100.1",
	} {
		log := &safe{}
		s, token := serveTo(t, t.TempDir(), "", log, option)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.address+"/api/v2/organizations",
			strings.NewReader(`{"data":{"type":"organizations","attributes":{"name":"other"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		reply, err := s.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := reply.Body.Close(); err != nil || reply.StatusCode != http.StatusCreated {
			t.Fatalf("%s, %v", reply.Status, err)
		}
		s.stop()
		if !strings.Contains(log.String(), want) {
			t.Errorf("with %s the log does not say %s:\n%s", option, want, log.String())
		}
	}
	a := newApp(strings.NewReader(""), new(strings.Builder), new(strings.Builder),
		environ.Variables{"HOME=" + t.TempDir()})
	if code := a.Run(t.Context(), []string{"serve", "-trusted-proxies=proxy"}); code != 1 {
		t.Errorf("the name of a proxy is no address: exit status %d", code)
	}
}
