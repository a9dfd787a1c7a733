package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func TestTheNATSConfigurationKeepsWhatTheProtocolRestsOn(t *testing.T) {
	options, err := server.ProcessConfigFile("nats/nats-server.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !options.JetStream || !options.SyncAlways {
		t.Errorf("JetStream %v, synced always %v", options.JetStream, options.SyncAlways)
	}
	if options.MaxPayload != 8<<20 {
		t.Errorf("max_payload is %d", options.MaxPayload)
	}
	if options.PingInterval != 2*time.Second || options.MaxPingsOut != 2 {
		t.Errorf("%d pings every %v", options.MaxPingsOut, options.PingInterval)
	}
	if options.Host != "127.0.0.1" {
		t.Errorf("it listens on %q without authentication", options.Host)
	}
}

func TestWhatIsCommentedOutIsValidConfigurationToo(t *testing.T) {
	text, err := os.ReadFile("nats/nats-server.conf")
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Index(string(text), "# tls {")
	optional := regexp.MustCompile(`(?m)^# ?`).ReplaceAllString(string(text[start:]), "")
	optional = regexp.MustCompile(`(?m)^.*_file: .*$`).ReplaceAllString(optional, "") // certificates are the user's
	optional = strings.Replace(optional, "verify: true", "", 1)                       // which needs them

	path := filepath.Join(t.TempDir(), "full.conf")
	if err := os.WriteFile(path, append(text[:start:start], optional...), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if options.Cluster.Name != "millipede" || len(options.Routes) != 2 {
		t.Errorf("cluster %q, %d routes", options.Cluster.Name, len(options.Routes))
	}
}
