package services

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/opentofu/svchost"
	"github.com/opentofu/svchost/svcauth"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/internal/launch"
)

// credentials finds the credentials for hosts: in the environment, then in the CLI configuration, then with its helper.
type credentials struct{ config *cliconfig.Config }

// ForHost implements svcauth.CredentialsSource. It returns nil if there are none.
func (c credentials) ForHost(ctx context.Context, host svchost.Hostname) (svcauth.HostCredentials, error) {
	if token, ok := c.config.EnvironmentTokens[host]; ok {
		return svcauth.HostCredentialsToken(token), nil
	}
	if found, ok := c.config.Credentials[host]; ok {
		if found.Token == "" {
			return nil, nil
		}
		return svcauth.HostCredentialsToken(found.Token), nil
	}
	if c.config.Helper == nil || c.config.Helper.Program == "" {
		return nil, nil
	}
	out, err := runHelper(ctx, c.config, "get", string(host), nil)
	if err != nil {
		return nil, err
	}
	var object struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(out, &object); err != nil {
		return nil, fmt.Errorf("the credentials helper %s has printed no JSON object: %w", c.config.Helper.Name, err)
	}
	if object.Token == "" {
		return nil, nil
	}
	return svcauth.HostCredentialsToken(object.Token), nil
}

// runHelper runs the credentials helper with one of its verbs (get, store, forget), and returns its output.
func runHelper(ctx context.Context, config *cliconfig.Config, verb, host string, input []byte) ([]byte, error) {
	h := config.Helper
	if h.Program == "" {
		return nil, fmt.Errorf("the credentials helper %q is not installed", h.Name)
	}
	cmd := launch.Command(ctx, config.Dir(), config.Environ().List(), h.Program,
		append(h.Args[:len(h.Args):len(h.Args)], verb, host)...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("the credentials helper %s failed: %s", h.Name, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("running the credentials helper %s: %w", h.Name, err)
	}
	return out, nil
}
