package serving

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The administrator's token was printed wherever standard output went: into the journal of systemd, or into the log of
// a container, which are kept, and read by many.
func TestTheTokenOfTheAdministratorIsShownOnTerminalsAlone(t *testing.T) {
	const token = "secret.atlasv1.canary"
	announced := func(watched bool) (text, data string) {
		data = t.TempDir()
		var out bytes.Buffer
		s := &serving{Options: Options{Data: data, Out: &out, Watched: watched}}
		s.announce(s.Options, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}, "ca.pem", token)
		return out.String(), data
	}
	text, data := announced(false)
	file := filepath.Join(data, "admin.token")
	if strings.Contains(text, "canary") || !strings.Contains(text, file) {
		t.Errorf("it says:\n%s", text)
	}
	kept, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(kept)) != token {
		t.Errorf("the file has %q, %v", kept, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	text, data = announced(true)
	if !strings.Contains(text, token) {
		t.Errorf("on a terminal it says:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(data, "admin.token")); !os.IsNotExist(err) {
		t.Errorf("there is a file, too: %v", err)
	}
}

// Browsers were not told to use HTTPS only.
func TestOnlyANameOfTheServiceAloneIsForHTTPSOnly(t *testing.T) {
	for address, want := range map[string]bool{"": false, "https://runs.example.org": true,
		"https://runs.example.org:8443": true, "https://localhost:8443": false, "https://x.localhost": false,
		"https://192.0.2.7": false, "https://[2001:db8::1]:8443": false} {
		o := Options{Address: address, Listen: "127.0.0.1:8443"}
		if got := o.ownName(); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}
