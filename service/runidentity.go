package service

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/service/identity"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// The variables with which a workspace requests identity tokens for its runs: the audience of the token, the
// token, and the file with the token. Each may have a tag as suffix, for several tokens: AUDIENCE_TAG produces
// TOKEN_TAG.
const (
	audienceVariable = "TFC_WORKLOAD_IDENTITY_AUDIENCE"
	identityVariable = "TFC_WORKLOAD_IDENTITY_TOKEN"
	identityFile     = "TFC_WORKLOAD_IDENTITY_TOKEN_PATH"
)

// Identity signs the identity tokens of runs.
type Identity struct {
	*shared
	host          string
	renewIdentity time.Duration
	signing       sync.Mutex // held while a key is made
}

// Issuer returns the name of the service in the identity tokens of its runs; empty if the service does not know
// its own address.
func (s *Identity) Issuer() string {
	if s.host == "" {
		return ""
	}
	return "https://" + s.host
}

// SigningKeys returns the keys that sign identity tokens, including the next one. It makes keys that are
// needed, and removes expired ones.
func (s *Identity) SigningKeys() (keys []*identity.Key, err error) {
	s.signing.Lock()
	defer s.signing.Unlock()
	now := s.now().UTC()
	err = s.store.View(func(tx *store.Tx) error {
		for k, err := range tables.SigningKeys.All(tx) {
			if err != nil {
				return err
			}
			parsed, err := identity.ParseKey(k.ID, k.From, k.Key)
			if err != nil {
				return err
			}
			keys = append(keys, parsed)
		}
		return nil
	})
	if err != nil {
		return nil, tables.Translated(err)
	}
	var made, spent []*record.SigningKey
	for from, wanted := identity.Wanted(keys, now); wanted; from, wanted = identity.Wanted(keys, now) {
		k, err := identity.NewKey(from)
		if err != nil {
			return nil, err
		}
		text, err := k.Bytes()
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
		made = append(made, &record.SigningKey{ID: k.ID, From: k.From, Key: text})
	}
	var good []*identity.Key
	for _, k := range keys {
		if identity.Spent(k, keys, now) {
			spent = append(spent, &record.SigningKey{ID: k.ID})
		} else {
			good = append(good, k)
		}
	}
	if len(made)+len(spent) == 0 {
		return good, nil
	}
	// No token is issued before its key is durable.
	return good, tables.Translated(s.store.Update(func(tx *store.Tx) error {
		for _, k := range made {
			if err := tables.SigningKeys.Put(tx, k); err != nil {
				return err
			}
		}
		for _, k := range spent {
			if err := tables.SigningKeys.Delete(tx, k.ID); err != nil {
				return err
			}
		}
		return nil
	}))
}

// proofs are the identity tokens that the workspace of a phase requests.
type proofs struct {
	s   *Identity
	run *record.Run
	on  *record.Workspace
	// audiences and files are the audience of each token and the file with it, by the tag of its variables.
	audiences, files map[string]string
}

// proofsOf returns the identity tokens that an environment requests. Their files will be in the directory dir.
func (s *Identity) proofsOf(r *record.Run, w *record.Workspace, environ []string, dir string) *proofs {
	p := &proofs{s: s, run: r, on: w, audiences: map[string]string{}, files: map[string]string{}}
	for _, v := range environ {
		name, audience, _ := strings.Cut(v, "=")
		tag, ok := strings.CutPrefix(name, audienceVariable)
		if !ok || tag != "" && !strings.HasPrefix(tag, "_") {
			continue
		}
		p.audiences[tag] = audience
		p.files[tag] = filepath.Join(dir, "identity"+strings.ToLower(tag)+".jwt")
	}
	return p
}

// issue makes the tokens, by tag.
func (p *proofs) issue() (map[string]string, error) {
	out := map[string]string{}
	for tag, audience := range p.audiences {
		token, err := p.s.proof(p.run, p.on, audience)
		if err != nil {
			return nil, err
		}
		out[tag] = token
	}
	return out, nil
}

// write replaces the files with tokens. Programs read a file either as it was or as it is now.
func (p *proofs) write(tokens map[string]string) error {
	for tag, token := range tokens {
		if err := wholefile.Write(p.files[tag], wholefile.Private, wholefile.Bytes([]byte(token))); err != nil {
			return err
		}
	}
	return nil
}

// variables returns tokens and their files as environment variables.
func (p *proofs) variables(tokens map[string]string) (out []string) {
	for _, tag := range slices.Sorted(maps.Keys(tokens)) {
		out = append(out, identityVariable+tag+"="+tokens[tag], identityFile+tag+"="+p.files[tag])
	}
	return out
}

// renew replaces the tokens in the files at intervals, until ctx ends: a phase may last longer than a token is
// valid. The tokens in variables of programs that have started cannot be replaced. The log of the phase masks the
// new tokens.
func (p *proofs) renew(ctx context.Context, log *mask) {
	if len(p.audiences) == 0 {
		return
	}
	again := time.NewTicker(p.s.renewIdentity)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		tokens, err := p.issue()
		if err == nil {
			log.add(slices.Collect(maps.Values(tokens)))
			err = p.write(tokens)
		}
		if err != nil {
			p.s.log.Warn("cannot renew the identity tokens of a run; will retry", "run", p.run.ID, "error", err)
		}
	}
}

// proof makes an identity token for an audience.
func (s *Identity) proof(r *record.Run, w *record.Workspace, audience string) (string, error) {
	if s.Issuer() == "" {
		return "", tables.Invalid("The workspace requests an identity token for its runs (%s), but the service does "+
			"not know its own address, which is the issuer of the token: start it with -address", audienceVariable)
	}
	c := identity.Claims{
		Issuer: s.Issuer(), Audience: audience, OrganizationID: "org-" + w.Organization, OrganizationName: w.Organization,
		ProjectID: w.Project, WorkspaceID: w.ID, WorkspaceName: w.Name, RunID: r.ID, RunPhase: "plan",
	}
	if r.Status == record.Applying {
		c.RunPhase = "apply"
	}
	err := s.store.View(func(tx *store.Tx) error {
		p, err := tables.Projects.Get(tx, w.Project)
		if err == nil {
			c.ProjectName = p.Name
		}
		return err
	})
	if err != nil {
		return "", tables.Translated(err)
	}
	keys, err := s.SigningKeys()
	if err != nil {
		return "", err
	}
	now := s.now().UTC()
	if err := c.Complete(now); errors.Is(err, identity.ErrAudience) {
		return "", tables.Invalid("The variable %s is empty: it must name the audience of the token", audienceVariable)
	}
	return identity.Current(keys, now).Sign(&c)
}
