package natsconn_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/cmd/internal/natsconn"
	"github.com/millipede-iac/millipede/wire/jet"
)

func TestWhatIsSaidCloserToTheCallCounts(t *testing.T) {
	for claim, tt := range map[string]struct {
		flags []string
		env   map[string]string
		want  jet.Options
	}{
		"an option before a variable": {
			[]string{"-nats=a", "-nats-ca=ca"}, map[string]string{"MILLIPEDE_NATS": "b", "NATS_URL": "c",
				"NATS_CA": "other"},
			jet.Options{URL: "a", CAFile: "ca"},
		},
		"a variable of ours before one of all NATS programs": {
			nil, map[string]string{"MILLIPEDE_NATS": "b", "NATS_URL": "c"}, jet.Options{URL: "b"},
		},
		"what nothing else says comes from those of all NATS programs": {
			nil, map[string]string{"NATS_URL": "c", "NATS_NKEY": "seed", "NATS_CERT": "cert", "NATS_KEY": "key",
				"NATS_CA": "ca"},
			jet.Options{URL: "c", NKeyFile: "seed", CertificateFile: "cert", KeyFile: "key", CAFile: "ca"},
		},
		"a user replaces credentials, whatever kind they are of": {
			[]string{"-nats-creds=file"}, map[string]string{"MILLIPEDE_NATS_TOKEN": "t", "NATS_USER": "u",
				"NATS_PASSWORD": "p"},
			jet.Options{CredentialsFile: "file"},
		},
		"a user in the URL replaces credentials too": {
			[]string{"-nats=nats://u:p@host"}, map[string]string{"NATS_CREDS": "file"},
			jet.Options{URL: "nats://u:p@host"},
		},
		"a password may be kept elsewhere": {
			[]string{"-nats-user=u"}, map[string]string{"MILLIPEDE_NATS_PASSWORD": "p", "NATS_USER": "other"},
			jet.Options{User: "u", Password: "p"},
		},
		"a certificate and its key come from one place": {
			[]string{"-nats-cert=mine"}, map[string]string{"NATS_CERT": "cert", "NATS_KEY": "key"},
			jet.Options{CertificateFile: "mine"},
		},
	} {
		var s natsconn.Settings
		f := flag.NewFlagSet("", flag.ContinueOnError)
		s.Flags(f)
		if err := f.Parse(tt.flags); err != nil {
			t.Fatal(err)
		}
		getenv := func(name string) string { return tt.env[name] }
		got := s.Over(natsconn.Own(getenv)).Over(natsconn.Shared(getenv)).Options()
		got.Log = nil
		if got.URL != tt.want.URL || got.User != tt.want.User || got.Password != tt.want.Password ||
			got.Token != tt.want.Token ||
			got.CredentialsFile != tt.want.CredentialsFile || got.NKeyFile != tt.want.NKeyFile ||
			got.CAFile != tt.want.CAFile ||
			got.CertificateFile != tt.want.CertificateFile || got.KeyFile != tt.want.KeyFile {
			t.Errorf("%s: %+v", claim, got)
		}
	}
}

func TestAPasswordIsNoOption(t *testing.T) {
	var s natsconn.Settings
	for _, name := range []string{"nats-password", "nats-token", "nats-", "chdir"} {
		if s.Flag(name, "x") {
			t.Errorf("-%s is taken", name)
		}
	}
	if !s.Flag("nats-creds", "file") || s.Credentials != "file" {
		t.Errorf("-nats-creds is not taken: %+v", s)
	}
}

// Plugins and provisioners inherited the worker's whole environment, so that a provisioner "env" in any module printed
// the password with which the worker connects to NATS.
func TestWhatSaysHowToReachNATSIsNotHandedOn(t *testing.T) {
	environ := []string{
		"PATH=/bin", "MILLIPEDE_NATS=nats://a:b@host", "MILLIPEDE_NATS_PASSWORD=p", "MILLIPEDE_NATS_NKEY=file",
		"MILLIPEDE_WORKER=w",
		"NATS_URL=nats://host", "NATS_CREDS=file", "NATS_PASSWORD=p", "NATSUMI=a", "NATS_OTHER=b",
		"CREDENTIALS_DIRECTORY=/run/credentials", "EMPTY",
	}
	for claim, tt := range map[string]struct {
		shared bool
		want   []string
	}{
		"variables of this project never are": {false, []string{
			"PATH=/bin", "MILLIPEDE_WORKER=w",
			"NATS_URL=nats://host", "NATS_CREDS=file", "NATS_PASSWORD=p", "NATSUMI=a", "NATS_OTHER=b",
			"CREDENTIALS_DIRECTORY=/run/credentials", "EMPTY"}},
		"those of all NATS programs are not, where the program connects by them": {true, []string{
			"PATH=/bin", "MILLIPEDE_WORKER=w", "NATSUMI=a", "NATS_OTHER=b", "EMPTY"}},
	} {
		if got := natsconn.Strip(environ, tt.shared); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", claim, got)
		}
	}
	if natsconn.Strip([]string{"NATS_URL=x"}, true) == nil {
		t.Error("an empty environment is nil, which stands for that of the process")
	}
}
