// Package natsconn selects the NATS server that a program uses, and the user as whom it connects.
//
// Options, the environment and millipede.hcl may each give a part of the settings; options take precedence over the
// variables of this project, these over millipede.hcl, and that over the variables of all NATS programs. The package
// connects to nothing and reads none of the files that it names.
package natsconn

import (
	"flag"
	"strings"

	"github.com/millipede-iac/millipede/wire/jet"
)

// Settings are the settings from one source (the options, for example). A setting that the source does not give is
// empty.
type Settings struct {
	// URL is one or more servers, separated by commas.
	URL string
	// Credentials is a .creds file, NKey a file with the seed of an nkey. At most one of them, a user and a token.
	Credentials, NKey     string
	User, Password, Token string
	// CA is a file with the authorities that the server's certificate may be of; Certificate and Key are the client's.
	CA, Certificate, Key string
}

// Usage describes the options of Flag in the help of a program; the option -nats itself is described by the program.
const Usage = `  -nats-creds=FILE   Credentials of the NATS user (.creds); or -nats-nkey=FILE, the seed of an nkey; or
                     -nats-user=NAME, with the password in MILLIPEDE_NATS_PASSWORD.
  -nats-ca=FILE      The authority of the server's certificate.
  -nats-cert=FILE, -nats-key=FILE
                     The certificate that this program shows the server, and its key.

  The environment variables MILLIPEDE_NATS, MILLIPEDE_NATS_CREDS, _NKEY, _USER, _PASSWORD, _TOKEN, _CA, _CERT and _KEY
  say the same, and after them those that other NATS programs use: NATS_CREDS, NATS_NKEY, NATS_USER and so on.
`

// names are the endings of options and variables. A password or a token is no option: others see a program's arguments.
func (s *Settings) names() map[string]*string {
	return map[string]*string{
		"creds": &s.Credentials, "nkey": &s.NKey, "user": &s.User, "password": &s.Password, "token": &s.Token,
		"ca": &s.CA, "cert": &s.Certificate, "key": &s.Key,
	}
}

// Flag takes the value of an option, which is named without dashes. It returns false for one that is none of these.
func (s *Settings) Flag(name, value string) bool {
	if name == "nats" {
		s.URL = value
		return true
	}
	name, ok := strings.CutPrefix(name, "nats-")
	to := s.names()[name]
	if !ok || to == nil || to == &s.Password || to == &s.Token {
		return false
	}
	*to = value
	return true
}

// Flags adds the options to a set.
func (s *Settings) Flags(f *flag.FlagSet) {
	f.StringVar(&s.URL, "nats", "", "")
	for name, to := range s.names() {
		if to != &s.Password && to != &s.Token {
			f.StringVar(to, "nats-"+name, "", "")
		}
	}
}

// Own returns the settings in the variables of this project: MILLIPEDE_NATS and those that begin with MILLIPEDE_NATS_.
func Own(getenv func(string) string) Settings {
	s := Settings{URL: getenv("MILLIPEDE_NATS")}
	s.fill("MILLIPEDE_NATS_", getenv)
	return s
}

// Shared returns the settings in the variables that all NATS programs read: NATS_URL and those that begin with NATS_.
func Shared(getenv func(string) string) Settings {
	s := Settings{URL: getenv("NATS_URL")}
	s.fill("NATS_", getenv)
	return s
}

func (s *Settings) fill(prefix string, getenv func(string) string) {
	for name, to := range s.names() {
		*to = getenv(prefix + strings.ToUpper(name))
	}
}

// Over returns the settings, with those of a source of lower precedence where these are empty. A source that identifies
// a user in any way replaces the whole identity of the weaker source. Only a password is taken from the weaker source
// if it is missing.
func (s Settings) Over(weaker Settings) Settings {
	if !s.identifies() {
		s.Credentials, s.NKey, s.User, s.Token = weaker.Credentials, weaker.NKey, weaker.User, weaker.Token
	}
	for _, v := range []struct {
		to   *string
		from string
	}{{&s.URL, weaker.URL}, {&s.Password, weaker.Password}, {&s.CA, weaker.CA}} {
		if *v.to == "" {
			*v.to = v.from
		}
	}
	if s.Certificate == "" && s.Key == "" {
		s.Certificate, s.Key = weaker.Certificate, weaker.Key
	}
	return s
}

// Resolved returns the settings with the paths of the files that they name.
func (s Settings) Resolved(path func(name string) string) Settings {
	for _, name := range []*string{&s.Credentials, &s.NKey, &s.CA, &s.Certificate, &s.Key} {
		if *name != "" {
			*name = path(*name)
		}
	}
	return s
}

// identifies tells whether the settings say who connects.
func (s Settings) identifies() bool {
	return s.Credentials != "" || s.NKey != "" || s.User != "" || s.Token != "" || strings.Contains(s.URL, "@")
}

// Options are the settings as a connection takes them.
func (s Settings) Options() jet.Options {
	o := jet.Options{
		URL: s.URL, CredentialsFile: s.Credentials, NKeyFile: s.NKey, User: s.User, Token: s.Token,
		CAFile: s.CA, CertificateFile: s.Certificate, KeyFile: s.Key,
	}
	if s.User != "" {
		o.Password = s.Password
	}
	return o
}

// Secret reports whether a variable has a password or a token for NATS, or a URL with one.
func Secret(name, value string) bool {
	switch name {
	case "MILLIPEDE_NATS_PASSWORD", "MILLIPEDE_NATS_TOKEN", "NATS_PASSWORD", "NATS_TOKEN":
		return true
	case "MILLIPEDE_NATS", "NATS_URL":
		return strings.Contains(value, "@")
	}
	return false
}

// Strip returns an environment without the variables that select the NATS server and the user of a program. So the
// programs that it starts for others (plugins, commands of provisioners) do not inherit its access. Variables that
// begin with MILLIPEDE_NATS are always removed. Those that all NATS programs read, and systemd's directory of
// credentials, are removed if shared is set: then the caller connects by them. The result is never nil, because a nil
// environment means that of the process.
func Strip(environ []string, shared bool) []string {
	var s Settings
	names := map[string]bool{"NATS_URL": true}
	for name := range s.names() {
		names["NATS_"+strings.ToUpper(name)] = true
	}
	kept := make([]string, 0, len(environ))
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		switch name = strings.ToUpper(name); { // names have no case on Windows
		case name == "MILLIPEDE_NATS", strings.HasPrefix(name, "MILLIPEDE_NATS_"), shared && names[name]:
		case name == "CREDENTIALS_DIRECTORY" && shared: // where systemd puts the files that LoadCredential names
		default:
			kept = append(kept, v)
		}
	}
	return kept
}
