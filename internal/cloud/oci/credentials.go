package oci

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/launch"
	"github.com/millipede-iac/millipede/internal/pattern"
)

// Credentials are the credentials for a registry: a name and a password, or tokens. The zero value is none.
type Credentials struct {
	Username, Password        string
	AccessToken, RefreshToken string
}

// Rule has credentials for the repositories of a host, or for those below a path of it.
type Rule struct {
	// Prefix is HOST or HOST/PATH.
	Prefix      string
	Credentials Credentials
	// Helper is the name of a credentials helper; empty for none.
	Helper string
}

// Policy is the configuration of credentials. The zero value uses those in the user's files of other programs.
type Policy struct {
	Rules []Rule
	// Helper is the credentials helper for repositories without a more specific rule; empty for none.
	Helper string
	// NoDiscovery ignores the files of other programs.
	NoDiscovery bool
	// Files replace the usual files, unless it is nil. They must exist.
	Files []string
}

// The specificities of credentials; one for a path is specificHost plus the number of its segments.
const (
	specificNone   = -1
	specificGlobal = 0
	specificHost   = 1
)

// specificity returns how specifically a prefix matches a repository.
func specificity(prefix, host, path string) int {
	of, below, hasPath := strings.Cut(strings.TrimSuffix(prefix, "/"), "/")
	switch {
	case of != host:
		return specificNone
	case !hasPath:
		return specificHost
	case path != below && !strings.HasPrefix(path, below+"/"):
		return specificNone
	}
	return specificHost + strings.Count(below, "/") + 1
}

// match is a source that may have credentials for a repository.
type match struct {
	specificity int
	get         func(context.Context) (Credentials, bool, error)
}

// find returns the credentials of the most specific match, and among equal ones of the first: rules, then the
// helper, then files. A match without credentials is skipped.
func (p *Policy) find(ctx context.Context, s cloud.Environment, host, path string) (Credentials, error) {
	var all []match
	add := func(specific int, get func(context.Context) (Credentials, bool, error)) {
		if specific > specificNone {
			all = append(all, match{specific, get})
		}
	}
	helper := func(name string) func(context.Context) (Credentials, bool, error) {
		return func(ctx context.Context) (Credentials, bool, error) { return ask(ctx, s, name, host) }
	}
	fixed := func(c Credentials) func(context.Context) (Credentials, bool, error) {
		return func(context.Context) (Credentials, bool, error) { return c, true, nil }
	}
	for _, r := range p.Rules {
		get := fixed(r.Credentials)
		if r.Helper != "" {
			get = helper(r.Helper)
		}
		add(specificity(r.Prefix, host, path), get)
	}
	if p.Helper != "" {
		add(specificGlobal, helper(p.Helper))
	}
	files, err := p.files(s)
	if err != nil {
		return Credentials{}, err
	}
	for _, f := range files {
		for _, name := range slices.Sorted(maps.Keys(f.Auths)) {
			if c, ok := f.Auths[name].credentials(); ok {
				add(specificity(name, host, path), fixed(c))
			}
		}
		if name := f.CredHelpers[host]; name != "" {
			add(specificHost, helper(name))
		}
		if f.CredsStore != "" {
			add(specificGlobal, helper(f.CredsStore))
		}
	}
	slices.SortStableFunc(all, func(a, b match) int { return b.specificity - a.specificity })
	for _, m := range all {
		if c, ok, err := m.get(ctx); err != nil || ok {
			return c, err
		}
	}
	return Credentials{}, nil
}

// file is a configuration file as Docker, Podman and their like have it.
type file struct {
	Auths       map[string]*entry `json:"auths"`
	CredHelpers map[string]string `json:"credHelpers"`
	CredsStore  string            `json:"credsStore"`
}

type entry struct {
	Auth string `json:"auth"` // NAME:PASSWORD in base64
}

func (e *entry) credentials() (Credentials, bool) {
	if e == nil || e.Auth == "" {
		return Credentials{}, false
	}
	text, err := base64.StdEncoding.DecodeString(e.Auth)
	name, password, ok := strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
	if err != nil || !ok {
		return Credentials{}, false
	}
	return Credentials{Username: name, Password: password}, true
}

// files reads the files. Errors in files that were found by discovery are ignored.
func (p *Policy) files(s cloud.Environment) ([]file, error) {
	if p.NoDiscovery {
		return nil, nil
	}
	names := p.Files
	if names == nil {
		names = usual(s)
	}
	var out []file
	for _, name := range names {
		var f file
		text, err := bounds.ReadFile(s.Path(name), bounds.Text)
		if err == nil && json.Unmarshal(text, &f) != nil {
			err = errors.New("it is not valid JSON of a configuration of credentials") // the error could contain it
		}
		switch {
		case err == nil:
			out = append(out, f)
		case p.Files != nil:
			return nil, fmt.Errorf("the file %s: %w", name, err)
		}
	}
	return out, nil
}

// usual returns the files in which other programs store credentials.
func usual(s cloud.Environment) []string {
	home := s.Either("HOME", "USERPROFILE") // optional
	var out []string
	add := func(dir string, rest ...string) {
		if name := filepath.Join(append([]string{dir}, rest...)...); dir != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	config := ""
	if home != "" {
		config = filepath.Join(home, ".config")
	}
	if runtime.GOOS == "linux" {
		add(s.Either("XDG_RUNTIME_DIR"), "containers", "auth.json")
	} else {
		add(config, "containers", "auth.json")
	}
	if xdg := s.Either("XDG_CONFIG_HOME"); xdg != "" {
		config = xdg
	}
	add(config, "containers", "auth.json")
	add(home, ".docker", "config.json")
	add(home, ".dockercfg")
	return out
}

// HelperName matches valid names of helpers, which become a part of a program's name.
var HelperName = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// helperTimeout is the time limit of a helper, which may interact with the user.
const helperTimeout = time.Minute

// ask requests the credentials of a host from the helper docker-credential-NAME; ok is false if it has none.
func ask(ctx context.Context, s cloud.Environment, name, host string) (c Credentials, ok bool, err error) {
	if !HelperName().MatchString(name) {
		return Credentials{}, false, fmt.Errorf("%q is not the name of a credentials helper", name)
	}
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	program := "docker-credential-" + name
	var stdout, stderr bytes.Buffer
	file, err := s.Environ.Program(s.Dir, program)
	if err != nil {
		return Credentials{}, false, fmt.Errorf("the credentials helper %s: %w", program, err)
	}
	cmd := launch.Command(ctx, s.Dir, s.Environ.List(), file, "get")
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader("https://"+host), &stdout, &stderr, time.Second
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stdout.String() + "\n" + stderr.String())
		if strings.Contains(said, "credentials not found") {
			return Credentials{}, false, nil
		}
		said, _, _ = strings.Cut(said, "\n")
		return Credentials{}, false, fmt.Errorf("the credentials helper %s: %w: %s", program, err,
			said[:min(len(said), 200)])
	}
	var answer struct{ Username, Secret string }
	if json.Unmarshal(stdout.Bytes(), &answer) != nil || answer.Secret == "" {
		return Credentials{}, false, fmt.Errorf("the answer of the credentials helper %s holds no credentials", program)
	}
	if answer.Username == "<token>" {
		return Credentials{RefreshToken: answer.Secret}, true, nil
	}
	return Credentials{Username: answer.Username, Password: answer.Secret}, true, nil
}
