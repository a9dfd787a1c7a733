package services

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/opentofu/svchost/disco"
	"golang.org/x/oauth2"
)

// Login is a login in progress, which gets a token from a host. Close it.
type Login struct {
	// URL is the page that the user opens in a browser, to authorize the request for a token, or to create one.
	URL string
	// ByHand is set if the host shows the token to the user, and the user enters it here.
	ByHand bool

	account  *url.URL // the address to verify an entered token
	config   oauth2.Config
	verifier string
	services *Services
	server   *http.Server
	done     sync.WaitGroup
	codes    chan string
}

// Login starts the login protocol that OpenTofu documents: OAuth with an authorization code, which is sent to a
// server on this machine, or a page of the host. state is a random text. The error is a NoServiceError if the host
// supports neither.
func (s *Services) Login(ctx context.Context, host, state string) (*Login, error) {
	name, err := hostname(host)
	if err != nil {
		return nil, err
	}
	found, err := s.disco.Discover(ctx, name)
	if err != nil {
		return nil, &UnreachableError{host, err}
	}
	client, err := found.ServiceOAuthClient("login.v1")
	var missing *disco.ErrServiceNotProvided
	switch {
	case err == nil && client.SupportedGrantTypes.Has(disco.OAuthAuthzCodeGrant):
		return s.listen(client, state)
	case err == nil:
		return nil, fmt.Errorf("the host %s logs in by none of the ways that are known here", host)
	case !errors.As(err, &missing):
		return nil, err
	}
	u, err := s.Find(ctx, host, "tfe.v2")
	if err != nil {
		return nil, err
	}
	page := url.URL{Scheme: "https", Host: u.Host, Path: "/app/settings/tokens", RawQuery: "source=terraform-login"}
	account, err := u.Parse("account/details")
	if err != nil {
		return nil, err
	}
	return &Login{URL: page.String(), ByHand: true, account: account, services: s}, nil
}

// Check verifies a token that the user has entered.
func (l *Login) Check(ctx context.Context, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.account.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := l.services.plain.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the host answered %s", resp.Status)
	}
	return nil
}

// listen starts the server to which the host redirects the browser.
func (s *Services) listen(client *disco.OAuthClient, state string) (*Login, error) {
	var listener net.Listener
	for port := int(client.MinPort); port <= int(client.MaxPort) && listener == nil; port++ {
		if l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil { // otherwise the port is in use
			listener = l
		}
	}
	if listener == nil {
		return nil, fmt.Errorf("no port between %d and %d of this machine is free for the answer of the host",
			client.MinPort, client.MaxPort)
	}
	l := &Login{
		services: s, verifier: oauth2.GenerateVerifier(), codes: make(chan string, 1),
		config: oauth2.Config{
			ClientID: client.ID, Endpoint: client.Endpoint(), Scopes: client.Scopes,
			RedirectURL: fmt.Sprintf("http://localhost:%d/login", listener.Addr().(*net.TCPAddr).Port),
		},
	}
	l.URL = l.config.AuthCodeURL(state, oauth2.S256ChallengeOption(l.verifier))
	l.server = &http.Server{Handler: l.callback(state), ReadHeaderTimeout: time.Minute}
	l.done.Go(func() {
		if err := l.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			close(l.codes) // Token reports the error
		}
	})
	return l, nil
}

// callback handles the redirect with the authorization code.
func (l *Login) callback(state string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		code := r.FormValue("code")
		if r.FormValue("state") != state || code == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		select {
		case l.codes <- code:
		default: // only the first code is used
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!DOCTYPE html><title>Millipede</title><p>%s</p>\n", html.EscapeString("The login was "+
			"successful. You can close this page and continue in the terminal."))
	}
}

// Token waits for the authorization, and returns the token of the host.
func (l *Login) Token(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case code, ok := <-l.codes:
		if !ok {
			return "", errors.New("the server for the answer of the host has failed")
		}
		ctx = context.WithValue(ctx, oauth2.HTTPClient, l.services.plain)
		token, err := l.config.Exchange(ctx, code, oauth2.VerifierOption(l.verifier))
		if err != nil {
			return "", err
		}
		return token.AccessToken, nil
	}
}

// Close stops the server.
func (l *Login) Close() error {
	if l.server == nil {
		return nil
	}
	// The response to the browser is still written.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := l.server.Shutdown(ctx)
	l.done.Wait()
	return err
}
