package oss

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/alibaba"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/lang/diag"
)

// open checks the arguments, finds the credentials and the addresses, and checks that the table of locks exists.
func open(ctx context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	d := &driver{acl: args.String("acl"), encrypt: args.Bool("encrypt")}
	d.Bucket, d.Transport = args.String("bucket"), p.Transport()
	role, diags := roleOf(args)
	if diags = diags.Append(check(args)); diags.HasErrors() {
		return nil, diags
	}
	client, err := alibaba.Open(ctx, alibaba.Settings{
		Keys: call.Keys{
			ID: args.String("access_key"), Secret: args.String("secret_key"), Token: args.String("security_token"),
		},
		ECSRole: args.String("ecs_role_name"), Role: role, Profile: args.String("profile"),
		Shared: args.String("shared_credentials_file"), Path: p.Path, Region: args.String("region"),
		STSEndpoint: args.String("sts_endpoint"), Transport: d.Transport, Env: p.Env, UserAgent: p.UserAgent,
	})
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to configure the OSS backend", err.Error()+".", nil))
	}
	d.Caller = client.Objects(d.Bucket)
	endpoint := args.String("endpoint")
	if endpoint == "" {
		endpoint, err = client.ObjectStore(ctx)
		switch {
		case errors.Is(err, alibaba.ErrRegion):
			return nil, diags.Append(args.Problem("region", "Missing region",
				"The region, or the endpoint of the object store, must be given: \"region\" or \"endpoint\", or in "+
					"the environment "+
					"as ALICLOUD_REGION or ALICLOUD_OSS_ENDPOINT"))
		case err != nil:
			return nil, diags.Append(diag.New(diag.Error, "Failed to configure the OSS backend", err.Error()+".", nil))
		}
	}
	if d.Address, err = located(endpoint, d.Bucket); err != nil {
		return nil, diags.Append(args.Problem("endpoint", "Invalid endpoint", err.Error()))
	}
	prefix := strings.TrimPrefix(strings.Trim(args.String("prefix"), "/"), "./")
	key, name := args.String("key"), args.String("tablestore_table")
	b := &bucket.Store{
		Driver: d, Names: bucket.Folders(path.Join(prefix, key), prefix, key), EmptyIsNone: true, LockCheck: p.LockCheck,
	}
	b.Names.Prefix = prefix + "/" // also of lists without a prefix, as in OpenTofu
	if name == "" {
		return b, diags
	}
	table := alibaba.WithScheme(args.String("tablestore_endpoint"))
	u, err := url.Parse(table)
	if err != nil || u.Host == "" {
		return nil, diags.Append(args.Problem("tablestore_endpoint", "Invalid tablestore_endpoint",
			"The value must be a host, or a URL"))
	}
	instance, _, _ := strings.Cut(u.Hostname(), ".")
	rows := &rows{caller: client.Table(instance), address: u.Scheme + "://" + u.Host, table: name}
	if err := rows.describe(ctx); err != nil {
		return nil, diags.Append(args.Problem("tablestore_table", "The table of locks cannot be used",
			fmt.Sprintf("Asking for the table %q of the instance %q: %s", name, instance, err)))
	}
	b.Table = &bucket.Table{Rows: rows, Name: name, Bucket: d.Bucket}
	b.Locks = bucket.Recorded{Record: b.Table, Bucket: d.Bucket}
	return b, diags
}

// located returns the address of a bucket, whose name is part of the host name.
func located(endpoint, bucket string) (string, error) {
	u, err := url.Parse(alibaba.WithScheme(endpoint))
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return "", errors.New("the value must be a host, or a URL without a path")
	}
	return u.Scheme + "://" + bucket + "." + u.Host, nil
}

// check reports problems with the arguments that the schema cannot express.
func check(args backend.Arguments) diag.List {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid "+name, fmt.Sprintf(format, a...)))
	}
	if name := args.String("bucket"); name == "" || strings.ContainsAny(name, "/.:") {
		bad("bucket", "The value must be the name of a bucket")
	}
	if prefix := args.String("prefix"); strings.HasPrefix(prefix, "/") || strings.HasPrefix(prefix, "./") {
		bad("prefix", `The value must not start with "/" or "./"`)
	}
	if key := args.String("key"); key == "" || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") {
		bad("key", `The value must not be empty, nor start or end with "/"`)
	}
	if acls := []string{"", "private", "public-read", "public-read-write"}; !slices.Contains(acls, args.String("acl")) {
		bad("acl", "The value must be one of private, public-read and public-read-write")
	}
	if args.String("tablestore_table") != "" && !args.Given("tablestore_endpoint") {
		bad("tablestore_table",
			"A table of locks needs \"tablestore_endpoint\", or ALICLOUD_TABLESTORE_ENDPOINT in the environment")
	}
	return diags
}

// roleOf returns the role to assume: of the arguments, else of the deprecated block.
func roleOf(args backend.Arguments) (call.Role, diag.List) {
	r := call.Role{
		ARN: args.String("assume_role_role_arn"), SessionName: args.String("assume_role_session_name"),
		Policy: args.String("assume_role_policy"), Seconds: args.Int("assume_role_session_expiration"),
	}
	at, name := args, "assume_role_session_expiration"
	if old, ok := args.Nested("assume_role"); ok && r.ARN == "" {
		if r.ARN = old.String("role_arn"); r.ARN == "" {
			return r, diag.List{old.Problem("role_arn", "Missing required argument", "The argument \"role_arn\" is "+
				"required")}
		}
		if old.Given("session_name") {
			r.SessionName = old.String("session_name")
		}
		r.Policy = old.String("policy")
		if old.Given("session_expiration") {
			r.Seconds, at, name = old.Int("session_expiration"), old, "session_expiration"
		}
	}
	if r.Seconds != 0 && (r.Seconds < 900 || r.Seconds > 3600) {
		return r, diag.List{at.Problem(name, "Invalid "+name, "The value must be from 900 to 3600 seconds")}
	}
	return r, nil
}
