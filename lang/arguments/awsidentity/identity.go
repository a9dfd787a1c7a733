// Package awsidentity decodes the arguments about credentials for Amazon that backends and key providers share.
//
// It finds no credentials: internal/cloud/aws does, with these settings.
package awsidentity

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/cloud/aws"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Attributes returns the attributes that Settings decodes, except "endpoints". The caller owns the map.
func Attributes() map[string]*schema.Attribute {
	a := map[string]*schema.Attribute{
		"secret_key":                    {Type: cty.String, Optional: true, Sensitive: true},
		"token":                         {Type: cty.String, Optional: true, Sensitive: true},
		"max_retries":                   {Type: cty.Number, Optional: true},
		"assume_role":                   {Type: roleType(), Optional: true},
		"assume_role_with_web_identity": {Type: webIdentityType(), Optional: true},
	}
	add := func(ty cty.Type, names ...string) {
		for _, n := range names {
			a[n] = &schema.Attribute{Type: ty, Optional: true}
		}
	}
	add(
		cty.String,
		"region",
		"sts_region",
		"access_key",
		"profile",
		"retry_mode",
		"custom_ca_bundle",
		"http_proxy",
		"https_proxy",
		"no_proxy",
		"ec2_metadata_service_endpoint",
		"ec2_metadata_service_endpoint_mode",
	)
	add(cty.Bool, "skip_credentials_validation", "skip_metadata_api_check", "skip_requesting_account_id", "insecure",
		"use_dualstack_endpoint", "use_fips_endpoint")
	add(
		cty.Set(cty.String),
		"shared_credentials_files",
		"shared_config_files",
		"allowed_account_ids",
		"forbidden_account_ids",
	)
	return a
}

// Env returns the environment variables of attributes. The caller owns the map.
func Env() map[string][]string {
	return map[string][]string{
		"region":                             {"AWS_REGION", "AWS_DEFAULT_REGION"},
		"endpoints.iam":                      {"AWS_ENDPOINT_URL_IAM", "AWS_IAM_ENDPOINT"},
		"endpoints.sts":                      {"AWS_ENDPOINT_URL_STS", "AWS_STS_ENDPOINT"},
		"shared_credentials_files":           {"AWS_SHARED_CREDENTIALS_FILE"},
		"shared_config_files":                {"AWS_SHARED_CONFIG_FILE"},
		"custom_ca_bundle":                   {"AWS_CA_BUNDLE"},
		"ec2_metadata_service_endpoint":      {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_METADATA_URL"},
		"ec2_metadata_service_endpoint_mode": {"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"},
	}
}

func roleType() cty.Type {
	return cty.ObjectWithOptionalAttrs(map[string]cty.Type{
		"role_arn": cty.String, "duration": cty.String, "external_id": cty.String, "policy": cty.String,
		"session_name": cty.String,
		"policy_arns":  cty.Set(cty.String), "tags": cty.Map(cty.String), "transitive_tag_keys": cty.Set(cty.String),
	}, []string{"duration", "external_id", "policy", "session_name", "policy_arns", "tags", "transitive_tag_keys"})
}

func webIdentityType() cty.Type {
	atys := map[string]cty.Type{
		"role_arn": cty.String, "web_identity_token": cty.String, "web_identity_token_file": cty.String,
		"session_name": cty.String, "policy": cty.String, "policy_arns": cty.Set(cty.String), "duration": cty.String,
	}
	return cty.ObjectWithOptionalAttrs(atys, []string{
		"role_arn", "web_identity_token", "web_identity_token_file", "session_name", "policy",
		"policy_arns", "duration",
	})
}

// Problem converts an error of Open of internal/cloud/aws. failed is the summary if no argument is the cause.
func Problem(err error, args arguments.Arguments, failed string) *diag.Diagnostic {
	var account *aws.AccountError
	switch {
	case errors.As(err, &account):
		return diag.New(diag.Error, "Invalid account ID", err.Error()+".", nil)
	case errors.Is(err, aws.ErrCredentials):
		// Programs find out by this summary that there are no credentials.
		return diag.New(diag.Error, "No valid credential sources found", err.Error()+".", nil)
	case errors.Is(err, aws.ErrCABundle):
		return args.Problem("custom_ca_bundle", "Invalid custom_ca_bundle", err.Error())
	case errors.Is(err, aws.ErrRegion) && !args.Given("region"):
		return args.Problem("region", "Missing region value",
			"The \"region\" attribute or the \"AWS_REGION\" or \"AWS_DEFAULT_REGION\" environment variables "+
				"must be set.")
	case errors.Is(err, aws.ErrRegion):
		detail := fmt.Sprintf("There is no region %q", args.String("region"))
		if args.Has("skip_region_validation") {
			detail += "; set skip_region_validation if it is a new one, or not one of AWS"
		}
		return args.Problem("region", "Invalid region value", detail)
	}
	return diag.New(diag.Error, failed, err.Error()+".", nil)
}

// Settings decodes the arguments about credentials. All problems are reported; with errors the settings must not be
// used.
func Settings(p cloud.Environment, args arguments.Arguments) (aws.Settings, diag.List) {
	endpoints, _ := args.Nested("endpoints")
	s := aws.Settings{
		Region: args.String("region"), SkipRegionValidation: args.Bool("skip_region_validation"),
		AccessKey: args.String("access_key"), SecretKey: args.String("secret_key"), Token: args.String("token"),
		Profile: args.String("profile"),
		SharedCredentialsFiles: args.Strings(
			"shared_credentials_files",
		), SharedConfigFiles: args.Strings("shared_config_files"),
		SkipCredentialsValidation: args.Bool(
			"skip_credentials_validation",
		), SkipAccountID: args.Bool("skip_requesting_account_id"),
		AllowedAccounts: args.Strings("allowed_account_ids"), ForbiddenAccounts: args.Strings("forbidden_account_ids"),
		MetadataEndpoint: args.String(
			"ec2_metadata_service_endpoint",
		), MetadataMode: args.String("ec2_metadata_service_endpoint_mode"),
		Attempts: args.Int("max_retries"), RetryMode: args.String("retry_mode"),
		HTTPProxy: given(args, "http_proxy"), HTTPSProxy: given(args, "https_proxy"), NoProxy: given(args, "no_proxy"),
		Insecure: args.Bool("insecure"), CABundle: args.String("custom_ca_bundle"),
		DualStack: args.Bool("use_dualstack_endpoint"), FIPS: args.Bool("use_fips_endpoint"),
		STSEndpoint: endpoints.String("sts"), STSRegion: args.String("sts_region"),
		Transport: p.Transport(), Env: p.Env, Path: p.Path, UserAgent: p.UserAgent,
	}
	if args.Set("skip_metadata_api_check") {
		skip := args.Bool("skip_metadata_api_check")
		s.SkipMetadata = &skip
	}
	diags := check(args)
	var more diag.List
	s.AssumeRole, more = role(args)
	diags = diags.Append(more)
	s.WebIdentity, more = webIdentity(p, args)
	return s, diags.Append(more)
}

// check reports problems with the arguments that the schema cannot express.
func check(args arguments.Arguments) diag.List {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid Value", fmt.Sprintf(format, a...)))
	}
	if mode := args.String("retry_mode"); mode != "" && mode != "standard" && mode != "adaptive" {
		bad("retry_mode", `The value must be "standard" or "adaptive"`)
	}
	if mode := strings.ToLower(args.String("ec2_metadata_service_endpoint_mode")); mode != "" && mode != "ipv4" &&
		mode != "ipv6" {
		bad("ec2_metadata_service_endpoint_mode", `The value must be "IPv4" or "IPv6"`)
	}
	if args.Int("max_retries") < 0 {
		bad("max_retries", "The value cannot be negative")
	}
	if args.Given("http_proxy") && !args.Given("https_proxy") {
		diags = diags.Append(diag.New(
			diag.Warning,
			"Missing HTTPS Proxy",
			"The proxy of \"http_proxy\" is used for https as well, because \"https_proxy\" is not set. Set both "+
				"to say so.",
			nil,
		))
	}
	return diags
}

func given(args arguments.Arguments, name string) *string {
	if !args.Set(name) {
		return nil
	}
	v := args.String(name)
	return &v
}

// duration decodes a duration such as "1h30m" within the limits of STS.
func duration(args arguments.Arguments, name string) (time.Duration, diag.List) {
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

// role decodes assume_role.
func role(args arguments.Arguments) (*aws.AssumeRole, diag.List) {
	nested, ok := args.Nested("assume_role")
	if !ok {
		return nil, nil
	}
	var diags diag.List
	if !nested.Given("role_arn") {
		diags = diags.Append(
			nested.Problem("role_arn", "Missing Required Value", `The attribute "assume_role.role_arn" is required`),
		)
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

// policy matches the ARN of a policy.
var policy = pattern.Lazy(`^arn:[\w-]+:[\w-]*:[\w-]*:[\w-]*:policy/.+$`)

func policyARNs(nested arguments.Arguments) diag.List {
	var diags diag.List
	for _, arn := range nested.Strings("policy_arns") {
		if !policy().MatchString(arn) {
			diags = diags.Append(nested.Problem("policy_arns", "Invalid ARN",
				fmt.Sprintf("The value %q must be the ARN of a policy, whose last part begins with \"policy/\"", arn)))
		}
	}
	return diags
}

// webIdentity decodes assume_role_with_web_identity, whose parts may come from the environment.
func webIdentity(p cloud.Environment, args arguments.Arguments) (*aws.WebIdentity, diag.List) {
	nested, ok := args.Nested("assume_role_with_web_identity")
	if !ok {
		return nil, nil // then the library's chain reads the same variables
	}
	env := func(name, variable string) string {
		if v := nested.String(name); v != "" {
			return v
		}
		return p.Env(variable)
	}
	w := &aws.WebIdentity{
		RoleARN: env("role_arn", "AWS_ROLE_ARN"), Token: env("web_identity_token", "AWS_WEB_IDENTITY_TOKEN"),
		TokenFile: env("web_identity_token_file", "AWS_WEB_IDENTITY_TOKEN_FILE"),
		SessionName: env(
			"session_name",
			"AWS_ROLE_SESSION_NAME",
		), Policy: nested.String("policy"), PolicyARNs: nested.Strings("policy_arns"),
	}
	var diags diag.List
	if w.RoleARN == "" {
		diags = diags.Append(nested.Problem("role_arn", "Missing Required Value",
			`The attribute "assume_role_with_web_identity.role_arn" is required`))
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
