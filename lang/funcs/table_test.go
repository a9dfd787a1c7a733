package funcs_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/zclconf/go-cty/cty"
)

func TestTheTableHasTheFunctionsOfOpenTofu(t *testing.T) {
	want := strings.Fields(`
		abs abspath alltrue anytrue assumeequal assumelistlength assumelistlengthmax assumelistlengthmin
		assumemaplength assumemaplengthmax assumemaplengthmin assumenotnull assumesetlength assumesetlengthmax
		assumesetlengthmin assumestringprefix base64decode base64encode base64gunzip base64gzip base64sha256
		base64sha512 basename bcrypt can ceil chomp chunklist cidrcontains cidrhost cidrnetmask cidrsubnet
		cidrsubnets coalesce coalescelist compact concat contains convert csvdecode dirname distinct element
		endswith ephemeralasnull file filebase64 filebase64sha256 filebase64sha512 fileexists filemd5 fileset
		filesha1 filesha256 filesha512 flatten floor format formatdate formatlist indent index issensitive join
		jsondecode jsonencode keys length log lookup lower matchkeys max md5 merge min nonsensitive one parseint
		pathexpand plantimestamp pow range regex regexall replace reverse rsadecrypt sensitive setintersection
		setproduct setsubtract setunion sha1 sha256 sha512 signum slice sort split startswith strcontains strrev
		substr sum templatefile templatestring textdecodebase64 textencodebase64 timeadd timecmp timestamp title
		tobool tolist tomap tonumber toset tostring transpose trim trimprefix trimspace trimsuffix try upper
		urldecode urlencode uuid uuidv5 values yamldecode yamlencode zipmap`)
	if got := funcs.Names(); !slices.Equal(got, want) {
		t.Fatalf("got %d names %v\nwant %d names %v", len(got), got, len(want), want)
	}
}

func TestEveryFunctionIsAlsoInTheCoreNamespace(t *testing.T) {
	table := funcs.Table(funcs.Options{Console: true})
	for name := range table {
		if strings.HasPrefix(name, "core::") {
			continue
		}
		if _, ok := table["core::"+name]; !ok {
			t.Errorf("core::%s is missing", name)
		}
	}
	same{
		"a qualified call": {`core::upper("a")`, `"A"`},
		"inside templates": {`templatestring("$${core::upper(a)}", {a = "x"})`, `"X"`},
	}.prove(t, funcs.Options{})
}

func TestAMapOfFunctionsBelongsToItsCaller(t *testing.T) {
	table := funcs.Table(funcs.Options{})
	clear(table)
	if _, ok := funcs.Table(funcs.Options{})["abs"]; !ok {
		t.Fatal("emptying one table emptied the next")
	}
	names := funcs.Names()
	names[0] = "changed"
	if funcs.Names()[0] == "changed" {
		t.Fatal("the names are shared")
	}
}

func TestFunctionsCanBeCalledByManyAtOnce(t *testing.T) {
	ctx := scope(funcs.Options{PlanTimestamp: noon})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				v, diags := eval(t, ctx,
					`templatestring("$${join(\",\", sort(l))} $${plantimestamp()}", {l = ["b", "a"]})`)
				if diags.HasErrors() || v.AsString() != "a,b 2026-03-04T12:00:00Z" {
					t.Errorf("got %#v, %s", v, diags)
				}
			}
		})
	}
	wg.Wait()
}

func TestWhatIsImpureIsUnknownWhilePlanning(t *testing.T) {
	plan := funcs.Options{Pure: true, PlanTimestamp: noon}
	same{
		"timestamp":             {`timestamp()`, `lower(unknown)`},
		"uuid":                  {`uuid()`, `lower(unknown)`},
		"bcrypt":                {`bcrypt("x", 4)`, `lower(unknown)`},
		"but never null":        {`uuid() == null`, `false`},
		"plantimestamp is not":  {`plantimestamp()`, `"2026-03-04T12:00:00Z"`},
		"the same in templates": {`templatestring("$${timestamp()}", {})`, `lower(unknown)`},
	}.prove(t, plan)
}

func TestWhatIsImpureIsKnownWhileApplying(t *testing.T) {
	same{
		"timestamp is the clock's time in UTC": {`timestamp()`, `"2026-03-04T11:00:00Z"`},
		"uuid has the shape of a random UUID": {
			`can(regex("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", uuid()))`, `true`},
		"uuid differs from call to call":            {`uuid() == uuid()`, `false`},
		"bcrypt has the wanted cost":                {`substr(bcrypt("x", 4), 0, 7)`, `"$2a$04$"`},
		"bcrypt takes cost 10 for one that is less": {`substr(bcrypt("x", 3), 0, 7)`, `"$2a$10$"`},
	}.prove(t, funcs.Options{Now: func() time.Time { return noon.In(time.FixedZone("", 3600)).Add(-time.Hour) }})
	refused{
		"bcrypt with a cost beyond 31":    {`bcrypt("x", 32)`, badCall, "cost", ""},
		"bcrypt with a third argument":    {`bcrypt("x", 4, 5)`, badCall, "a string and perhaps a cost", ""},
		"bcrypt of more than 72 bytes":    {`bcrypt(join("", range(100)), 4)`, badCall, "72 bytes", ""},
		"bcrypt with a cost in fractions": {`bcrypt("x", 4.5)`, badCall, "whole number", ""},
	}.prove(t, funcs.Options{})
}

func TestThePlansTimeIsUnknownUntilThereIsAPlan(t *testing.T) {
	same{"validation": {`plantimestamp()`, `lower(unknown)`}}.prove(t, funcs.Options{})
}

func TestTheConsoleHasTypeInPlaceOfPlantimestamp(t *testing.T) {
	console := funcs.Options{Console: true}
	v, diags := eval(t, scope(console), `type([1, "a"])`)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if !v.HasMark(funcs.TypeMark) {
		t.Error("the result of type() cannot be told from other values")
	}
	v, _ = v.Unmark()
	if got := *v.EncapsulatedValue().(*cty.Type); !got.Equals(cty.Tuple([]cty.Type{cty.Number, cty.String})) {
		t.Errorf("got %#v", got)
	}
	refused{"no plan": {`plantimestamp()`, "Call to unknown function", "", ""}}.prove(t, console)
	refused{"no console": {`type(1)`, "Call to unknown function", "", ""}}.prove(t, funcs.Options{})
}

func TestFunctionsOfOldSayWhatReplacedThem(t *testing.T) {
	refused{
		"list": {`list("a")`, badCall, "tolist([...])", ""},
		"map":  {`core::map("a", 1)`, badCall, "tomap({...})", ""},
	}.prove(t, funcs.Options{})
}

func TestDescriptionsCoverAllFunctions(t *testing.T) {
	all := funcs.Describe()
	for _, name := range funcs.Names() {
		if all[name].Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
	if len(all) != len(funcs.Names()) {
		t.Errorf("%d descriptions of %d functions", len(all), len(funcs.Names()))
	}
}

func TestASignatureIsWrittenInTheFormThatToolsRead(t *testing.T) {
	for name, want := range map[string]string{
		"abs":    `"return_type":"number","parameters":[{"name":"num","type":"number"}]}`,
		"bcrypt": `"return_type":"string","parameters":[{"name":"str","type":"string"}],"variadic_parameter":{"name":"cost","type":"number"}}`,
		"try":    `"return_type":"dynamic","variadic_parameter":{"name":"expressions","type":"dynamic"}}`,
		"can":    `"return_type":"bool","parameters":[{"name":"expression","type":"dynamic"}]}`,
		"tolist": `"return_type":["list","dynamic"],"parameters":[{"name":"v","is_nullable":true,"type":"dynamic"}]}`,
	} {
		sig := funcs.Describe()[name]
		got, err := json.Marshal(sig)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(got), want) {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
	}
}
