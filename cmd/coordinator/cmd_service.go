package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/millipede-iac/millipede/cmd/internal/serving"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/control"
)

const serviceUsage = `
Usage: coordinator [global options] service <subcommand> [options]

  Backs up, restores and upgrades a service.

Subcommands:
  backup           Write a backup of a running service to a file
  restore          Create the directory of a service from a backup
  finish-upgrade   Let a service use the features of its new version
`

const serviceBackupUsage = `
Usage: coordinator [global options] service backup -address=URL -out=FILE

  Writes a consistent backup of all data of a service to a file, while runs continue. The user must be an
  administrator of the service, and have logged in there or have the token in TF_TOKEN_host. The content of the file
  is encrypted with the key of the service: store the key elsewhere.

Options:
  -address=URL   The address of the service: https://HOST.
  -out=FILE      The file to write. It must not exist.
`

const serviceRestoreUsage = `
Usage: coordinator [global options] service restore -in=FILE -data=DIR -key-file=FILE

  Creates the directory of a service from a backup. Then start the service with "serve -data=DIR" and the same key.
  The service does not know the changes after the backup, so it resumes no runs: it cancels runs that had not ended,
  settles the operations of their applies or marks them as in doubt, and starts nothing until an administrator lifts the
  halt.

Options:
  -in=FILE         The backup.
  -data=DIR        The directory to create. It must be empty or missing.
  -key-file=FILE   The key that encrypts the data.
`

func runServiceBackup(ctx context.Context, a *app, args []string) int {
	f := a.NewFlags()
	address, out := f.String("address", "", ""), f.String("out", "", "")
	if code, done := a.Parse(f, serviceBackupUsage, args); done {
		return code
	}
	return a.operated("Failed to make a backup", a.backup(ctx, *address, *out))
}

func runServiceRestore(_ context.Context, a *app, args []string) int {
	f := a.NewFlags()
	in, data, keyFile := f.String("in", "", ""), f.String("data", "", ""), f.String("key-file", "", "")
	if code, done := a.Parse(f, serviceRestoreUsage, args); done {
		return code
	}
	return a.operated("Failed to restore the backup", a.restore(*in, *data, *keyFile))
}

// operated returns the exit code of an operator's command, and shows its error.
func (a *app) operated(what string, err error) int {
	if err == nil {
		return 0
	}
	a.Printer(viewFlags{}).Diagnostics(diag.Errors(what, err.Error()+".", nil)) //nolint:errcheck // there is no other output
	return 1
}

// controls connects to the operators' functions of the service at an address, with the token of its host.
func (a *app) controls(ctx context.Context, address string) (*control.Client, error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, errors.New("name the service with -address=https://HOST")
	}
	token, err := a.Services.Token(ctx, at.Host)
	return &control.Client{At: at, Token: token, HTTP: http.DefaultClient}, err
}

func (a *app) backup(ctx context.Context, address, out string) (err error) {
	if out == "" {
		return errors.New("name the file to write with -out=FILE")
	}
	c, err := a.controls(ctx, address)
	if err != nil {
		return err
	}
	backup, err := c.Backup(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backup.Close()) }()
	out = environ.Path(a.Dir, out)
	file, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, backup)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("the backup is incomplete: %w", err), os.Remove(out))
	}
	fmt.Fprintf(a.Stdout, "The backup is in %s.\n", out)
	return nil
}

func (a *app) restore(in, data, keyFile string) (err error) {
	if in == "" || data == "" || keyFile == "" {
		return errors.New("all are needed: -in=FILE, -data=DIR and -key-file=FILE")
	}
	for _, path := range []*string{&in, &data, &keyFile} {
		*path = environ.Path(a.Dir, *path)
	}
	file, err := os.Open(in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := serving.Restore(file, data, keyFile); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "The service was restored to %s.\n", data)
	return nil
}
