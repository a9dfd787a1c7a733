package s3store

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/cloud/aws"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// open checks the arguments, finds the credentials, and asks STS whose they are unless it is told not to.
func open(ctx context.Context, p snapshot.Place, args snapshot.Arguments) (snapshot.Backend, diag.List) {
	diags := check(p, args)
	settings, more := identity(p, args)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	session, err := aws.Open(ctx, settings)
	var account *aws.AccountError
	switch {
	case errors.As(err, &account):
		return nil, diags.Append(diag.New(diag.Error, "Invalid account ID", err.Error()+".", nil))
	case errors.Is(err, aws.ErrRegion) && !args.Given("region"):
		return nil, diags.Append(args.Problem("region", "Missing region value",
			"The \"region\" attribute or the \"AWS_REGION\" or \"AWS_DEFAULT_REGION\" environment variables must be set."))
	case errors.Is(err, aws.ErrRegion):
		return nil, diags.Append(args.Problem("region", "Invalid region value",
			fmt.Sprintf("There is no region %q; set skip_region_validation if it is a new one, or not one of AWS", args.String("region"))))
	case err != nil:
		return nil, diags.Append(diag.New(diag.Error, "Failed to configure the S3 backend", err.Error()+".", nil))
	}
	b := &backend{
		session: session, bucket: args.String("bucket"), key: args.String("key"), prefix: args.String("workspace_key_prefix"),
		acl: args.String("acl"), stateTags: tagging(args.Map("state_tags")), lockTags: tagging(args.Map("lock_tags")),
		lockFile: args.Bool("use_lockfile"), table: args.String("dynamodb_table"), checksum: !args.Bool("skip_s3_checksum"),
	}
	b.encrypt(args)
	endpoints, _ := args.Nested("endpoints")
	b.tableEndpoint = session.Endpoint("dynamodb")
	if e := either(endpoints.String("dynamodb"), args.String("dynamodb_endpoint")); e != "" {
		b.tableEndpoint = aws.WithScheme(e)
	}
	custom := either(endpoints.String("s3"), args.String("endpoint"))
	pathStyle := args.Bool("use_path_style") || args.Bool("force_path_style") || strings.Contains(b.bucket, ".")
	if err := b.locate(custom, pathStyle); err != nil {
		return nil, diags.Append(args.Problem("endpoints", "Invalid endpoint", err.Error()))
	}
	return b, diags
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// locate finds the address of the bucket.
func (b *backend) locate(custom string, pathStyle bool) error {
	endpoint := b.session.Endpoint("s3")
	if custom != "" {
		endpoint = aws.WithScheme(custom)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return fmt.Errorf("the address %q of S3 is no valid URL", endpoint)
	}
	if pathStyle {
		u.Path = strings.TrimSuffix(u.Path, "/") + "/" + b.bucket
	} else {
		u.Host = b.bucket + "." + u.Host
		u.Path = strings.TrimSuffix(u.Path, "/")
	}
	b.address = u
	return nil
}

// encrypt sets the headers of encryption on the server.
func (b *backend) encrypt(args snapshot.Arguments) {
	customer := args.String("sse_customer_key")
	switch {
	case !args.Bool("encrypt"):
	case args.Given("kms_key_id"):
		b.putHeaders = map[string]string{
			"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": args.String("kms_key_id"),
		}
	case customer != "":
		raw, _ := base64.StdEncoding.DecodeString(customer) // check has decoded it
		sum := md5.Sum(raw)                                 //nolint:gosec // a check sum that the protocol asks for
		b.keyHeaders = map[string]string{
			"X-Amz-Server-Side-Encryption-Customer-Algorithm": "AES256",
			"X-Amz-Server-Side-Encryption-Customer-Key":       customer,
			"X-Amz-Server-Side-Encryption-Customer-Key-Md5":   base64.StdEncoding.EncodeToString(sum[:]),
		}
	default:
		b.putHeaders = map[string]string{"X-Amz-Server-Side-Encryption": "AES256"}
	}
}

// The forms of a key of KMS: an ARN of a key or an alias, or the ID of one.
var (
	kmsID  = `([0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|mrk-[0-9a-f]{32})`
	kmsKey = regexp.MustCompile(`^(arn:[\w-]+:kms:[\w-]+:\d{12}:(key/` + kmsID + `|alias/[\w/-]+)|` + kmsID + `|alias/[\w/-]+)$`)
	policy = regexp.MustCompile(`^arn:[\w-]+:[\w-]*:[\w-]*:[\w-]*:policy/.+$`)
)

// check says what is wrong with arguments that a schema allows.
func check(p snapshot.Place, args snapshot.Arguments) diag.List {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid Value", fmt.Sprintf(format, a...)))
	}
	if args.String("bucket") == "" {
		bad("bucket", "The value cannot be empty")
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
		if !kmsKey.MatchString(key) {
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
	if mode := args.String("retry_mode"); mode != "" && mode != "standard" && mode != "adaptive" {
		bad("retry_mode", `The value must be "standard" or "adaptive"`)
	}
	if mode := strings.ToLower(args.String("ec2_metadata_service_endpoint_mode")); mode != "" && mode != "ipv4" && mode != "ipv6" {
		bad("ec2_metadata_service_endpoint_mode", `The value must be "IPv4" or "IPv6"`)
	}
	if args.Int("max_retries") < 0 {
		bad("max_retries", "The value cannot be negative")
	}
	endpoints, _ := args.Nested("endpoints")
	for old, name := range map[string]string{"endpoint": "s3", "iam_endpoint": "iam", "sts_endpoint": "sts", "dynamodb_endpoint": "dynamodb"} {
		if args.Given(old) && endpoints.Given(name) && p.Env("AWS_ENDPOINT_URL_"+strings.ToUpper(name)) == "" {
			diags = diags.Append(args.Problem(old, "Invalid combination of arguments", fmt.Sprintf("%q: conflicts with endpoints.%s", old, name)))
		}
	}
	for name, instead := range map[string]string{
		"endpoint": "endpoints.s3", "iam_endpoint": "endpoints.iam", "sts_endpoint": "endpoints.sts",
		"dynamodb_endpoint": "endpoints.dynamodb", "shared_credentials_file": "shared_credentials_files", "force_path_style": "use_path_style",
	} {
		if args.Given(name) {
			diags = diags.Append(deprecated(args, name, instead))
		}
	}
	if args.Given("http_proxy") && !args.Given("https_proxy") {
		diags = diags.Append(diag.New(diag.Warning, "Missing HTTPS Proxy",
			"The proxy of \"http_proxy\" is used for https as well, because \"https_proxy\" is not set. Set both to say so.", nil))
	}
	return diags
}

func deprecated(args snapshot.Arguments, name, instead string) *diag.Diagnostic {
	d := args.Problem(name, "Deprecated Parameter", fmt.Sprintf("The parameter %q is deprecated. Use %q instead", name, instead))
	d.Severity = diag.Warning
	return d
}

// identity collects what the arguments say about who asks.
func identity(p snapshot.Place, args snapshot.Arguments) (aws.Settings, diag.List) {
	endpoints, _ := args.Nested("endpoints")
	s := aws.Settings{
		Region: args.String("region"), SkipRegionValidation: args.Bool("skip_region_validation"),
		AccessKey: args.String("access_key"), SecretKey: args.String("secret_key"), Token: args.String("token"),
		Profile:                args.String("profile"),
		SharedCredentialsFiles: args.Strings("shared_credentials_files"), SharedConfigFiles: args.Strings("shared_config_files"),
		SkipCredentialsValidation: args.Bool("skip_credentials_validation"), SkipAccountID: args.Bool("skip_requesting_account_id"),
		AllowedAccounts: args.Strings("allowed_account_ids"), ForbiddenAccounts: args.Strings("forbidden_account_ids"),
		MetadataEndpoint: args.String("ec2_metadata_service_endpoint"), MetadataMode: args.String("ec2_metadata_service_endpoint_mode"),
		Attempts: args.Int("max_retries"), RetryMode: args.String("retry_mode"),
		HTTPProxy: given(args, "http_proxy"), HTTPSProxy: given(args, "https_proxy"), NoProxy: given(args, "no_proxy"),
		Insecure: args.Bool("insecure"), CABundle: args.String("custom_ca_bundle"),
		DualStack: args.Bool("use_dualstack_endpoint"), FIPS: args.Bool("use_fips_endpoint"),
		STSEndpoint: either(endpoints.String("sts"), args.String("sts_endpoint")), STSRegion: args.String("sts_region"),
		Transport: p.Transport(), Env: p.Env, UserAgent: p.UserAgent,
	}
	if f := args.String("shared_credentials_file"); f != "" {
		s.SharedCredentialsFiles = []string{f}
	}
	if args.Set("skip_metadata_api_check") {
		skip := args.Bool("skip_metadata_api_check")
		s.SkipMetadata = &skip
	}
	var diags diag.List
	s.AssumeRole, diags = role(args)
	var more diag.List
	s.WebIdentity, more = webIdentity(p, args)
	return s, diags.Append(more)
}

func given(args snapshot.Arguments, name string) *string {
	if !args.Set(name) {
		return nil
	}
	v := args.String(name)
	return &v
}

// duration reads a duration such as "1h30m", which has to be one that STS takes.
func duration(args snapshot.Arguments, name string) (time.Duration, diag.List) {
	text := args.String(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 15*time.Minute || d > 12*time.Hour {
		return 0, diag.List{args.Problem(name, "Invalid Duration",
			fmt.Sprintf("The value %q must be a duration such as \"1h30m\", from 15m to 12h", text))}
	}
	return d, nil
}

// olds are the arguments at the top level that say what assume_role says now.
var olds = map[string]string{
	"role_arn": "assume_role.role_arn", "session_name": "assume_role.session_name", "external_id": "assume_role.external_id",
	"assume_role_duration_seconds": "assume_role.duration", "assume_role_policy": "assume_role.policy",
	"assume_role_policy_arns": "assume_role.policy_arns", "assume_role_tags": "assume_role.tags",
	"assume_role_transitive_tag_keys": "assume_role.transitive_tag_keys",
}

// role reads assume_role, or the old arguments that stand for it.
func role(args snapshot.Arguments) (*aws.AssumeRole, diag.List) {
	var diags diag.List
	nested, ok := args.Nested("assume_role")
	for name, instead := range olds {
		switch {
		case !args.Given(name):
		case ok:
			diags = diags.Append(args.Problem(name, "Conflicting Parameters",
				fmt.Sprintf("The parameters %q and \"assume_role\" cannot be configured together", name)))
		default:
			diags = diags.Append(deprecated(args, name, instead))
		}
	}
	if !ok && !args.Given("role_arn") {
		return nil, diags
	}
	if !ok {
		r := &aws.AssumeRole{
			RoleARN: args.String("role_arn"), ExternalID: args.String("external_id"), Policy: args.String("assume_role_policy"),
			SessionName: args.String("session_name"), PolicyARNs: args.Strings("assume_role_policy_arns"),
			Duration: time.Duration(args.Int("assume_role_duration_seconds")) * time.Second,
			Tags:     args.Map("assume_role_tags"), TransitiveTagKeys: args.Strings("assume_role_transitive_tag_keys"),
		}
		return r, diags
	}
	if !nested.Given("role_arn") {
		diags = diags.Append(nested.Problem("role_arn", "Missing Required Value", `The attribute "assume_role.role_arn" is required by the backend`))
	}
	for _, name := range []string{"external_id", "policy", "session_name"} {
		if nested.Set(name) && strings.TrimSpace(nested.String(name)) == "" {
			diags = diags.Append(nested.Problem(name, "Invalid Value", "The value cannot be empty or all whitespace"))
		}
	}
	d, more := duration(nested, "duration")
	diags = diags.Append(more, policyARNs(nested))
	return &aws.AssumeRole{
		RoleARN: nested.String("role_arn"), ExternalID: nested.String("external_id"), Policy: nested.String("policy"),
		SessionName: nested.String("session_name"), PolicyARNs: nested.Strings("policy_arns"), Duration: d,
		Tags: nested.Map("tags"), TransitiveTagKeys: nested.Strings("transitive_tag_keys"),
	}, diags
}

func policyARNs(nested snapshot.Arguments) diag.List {
	var diags diag.List
	for _, arn := range nested.Strings("policy_arns") {
		if !policy.MatchString(arn) {
			diags = diags.Append(nested.Problem("policy_arns", "Invalid ARN",
				fmt.Sprintf("The value %q must be the ARN of a policy, whose last part begins with \"policy/\"", arn)))
		}
	}
	return diags
}

// webIdentity reads assume_role_with_web_identity, whose parts the environment may give.
func webIdentity(p snapshot.Place, args snapshot.Arguments) (*aws.WebIdentity, diag.List) {
	nested, ok := args.Nested("assume_role_with_web_identity")
	if !ok {
		return nil, nil // then the library's chain reads the same variables
	}
	env := func(name, variable string) string { return either(nested.String(name), p.Env(variable)) }
	w := &aws.WebIdentity{
		RoleARN: env("role_arn", "AWS_ROLE_ARN"), Token: env("web_identity_token", "AWS_WEB_IDENTITY_TOKEN"),
		TokenFile:   env("web_identity_token_file", "AWS_WEB_IDENTITY_TOKEN_FILE"),
		SessionName: env("session_name", "AWS_ROLE_SESSION_NAME"), Policy: nested.String("policy"), PolicyARNs: nested.Strings("policy_arns"),
	}
	var diags diag.List
	if w.RoleARN == "" {
		diags = diags.Append(nested.Problem("role_arn", "Missing Required Value",
			`The attribute "assume_role_with_web_identity.role_arn" is required by the backend`))
	}
	switch {
	case nested.Given("web_identity_token") && nested.Given("web_identity_token_file"):
		diags = diags.Append(nested.Problem("web_identity_token", "Invalid Attribute Combination",
			`Only one of "web_identity_token" and "web_identity_token_file" can be set`))
	case w.Token == "" && w.TokenFile == "":
		diags = diags.Append(nested.Problem("web_identity_token_file", "Missing Required Value",
			`One of "web_identity_token" and "web_identity_token_file" is required`))
	}
	d, more := duration(nested, "duration")
	w.Duration = d
	return w, diags.Append(more, policyARNs(nested))
}

// tagging is the form of tags in a header.
func tagging(tags map[string]string) string {
	values := url.Values{}
	for k, v := range tags {
		values.Set(k, v)
	}
	return values.Encode()
}
