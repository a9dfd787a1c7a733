package service

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/millipede-iac/millipede/service/identity"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// The variables with which a workspace requests identity tokens for its runs: the audience of the token, the
// token, and the file with the token. Each may have a tag as suffix, for several tokens: AUDIENCE_TAG produces
// TOKEN_TAG.
const (
	audienceVariable = "TFC_WORKLOAD_IDENTITY_AUDIENCE"
	identityVariable = "TFC_WORKLOAD_IDENTITY_TOKEN"
	identityFile     = "TFC_WORKLOAD_IDENTITY_TOKEN_PATH"
)

// Issuer returns the name of the service in the identity tokens of its runs; empty if the service does not know
// its own address.
func (s *Service) Issuer() string {
	if s.opts.Host == "" {
		return ""
	}
	return "https://" + s.opts.Host
}

// SigningKeys returns the keys that sign identity tokens, including the next one. It makes keys that are
// needed, and removes expired ones.
func (s *Service) SigningKeys() (keys []*identity.Key, err error) {
	s.signing.Lock()
	defer s.signing.Unlock()
	now := s.now().UTC()
	err = s.store.View(func(tx *store.Tx) error {
		for k, err := range signingKeys.All(tx) {
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
		return nil, told(err)
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
	return good, told(s.store.Update(func(tx *store.Tx) error { // no token is issued before its key is durable
		for _, k := range made {
			if err := signingKeys.Put(tx, k); err != nil {
				return err
			}
		}
		for _, k := range spent {
			if err := signingKeys.Delete(tx, k.ID); err != nil {
				return err
			}
		}
		return nil
	}))
}

// proofs returns the identity tokens of a phase, as environment variables. It also writes each token to a file
// in the directory dir.
func (s *Service) proofs(r *record.Run, w *record.Workspace, environ []string, dir string) (variables, tokens []string,
	err error) {
	for _, v := range environ {
		name, audience, _ := strings.Cut(v, "=")
		tag, ok := strings.CutPrefix(name, audienceVariable)
		if !ok || tag != "" && !strings.HasPrefix(tag, "_") {
			continue
		}
		token, err := s.proof(r, w, audience)
		if err != nil {
			return nil, nil, err
		}
		file := filepath.Join(dir, "identity"+strings.ToLower(tag)+".jwt")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			return nil, nil, err
		}
		tokens = append(tokens, token)
		variables = append(variables, identityVariable+tag+"="+token, identityFile+tag+"="+file)
	}
	return variables, tokens, nil
}

// proof makes an identity token for an audience.
func (s *Service) proof(r *record.Run, w *record.Workspace, audience string) (string, error) {
	if s.Issuer() == "" {
		return "", invalid("The workspace requests an identity token for its runs (%s), but the service does "+
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
		p, err := projects.Get(tx, w.Project)
		if err == nil {
			c.ProjectName = p.Name
		}
		return err
	})
	if err != nil {
		return "", told(err)
	}
	keys, err := s.SigningKeys()
	if err != nil {
		return "", err
	}
	now := s.now().UTC()
	if err := c.Complete(now); errors.Is(err, identity.ErrAudience) {
		return "", invalid("The variable %s is empty: it must name the audience of the token", audienceVariable)
	}
	return identity.Current(keys, now).Sign(&c)
}
