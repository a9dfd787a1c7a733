package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/millipede-iac/millipede/cmd/serving"
	"github.com/millipede-iac/millipede/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/control"
)

const serviceUsage = `
Usage: coordinator [global options] service <subcommand> [options]

  What operators of a service do beside "serve".

Subcommands:
  backup    Write everything that a service keeps to a file, while it goes on
  restore   Make the directory of a service of a backup
`

const serviceBackupUsage = `
Usage: coordinator [global options] service backup -address=URL -out=FILE

  Writes everything that a service keeps to a file, as it is at one moment, while runs go on. Who asks has to be an
  administrator of the service, and to have logged in there, or to have the token in TF_TOKEN_host. What is in the file
  is sealed with the key of the service: keep that elsewhere.

Options:
  -address=URL   Where the service is: https://HOST.
  -out=FILE      The file to write. It must not exist.
`

const serviceRestoreUsage = `
Usage: coordinator [global options] service restore -in=FILE -data=DIR -key-file=FILE

  Makes the directory of a service of a backup. Then start the service with "serve -data=DIR" and the same key. What was
  done after the backup is not known to it. So no run goes on: those that had not ended are canceled, what their applies
  had begun is settled or in doubt, and nothing starts until an administrator has looked and lifts the drain.

Options:
  -in=FILE         The backup.
  -data=DIR        The directory to make. It must be empty, or not exist.
  -key-file=FILE   The key that sealed the data.
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

// operated is the exit code of what an operator does.
func (a *app) operated(what string, err error) int {
	if err == nil {
		return 0
	}
	a.Printer(viewFlags{}).Diagnostics(diag.Errors(what, err.Error()+".", nil)) //nolint:errcheck // nobody else to tell
	return 1
}

func (a *app) backup(ctx context.Context, address, out string) (err error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "https" || at.Host == "" || out == "" {
		return errors.New("both are needed: -address=https://HOST and -out=FILE")
	}
	token, err := a.Services.Token(ctx, at.Host)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath(control.Prefix, "backup").String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // what there is of it
		return fmt.Errorf("the service answers %s: %s", answer.Status, text)
	}
	out = environ.Path(a.Dir, out)
	file, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, answer.Body)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("the backup was cut off: %w", err), os.Remove(out))
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
	fmt.Fprintf(a.Stdout, "The service is restored to %s.\n", data)
	return nil
}
