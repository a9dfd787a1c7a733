package encryption

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/launch"
	"github.com/millipede-iac/millipede/lang/diag"
)

// externalKeys is the key provider external: a user's program provides the keys.
type externalKeys struct {
	command []string
	env     cloud.Environment
}

const keysMagic = "OpenTofu-External-Key-Provider"

func newExternalKeys(a given) (source, diag.List) {
	content, diags := a.content([]string{"command"}, nil)
	if diags.HasErrors() {
		return nil, diags
	}
	k := &externalKeys{env: a.request.env}
	return k, diags.Append(a.take(content, "command", cty.List(cty.String), &k.command))
}

func (k *externalKeys) check() error {
	if len(k.command) == 0 {
		return errors.New("command names no program")
	}
	return nil
}

// externalMeta is the metadata that the program needs for decrypting.
type externalMeta struct {
	Data map[string]any `json:"external_data"`
}

// provide implements source. The program gets null if nothing is to be decrypted.
func (k *externalKeys) provide(ctx context.Context, kept json.RawMessage) (pair, []byte, error) {
	var request *externalMeta
	if kept != nil {
		var was externalMeta
		if err := json.Unmarshal(kept, &was); err != nil {
			return pair{}, nil, undecodable{err}
		}
		if was.Data != nil {
			request = &was
		}
	}
	var answer struct {
		Keys pair         `json:"keys"`
		Meta externalMeta `json:"meta"`
	}
	if err := call(ctx, k.env, k.command, keysMagic, request, &answer); err != nil {
		return pair{}, nil, err
	}
	meta, err := json.Marshal(answer.Meta)
	return answer.Keys, meta, err
}

// timeout is the time limit of a program.
const timeout = time.Minute

// call runs a program that implements the protocol of the header with this magic, version 1: the program writes the
// header as a line, receives the request as JSON on its standard input, and writes the answer as JSON.
func call(ctx context.Context, s cloud.Environment, command []string, magic string, request, answer any) error {
	input, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	program, err := s.Environ.Program(s.Dir, command[0])
	if err != nil {
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	cmd := launch.Command(ctx, s.Dir, s.Environ.List(), program, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w%s", command[0], err, said(&stderr))
	}
	line, rest, _ := strings.Cut(stdout.String(), "\n")
	var header struct {
		Magic   string `json:"magic"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal([]byte(line), &header); err != nil || header.Magic != magic || header.Version != 1 {
		return fmt.Errorf("%s does not speak version 1 of the protocol %s: its first line is %q%s", command[0], magic,
			line, said(&stderr))
	}
	d := json.NewDecoder(strings.NewReader(rest))
	d.DisallowUnknownFields()
	if err := d.Decode(answer); err != nil {
		return fmt.Errorf("the answer of %s is not what the protocol %s has: %w%s", command[0], magic,
			err, said(&stderr))
	}
	return nil
}

// said returns the program's output to standard error, for a message.
func said(stderr *bytes.Buffer) string {
	if text := strings.TrimSpace(stderr.String()); text != "" {
		return "\n\nIt wrote:\n" + text
	}
	return ""
}
