package cos

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/cloud/tencent"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/diag"
)

// label matches a label of a host name.
var label = pattern.Lazy(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// open checks the arguments, and exchanges the keys for those of a role if there is one.
func open(ctx context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	d := &driver{acl: args.String("acl"), encrypt: args.Bool("encrypt")}
	d.Bucket, d.Transport = args.String("bucket"), p.Transport()
	prefix, key := args.String("prefix"), args.String("key")
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid "+name, fmt.Sprintf(format, a...)))
	}
	if !label().MatchString(d.Bucket) || !strings.Contains(d.Bucket, "-") {
		bad("bucket", "The value must be the name of a bucket with the number of its account, as \"states-1250000000\"")
	}
	region := args.String("region")
	if !label().MatchString(region) {
		bad("region", "The value must be the name of a region, as \"ap-guangzhou\"")
	}
	if strings.HasPrefix(prefix, "/") || strings.HasPrefix(prefix, "./") {
		bad("prefix", `The value must not start with "/" or "./"`)
	}
	if key == "" || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") {
		bad("key", `The value must not be empty, nor start or end with "/"`)
	}
	if acls := []string{"private", "default", "public-read"}; !slices.Contains(acls, d.acl) {
		bad("acl", "The value must be one of private, default and public-read")
	}
	role, more := roleOf(p, args)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	d.Address = "https://" + d.Bucket + ".cos." + region + ".myqcloud.com"
	if args.Bool("accelerate") {
		d.Address = "https://" + d.Bucket + ".cos.accelerate.myqcloud.com"
	}
	client, err := tencent.Open(ctx, tencent.Settings{
		Keys: call.Keys{ID: args.String("secret_id"), Secret: args.String("secret_key"),
			Token: args.String("security_token")},
		Role: role, Region: region, Transport: d.Transport, UserAgent: p.UserAgent,
	})
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to configure the COS backend", err.Error()+".", nil))
	}
	d.client, d.Caller = client, client.Objects()
	return &bucket.Store{
		Driver: d, Names: bucket.Folders(path.Join(prefix, key), prefix, key), Locks: d, LockCheck: p.LockCheck,
	}, diags
}

// defaultDuration is the default duration of an assumed role, maxDuration the maximum, in seconds.
const (
	defaultDuration = 7200
	maxDuration     = 43200
)

// roleOf returns the role of the block assume_role. The environment can set its arguments, but not replace the
// block.
func roleOf(p backend.Place, args backend.Arguments) (call.Role, diag.List) {
	block, ok := args.Nested("assume_role")
	if !ok {
		return call.Role{}, nil
	}
	text := func(name, variable string) string {
		if block.Set(name) {
			return block.String(name)
		}
		return p.Env(variable)
	}
	r := call.Role{
		ARN:         text("role_arn", "TENCENTCLOUD_ASSUME_ROLE_ARN"),
		SessionName: text("session_name", "TENCENTCLOUD_ASSUME_ROLE_SESSION_NAME"),
		Policy:      block.String("policy"), Seconds: defaultDuration,
	}
	for name, value := range map[string]string{"role_arn": r.ARN, "session_name": r.SessionName} {
		if value == "" {
			return r, diag.List{block.Problem(name, "Missing required argument", fmt.Sprintf("The argument %q is "+
				"required",
				name))}
		}
	}
	if block.Set("session_duration") {
		r.Seconds = block.Int("session_duration")
	} else if given := p.Env("TENCENTCLOUD_ASSUME_ROLE_SESSION_DURATION"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil {
			return r, diag.List{block.Problem("session_duration", "Invalid environment variable",
				"TENCENTCLOUD_ASSUME_ROLE_SESSION_DURATION, which replaces \"session_duration\", is not a number")}
		}
		r.Seconds = n
	}
	if r.Seconds < 0 || r.Seconds > maxDuration {
		return r, diag.List{block.Problem("session_duration", "Invalid session_duration",
			fmt.Sprintf("The value must be from 0 to %d seconds", maxDuration))}
	}
	return r, nil
}
