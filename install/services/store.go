package services

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opentofu/svchost"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/wholefile"
)

// Storage is the kind of storage in which the credentials for a host are stored.
type Storage byte

// The kinds of storage.
const (
	Nowhere  Storage = iota
	InFile           // in the file that login writes
	ByHand           // in another file of the CLI configuration
	ByHelper         // in the credentials helper, if it has any
)

// Stored returns the kind of storage that has the credentials for a host. Environment variables are ignored: they take
// precedence, and cannot be changed here.
func (s *Services) Stored(host string) (Storage, error) {
	name, err := hostname(host)
	if err != nil {
		return Nowhere, err
	}
	_, configured := s.options.Config.Credentials[name]
	_, written, err := s.written(name)
	switch {
	case err != nil:
		return Nowhere, err
	case written:
		return InFile, nil
	case configured:
		return ByHand, nil
	case s.options.Config.Helper != nil:
		return ByHelper, nil
	default:
		return Nowhere, nil
	}
}

// Store stores a token for a host: in the credentials helper, or in the user's file.
func (s *Services) Store(ctx context.Context, host, token string) error {
	return s.change(ctx, host, "store", map[string]any{"token": token})
}

// Forget removes the token for a host.
func (s *Services) Forget(ctx context.Context, host string) error {
	return s.change(ctx, host, "forget", nil)
}

// change replaces the credentials for a host; nil removes them.
func (s *Services) change(ctx context.Context, host, verb string, to map[string]any) error {
	name, err := hostname(host)
	if err != nil {
		return err
	}
	storage, err := s.Stored(host)
	switch {
	case err != nil:
		return err
	case storage == ByHand:
		return fmt.Errorf("the credentials for %s are in %s, which only you should change", host,
			s.options.Config.Credentials[name].File)
	case storage == ByHelper:
		var input []byte
		if to != nil {
			if input, err = json.Marshal(to); err != nil {
				return err
			}
		}
		_, err := runHelper(ctx, s.options.Config, verb, string(name), input)
		return err
	}
	file, _, err := s.written(name)
	if err != nil {
		return err
	}
	credentials, _ := file["credentials"].(map[string]any)
	if credentials == nil {
		credentials = map[string]any{}
	}
	for given := range credentials {
		if same, err := svchost.ForComparison(given); err == nil && same == name {
			delete(credentials, given)
		}
	}
	if to != nil {
		credentials[name.ForDisplay()] = to
	}
	file["credentials"] = credentials
	return s.write(file)
}

// written reads the file that login writes, and reports whether it contains credentials for a host.
func (s *Services) written(host svchost.Hostname) (file map[string]any, has bool, err error) {
	file = map[string]any{}
	name := s.options.Config.CredentialsFile
	text, err := bounds.ReadFile(name, bounds.Text)
	if errors.Is(err, fs.ErrNotExist) || name == "" {
		return file, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // numbers of others stay unchanged
	if err := d.Decode(&file); err != nil {
		return nil, false, fmt.Errorf("the file %s cannot be read: %w", name, err)
	}
	raw, present := file["credentials"]
	credentials, ok := raw.(map[string]any)
	if present && !ok {
		return nil, false, fmt.Errorf("the property \"credentials\" of the file %s is not an object", name)
	}
	for given := range credentials {
		if same, err := svchost.ForComparison(given); err == nil && same == host {
			has = true
		}
	}
	return file, has, nil
}

// write replaces the file atomically. It is readable only by the user.
func (s *Services) write(file map[string]any) error {
	name := s.options.Config.CredentialsFile
	if name == "" {
		return errors.New("you have no home directory where credentials could be kept")
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return wholefile.Write(name, wholefile.Private, wholefile.Bytes(append(text, '\n')))
}
