// Package awskms is the key provider "aws_kms": the Key Management Service of Amazon generates data keys.
//
// The credentials are found by internal/cloud/aws, with the settings of lang/arguments/awsidentity, as for the backend
// "s3".
package awskms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/cloud/aws"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/arguments/awsidentity"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "aws_kms".
func Kind() *encryption.Kind {
	a := awsidentity.Attributes()
	a["kms_key_id"] = &schema.Attribute{Type: cty.String, Required: true}
	a["key_spec"] = &schema.Attribute{Type: cty.String, Required: true}
	endpoints := &schema.NestedBlock{
		Nesting:  schema.NestingList,
		MaxItems: 1,
		Block: schema.Block{Attributes: map[string]*schema.Attribute{
			"iam": {Type: cty.String, Optional: true}, "sts": {Type: cty.String, Optional: true},
		}},
	}
	return &encryption.Kind{
		Name:      "aws_kms",
		Schema:    &schema.Block{Attributes: a, Blocks: map[string]*schema.NestedBlock{"endpoints": endpoints}},
		Env:       awsidentity.Env(),
		Conflicts: [][2]string{{"allowed_account_ids", "forbidden_account_ids"}},
		Open:      open,
	}
}

type service struct {
	client             *aws.Client
	endpoint, key, how string
}

func open(ctx context.Context, s cloud.Environment, args arguments.Arguments) (encryption.KeyService, diag.List) {
	settings, diags := awsidentity.Settings(s, args)
	if settings.STSEndpoint == "" {
		settings.STSEndpoint = s.Either("AWS_ENDPOINT_URL_STS", "AWS_STS_ENDPOINT")
	}
	if args.String("kms_key_id") == "" {
		diags = diags.Append(args.Problem("kms_key_id", "Invalid Value", "The value cannot be empty"))
	}
	if how := args.String("key_spec"); how != "AES_256" && how != "AES_128" {
		diags = diags.Append(args.Problem("key_spec", "Invalid Value", `The value must be "AES_256" or "AES_128"`))
	}
	if diags.HasErrors() {
		return nil, diags
	}
	client, err := aws.Open(ctx, settings)
	if err != nil {
		return nil, diags.Append(awsidentity.Problem(err, args, "Failed to configure the key provider aws_kms"))
	}
	return &service{
		client: client, endpoint: client.Endpoint("kms"), key: args.String("kms_key_id"),
		how: args.String("key_spec"),
	}, diags
}

// metadata is stored with the encrypted data, in OpenTofu's form.
type metadata struct {
	Blob []byte `json:"ciphertext_blob"`
}

func (k *service) ask(ctx context.Context, operation string, in, out any) error {
	return k.client.Ask(ctx, "kms", k.endpoint, "TrentService."+operation, "1.1", in, out)
}

// Make implements encryption.KeyService.
func (k *service) Make(ctx context.Context) ([]byte, any, error) {
	var answer struct{ Plaintext, CiphertextBlob []byte }
	if err := k.ask(ctx, "GenerateDataKey", map[string]any{"KeyId": k.key, "KeySpec": k.how}, &answer); err != nil {
		return nil, nil, err
	}
	if len(answer.Plaintext) == 0 || len(answer.CiphertextBlob) == 0 {
		return nil, nil, errors.New("the answer holds no key")
	}
	return answer.Plaintext, metadata{answer.CiphertextBlob}, nil
}

// Recover implements encryption.KeyService.
func (k *service) Recover(ctx context.Context, meta json.RawMessage) ([]byte, error) {
	var was metadata
	if err := json.Unmarshal(meta, &was); err != nil {
		return nil, fmt.Errorf("%w: %w", encryption.ErrMetadata, err)
	}
	if len(was.Blob) == 0 {
		return nil, nil
	}
	var answer struct{ Plaintext []byte }
	if err := k.ask(ctx, "Decrypt", map[string]any{"KeyId": k.key, "CiphertextBlob": was.Blob}, &answer); err != nil {
		return nil, err
	}
	if len(answer.Plaintext) == 0 {
		return nil, errors.New("the answer holds no key")
	}
	return answer.Plaintext, nil
}
