package arguments_test

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

var spec = arguments.Spec{
	Subject: `the backend "test"`,
	Schema: &schema.Block{
		Attributes: map[string]*schema.Attribute{
			"region": {Type: cty.String, Optional: true}, "token": {Type: cty.String, Optional: true},
			"retries": {Type: cty.Number, Optional: true}, "hosts": {Type: cty.List(cty.String), Optional: true},
			"endpoints": {Optional: true, Type: cty.ObjectWithOptionalAttrs(map[string]cty.Type{
				"s3": cty.String, "sts": cty.String}, []string{"s3", "sts"})},
		},
		Blocks: map[string]*schema.NestedBlock{
			"role": {Nesting: schema.NestingList, Block: schema.Block{Attributes: map[string]*schema.Attribute{
				"name": {Type: cty.String, Optional: true}, "password": {Type: cty.String, Optional: true},
			}}},
		},
	},
	Env: map[string][]string{
		"region": {"REGION", "OLD_REGION"}, "retries": {"RETRIES"}, "hosts": {"HOST"}, "endpoints.s3": {"S3"},
	},
	Defaults:  map[string]cty.Value{"region": cty.StringVal("by default"), "retries": cty.NumberIntVal(5)},
	Conflicts: [][2]string{{"token", "hosts"}},
}

func object(attributes map[string]cty.Value) cty.Value { return cty.ObjectVal(attributes) }

// complete decodes and completes a configuration.
func complete(t *testing.T, config cty.Value, env map[string]string) (arguments.Arguments, diag.List) {
	t.Helper()
	a, diags := spec.Decode(config)
	a, more := spec.Complete(a, func(name string) string { return env[name] })
	return a, diags.Append(more)
}

func TestAnArgumentComesFromTheBlockThenTheEnvironmentThenTheDefaults(t *testing.T) {
	type block = map[string]cty.Value
	type env = map[string]string
	for sentence, c := range map[string]struct {
		config block
		env    env
		want   string
	}{
		"the block comes first":            {block{"region": cty.StringVal("x")}, env{"REGION": "y"}, "x"},
		"then the environment":             {nil, env{"REGION": "y", "OLD_REGION": "z"}, "y"},
		"an empty variable is passed over": {nil, env{"REGION": "", "OLD_REGION": "z"}, "z"},
		"then the default":                 {nil, nil, "by default"},
		"an empty text hides the variables": {
			block{"region": cty.StringVal("")}, env{"REGION": "y"}, "by default",
		},
	} {
		a, diags := complete(t, object(c.config), c.env)
		if got := a.String("region"); got != c.want || diags.HasErrors() {
			t.Errorf("%s: %q, %v", sentence, got, diags)
		}
	}
}

func TestTheEnvironmentGivesNumbersListsAndPartsOfObjects(t *testing.T) {
	a, diags := complete(t, cty.NilVal, map[string]string{"RETRIES": "7", "HOST": "h", "S3": "s"})
	endpoints, given := a.Nested("endpoints")
	if diags.HasErrors() || a.Int("retries") != 7 || strings.Join(a.Strings("hosts"), " ") != "h" || !given ||
		endpoints.String("s3") != "s" || endpoints.Given("sts") {
		t.Errorf("the arguments are %#v, %v", a, diags)
	}
	if a, _ = complete(t, cty.NilVal, nil); a.Set("endpoints") {
		t.Error("an object that nobody sets is there")
	}
	if _, diags = complete(t, cty.NilVal, map[string]string{"RETRIES": "many"}); !diags.HasErrors() ||
		!strings.Contains(diags[0].Detail, "RETRIES") {
		t.Errorf("a value that is no number is accepted, or its variable not named: %v", diags)
	}
}

func TestWrongArgumentsAreErrorsThatNameTheirPlace(t *testing.T) {
	type block = map[string]cty.Value
	for sentence, c := range map[string]struct {
		config   block
		says, at string
	}{
		"one that is unknown": {block{"size": cty.True}, "Unsupported argument", "size"},
		"one of another type": {block{"retries": cty.StringVal("x")}, "Incorrect attribute value", "retries"},
		"two that exclude another": {
			block{"token": cty.StringVal("x"), "hosts": cty.ListVal([]cty.Value{cty.StringVal("h")})},
			"Invalid combination", "token",
		},
	} {
		_, diags := spec.Decode(object(c.config))
		if len(diags) != 1 || !strings.HasPrefix(diags[0].Summary, c.says) ||
			!diags[0].Path.HasPrefix(cty.GetAttrPath(c.at)) {
			t.Errorf("%s: %v", sentence, diags)
		}
	}
	_, diags := spec.Decode(object(block{"token": cty.StringVal("x"), "hosts": cty.ListValEmpty(cty.String)}))
	if diags.HasErrors() {
		t.Errorf("an empty list excludes another argument: %v", diags)
	}
}

// A configuration that is written as a map has one object where the block form has a list of one block.
func TestOneObjectIsAListOfOneBlock(t *testing.T) {
	role := object(map[string]cty.Value{"name": cty.StringVal("r")})
	for sentence, given := range map[string]cty.Value{
		"an object": role, "a list": cty.TupleVal([]cty.Value{role}),
	} {
		a, diags := spec.Decode(object(map[string]cty.Value{"role": given}))
		nested, ok := a.Nested("role")
		if diags.HasErrors() || !ok || a.Count("role") != 1 || nested.String("name") != "r" {
			t.Errorf("%s: %#v, %v", sentence, a, diags)
		}
		want := cty.GetAttrPath("role").IndexInt(0).GetAttr("name")
		if d := nested.Problem("name", "Bad", "It is bad."); !d.Path.Equals(want) {
			t.Errorf("%s: the problem is at %#v", sentence, d.Path)
		}
	}
}

// The source line of a problem is shown, so a problem with a password must hide it.
func TestAProblemWithASecretArgumentIsConfidential(t *testing.T) {
	role := object(map[string]cty.Value{"password": cty.StringVal("p")})
	a, _ := spec.Decode(object(map[string]cty.Value{"role": role}))
	nested, _ := a.Nested("role")
	for name, want := range map[string]bool{"password": true, "name": false} {
		_, hidden := nested.Problem(name, "Bad", "It is bad").Extra.(diag.Confidential)
		if hidden != want {
			t.Errorf("the value of %s is hidden: %t", name, hidden)
		}
	}
}
