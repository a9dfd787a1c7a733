package s3

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/aws"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/arguments/awsidentity"
	"github.com/millipede-iac/millipede/lang/diag"
)

// open checks the arguments, finds the credentials, and verifies them with STS unless that is disabled.
func open(ctx context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	diags := check(p, args)
	settings, more := identity(p, args)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	client, err := aws.Open(ctx, settings)
	if err != nil {
		return nil, diags.Append(awsidentity.Problem(err, args, "Failed to configure the S3 backend"))
	}
	d := &driver{
		client: client, bucket: args.String("bucket"), acl: args.String("acl"),
		stateTags: tagging(args.Map("state_tags")), checksum: !args.Bool("skip_s3_checksum"),
	}
	d.encrypt(args)
	endpoints, _ := args.Nested("endpoints")
	custom := either(endpoints.String("s3"), args.String("endpoint"))
	if d.address, err = locate(client, d.bucket, custom, pathStyle(args)); err != nil {
		return nil, diags.Append(args.Problem("endpoints", "Invalid endpoint", err.Error()))
	}
	b := &bucket.Store{
		Driver: d, EmptyIsNone: true, LockCheck: p.LockCheck,
		Names: bucket.Folders(args.String("key"), args.String("workspace_key_prefix"), args.String("key")),
	}
	var taken locks
	if args.Bool("use_lockfile") {
		file := lockFile{driver: d, tags: tagging(args.Map("lock_tags"))}
		taken = append(taken, lock{bucket.Recorded{Record: file, Bucket: d.bucket}, "the lock file"})
	}
	if table := args.String("dynamodb_table"); table != "" {
		at := client.Endpoint("dynamodb")
		if e := either(endpoints.String("dynamodb"), args.String("dynamodb_endpoint")); e != "" {
			at = aws.WithScheme(e)
		}
		b.Table = &bucket.Table{Rows: &rows{client: client, table: table, endpoint: at}, Name: table, Bucket: d.bucket}
		taken = append(taken, lock{bucket.Recorded{Record: b.Table, Bucket: d.bucket}, "the lock in the table " + table})
	}
	if len(taken) > 0 {
		b.Locks = taken
	}
	return b, diags
}

func pathStyle(args backend.Arguments) bool {
	return args.Bool("use_path_style") || args.Bool("force_path_style")
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// encrypt sets the headers of server-side encryption.
func (d *driver) encrypt(args backend.Arguments) {
	customer := args.String("sse_customer_key")
	switch {
	case !args.Bool("encrypt"):
	case args.Given("kms_key_id"):
		d.putHeaders = map[string]string{
			"X-Amz-Server-Side-Encryption":                "aws:kms",
			"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": args.String("kms_key_id"),
		}
	case customer != "":
		raw, _ := base64.StdEncoding.DecodeString(customer) // check has decoded it
		sum := md5.Sum(raw)                                 //nolint:gosec // a checksum in the protocol
		d.keyHeaders = map[string]string{
			"X-Amz-Server-Side-Encryption-Customer-Algorithm": "AES256",
			"X-Amz-Server-Side-Encryption-Customer-Key":       customer,
			"X-Amz-Server-Side-Encryption-Customer-Key-Md5":   base64.StdEncoding.EncodeToString(sum[:]),
		}
	default:
		d.putHeaders = map[string]string{"X-Amz-Server-Side-Encryption": "AES256"}
	}
}

// The forms of a KMS key: the ARN of a key or an alias, or the ID of a key.
var (
	kmsID  = `([0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|mrk-[0-9a-f]{32})`
	kmsKey = pattern.Lazy(`^(arn:[\w-]+:kms:[\w-]+:\d{12}:(key/` + kmsID + `|alias/[\w/-]+)|` + kmsID +
		`|alias/[\w/-]+)$`)
)

// check reports problems with the arguments that the schema cannot express.
func check(p backend.Place, args backend.Arguments) diag.List {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid Value", fmt.Sprintf(format, a...)))
	}
	if wrong := checkBucket(args.String("bucket"), args.String("region"), pathStyle(args)); wrong != "" {
		bad("bucket", "%s", wrong)
	}
	switch key := args.String("key"); {
	case key == "":
		bad("key", "The value cannot be empty")
	case strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/"):
		bad("key", `The value must not start or end with "/"`)
	}
	if prefix := args.String("workspace_key_prefix"); strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") {
		bad("workspace_key_prefix", `The value must not start or end with "/"`)
	}
	if key := args.String("kms_key_id"); key != "" {
		if !kmsKey().MatchString(key) {
			bad("kms_key_id", "The value must be the ARN of a KMS key or alias, or the ID of a key")
		}
		if args.Given("sse_customer_key") {
			bad("kms_key_id", "Only one of \"kms_key_id\" and the environment variable AWS_SSE_CUSTOMER_KEY can be set")
		}
	}
	if key := args.String("sse_customer_key"); key != "" {
		if raw, err := base64.StdEncoding.DecodeString(key); len(key) != 44 || err != nil || len(raw) != 32 {
			bad("sse_customer_key", "The key must be 44 characters of base64, which stand for 32 bytes")
		}
	}
	endpoints, _ := args.Nested("endpoints")
	for old, name := range map[string]string{"endpoint": "s3", "iam_endpoint": "iam", "sts_endpoint": "sts",
		"dynamodb_endpoint": "dynamodb"} {
		if args.Given(old) && endpoints.Given(name) && p.Env("AWS_ENDPOINT_URL_"+strings.ToUpper(name)) == "" {
			diags = diags.Append(args.Problem(old, "Invalid combination of arguments", fmt.Sprintf("%q: conflicts "+
				"with endpoints.%s", old, name)))
		}
	}
	for name, instead := range map[string]string{
		"endpoint": "endpoints.s3", "iam_endpoint": "endpoints.iam", "sts_endpoint": "endpoints.sts",
		"dynamodb_endpoint": "endpoints.dynamodb", "shared_credentials_file": "shared_credentials_files",
		"force_path_style": "use_path_style",
	} {
		if args.Given(name) {
			diags = diags.Append(deprecated(args, name, instead))
		}
	}
	return diags
}

func deprecated(args backend.Arguments, name, instead string) *diag.Diagnostic {
	d := args.Problem(name, "Deprecated Parameter", fmt.Sprintf("The parameter %q is deprecated. Use %q instead",
		name, instead))
	d.Severity = diag.Warning
	return d
}

// identity returns the arguments about credentials, including the deprecated ones.
func identity(p backend.Place, args backend.Arguments) (aws.Settings, diag.List) {
	s, diags := awsidentity.Settings(p.Environment(), args)
	if s.STSEndpoint == "" {
		s.STSEndpoint = args.String("sts_endpoint")
	}
	if f := args.String("shared_credentials_file"); f != "" {
		s.SharedCredentialsFiles = []string{f}
	}
	return s, diags.Append(oldRole(args, &s))
}

// olds are the deprecated top-level arguments that assume_role replaces.
var olds = map[string]string{
	"role_arn": "assume_role.role_arn", "session_name": "assume_role.session_name",
	"external_id":                  "assume_role.external_id",
	"assume_role_duration_seconds": "assume_role.duration", "assume_role_policy": "assume_role.policy",
	"assume_role_policy_arns": "assume_role.policy_arns", "assume_role_tags": "assume_role.tags",
	"assume_role_transitive_tag_keys": "assume_role.transitive_tag_keys",
}

// oldRole reads the deprecated arguments in place of assume_role.
func oldRole(args backend.Arguments, s *aws.Settings) diag.List {
	var diags diag.List
	for name, instead := range olds {
		switch {
		case !args.Given(name):
		case s.AssumeRole != nil:
			diags = diags.Append(args.Problem(name, "Conflicting Parameters",
				fmt.Sprintf("The parameters %q and \"assume_role\" cannot be configured together", name)))
		default:
			diags = diags.Append(deprecated(args, name, instead))
		}
	}
	if s.AssumeRole == nil && args.Given("role_arn") {
		s.AssumeRole = &aws.AssumeRole{
			RoleARN: args.String("role_arn"), ExternalID: args.String("external_id"),
			Policy:      args.String("assume_role_policy"),
			SessionName: args.String("session_name"), PolicyARNs: args.Strings("assume_role_policy_arns"),
			Duration: time.Duration(args.Int("assume_role_duration_seconds")) * time.Second,
			Tags:     args.Map("assume_role_tags"), TransitiveTagKeys: args.Strings("assume_role_transitive_tag_keys"),
		}
	}
	return diags
}

// tagging returns tags in the form of a header.
func tagging(tags map[string]string) string {
	values := url.Values{}
	for k, v := range tags {
		values.Set(k, v)
	}
	return values.Encode()
}
