package tfstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

const version = "1.12.6"

func TestAFileThatOpenTofuWroteIsWrittenAgainByteForByte(t *testing.T) {
	for name, form := range map[string]Form{"opentofu.indented.tfstate": Indented,
		"opentofu.compact.tfstate": Compact} {
		src, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := write(t, read(t, src), form); got != string(src) {
			t.Errorf("%s differs:\n%s", name, firstDifference(got, string(src)))
		}
	}
}

// If OpenTofu reads a file of Millipede and writes it again, the file is the same, except for the serial.
func TestOpenTofuKeepsWhatIsWritten(t *testing.T) {
	tofu := os.Getenv("TOFU")
	if tofu == "" {
		t.Skip("TOFU does not name an OpenTofu binary")
	}
	s := everything()
	s.Checks = s.Checks[:1] // OpenTofu shuffles them
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "terraform.tfstate"), []byte(write(t, s, Indented)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tofu, "state", "pull")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1")
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := write(t, s, Compact) + "\n"; string(got) != want { // the command ends the line once more
		t.Errorf("differs:\n%s", firstDifference(string(got), want))
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	want := everything()
	inDoubt(want)
	for _, form := range []Form{Compact, Indented} {
		text := write(t, want, form)
		if !json.Valid([]byte(text)) {
			t.Fatalf("not JSON:\n%s", text)
		}
		got := read(t, []byte(text))
		if got.Serial != want.Serial || got.Lineage != want.Lineage || got.EngineVersion != version {
			t.Errorf("serial %d, lineage %q, version %q", got.Serial, got.Lineage, got.EngineVersion)
		}
		if !got.SameContent(want) {
			t.Errorf("got:\n%s\nwant:\n%s", write(t, got, Indented), write(t, want, Indented))
		}
	}
}

func TestIndentingIsThatOfTheStandardLibrary(t *testing.T) {
	compact := write(t, everything(), Compact)
	var want bytes.Buffer
	if err := json.Indent(&want, []byte(compact), "", "  "); err != nil {
		t.Fatal(err)
	}
	if got := write(t, everything(), Indented); got != want.String()+"\n" {
		t.Errorf("differs:\n%s", firstDifference(got, want.String()+"\n"))
	}
}

func TestCompactingIsThatOfTheStandardLibrary(t *testing.T) {
	for _, src := range []string{
		`{}`, ` { "a" : [ 1 , 2.50 , -1e+10 ] , "b\"c" : "x \\" } `,
		"\t[\r\n\"<&>\",\"\u2028\u2029\u2027é\", null , true]\n", `"\\\"  "`, `[" "]`,
	} {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(src)); err != nil {
			t.Fatal(err)
		}
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, want.Bytes())
		if got := appendCompact(nil, []byte(src)); string(got) != escaped.String() {
			t.Errorf("%q becomes %q, want %q", src, got, escaped.String())
		}
	}
}

func TestAnObjectThatWasNeverSeenIsHiddenFromOpenTofuAndKept(t *testing.T) {
	s := state.Empty()
	s.Apply(state.SetObject{Addr: instance("new", addr.NoKey), Provider: test, Object: &state.Object{
		Status: state.InDoubt, Doubt: &state.Doubt{Run: "r", Attempt: "a", Operation: "create"},
	}})
	text := write(t, s, Compact)
	if !strings.Contains(text, `"resources":[]`) {
		t.Errorf("OpenTofu would see it: %s", text)
	}
	if !read(t, []byte(text)).SameContent(s) {
		t.Errorf("it is lost: %s", text)
	}
}

func TestADoubtWhoseObjectIsGoneIsGoneToo(t *testing.T) {
	s := everything()
	s.Serial = 1
	inDoubt(s)
	var f map[string]any
	if err := json.Unmarshal([]byte(write(t, s, Compact)), &f); err != nil {
		t.Fatal(err)
	}
	f["resources"] = []any{}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, text)
	if len(got.Resources) != 1 || got.Object(instance("new", addr.NoKey), "") == nil {
		t.Errorf("there is: %v", got.Addrs())
	}
}

func TestAnEmptyFileHoldsNoState(t *testing.T) {
	if s, diags := Read(strings.NewReader("")); s != nil || diags != nil {
		t.Errorf("got %v, %v", s, diags)
	}
}

func TestInstancesOfOneResourceShareTheirDependencies(t *testing.T) {
	deps := []state.Dependency{state.DependOn(instance("a", addr.NoKey).Config()),
		state.DependOn(instance("b", addr.NoKey).Config())}
	s := state.Empty()
	for i := range 2 {
		s.Apply(state.SetObject{Addr: instance("c", addr.IntKey(i)), Provider: test, Object: &state.Object{
			Status: state.Ready, Attrs: []byte("{}"), Dependencies: state.DependenciesOn(deps...),
		}})
	}
	got := read(t, []byte(write(t, s, Indented)))
	one, other := got.Object(instance("c", addr.IntKey(0)), ""), got.Object(instance("c", addr.IntKey(1)), "")
	if one.Dependencies != other.Dependencies || one.Dependencies.Len() != 2 {
		t.Error("there are two sets")
	}
}

func TestWhatIsNoStateIsRefused(t *testing.T) {
	v4 := func(rest string) string { return `{"version":4,"terraform_version":"1.0.0",` + rest + `}` }
	resource := func(instances string) string {
		return v4(`"resources":[{"mode":"managed","type":"a","name":"b",` +
			`"provider":"provider[\"registry.opentofu.org/hashicorp/a\"]","instances":[` + instances + `]}]`)
	}
	for claim, c := range map[string]struct{ text, summary, detail string }{
		"binary":       {"tfstate\x00", "Unsupported state file format", "0.6.16"},
		"not JSON":     {"{", "Unsupported state file format", "syntax error at byte offset 1"},
		"no object":    {"[]", "Unsupported state file format", "JSON"},
		"no version":   {"{}", "Unsupported state file format", `"version" attribute`},
		"encrypted":    {`{"encryption_version":"v0"}`, "Unsupported state file format", "encrypted"},
		"version zero": {`{"version":0}`, "Unsupported state file format", "zero"},
		"version word": {`{"version":"4"}`, "Unsupported state file format", "A positive whole number is " +
			"required"},
		"version of the future": {`{"version":5,"terraform_version":"2.0.0"}`, "Unsupported state file format",
			"OpenTofu 2.0.0"},
		"a field of a wrong type": {v4(`"serial":"x"`), "Invalid state file format", `"serial"`},
		"a version that is none":  {`{"version":4,"terraform_version":"x"}`, "Invalid OpenTofu version string", `"x"`},
		"a mode that is none": {v4(`"resources":[{"mode":"ephemeral","type":"a","name":"b"}]`),
			"Invalid resource mode in state", `"ephemeral"`},
		"a module that is none": {v4(`"resources":[{"module":"x","mode":"data","type":"a","name":"b"}]`),
			"Invalid module instance address", ""},
		"no provider": {v4(`"resources":[{"mode":"data","type":"a","name":"b","instances":[{}]}]`),
			"Provider field missing state", "data.a.b"},
		// The problem had a position in the text, but only "on line 1" was shown.
		"a provider that is none": {v4(`"resources":[{"mode":"managed","type":"a","name":"b","provider":"x["}]`),
			"Index value required", `The provider of a.b is "x[".`},
		"a key that is none": {resource(`{"index_key":true}`), "Invalid resource instance metadata in state",
			"a.b"},
		"a status that is none": {resource(`{"status":"x"}`), "Invalid resource instance metadata in state", `"x"`},
		"a short deposed key":   {resource(`{"deposed":"x"}`), "Invalid resource instance metadata in state", `"x"`},
		"an instance twice":     {resource(`{},{}`), "Duplicate resource instance in state", "a.b"},
		"a deposed object twice": {resource(`{"deposed":"00000001"},{"deposed":"00000001"}`),
			"Duplicate resource instance in state", "00000001"},
		"a step that is none": {resource(`{"sensitive_attributes":[[{"type":"x"}]]}`),
			"Unsupported path step", `"x"`},
		"paths that are none":      {resource(`{"sensitive_attributes":{}}`), "Error unmarshaling path steps", ""},
		"a dependency on nothing":  {resource(`{"dependencies":["x"]}`), "Invalid dependency in state", `"x"`},
		"an output without a type": {v4(`"outputs":{"o":{"value":1}}`), "Invalid output value type in state", `"o"`},
		"an output of other type": {v4(`"outputs":{"o":{"value":"x","type":"number"}}`),
			"Invalid output value saved in state", `"o"`},
		"an endless number": {v4(`"outputs":{"o":{"value":[1e99999999],"type":["list","number"]}}`),
			"Invalid output value saved in state", "digits"},
		"an old negative serial": {`{"version":3,"serial":-1}`, "State format upgrade failed", "less than zero"},
		"an old odd address": {`{"version":3,"modules":[{"path":["root"],"resources":{"a":{}}}]}`,
			"State format upgrade failed", `"a"`},
		"an old template as alias": {
			`{"version":3,"modules":[{"path":["root"],"resources":{"a.b":{"provider":"a.${x}"}}}]}`,
			"State format upgrade failed", "alias"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, diags := Parse([]byte(c.text))
			for _, d := range diags {
				if d.Summary == c.summary && strings.Contains(d.Detail, c.detail) {
					return
				}
			}
			t.Errorf("the problems are %v", diags.Err())
		})
	}
}

func TestAStateCutOffAnywhereIsRefused(t *testing.T) {
	whole := write(t, everything(), Compact)
	for n := 1; n < len(whole)-2; n++ {
		if _, diags := Parse([]byte(whole[:n])); !diags.HasErrors() {
			t.Fatalf("nothing is said at %d", n)
		}
	}
}

func TestOldVersionsAreUpgraded(t *testing.T) {
	const v3 = `{"version":3,"terraform_version":"0.11.14","serial":7,"lineage":"l","modules":[
		{"path":["root"],"outputs":{"list":{"type":"list","value":["a","b"]},"secret":{"sensitive":true,"type":"string","value":"x"}},
		 "resources":{
			"aws_instance.a.1":{"type":"aws_instance","provider":"provider.aws.west","primary":{"id":"i-1","attributes":{"tags.%":"0"},"meta":{"schema_version":"2","x":1},"tainted":true},"deposed":[{"id":"i-0"}]},
			"data.aws_ami.b":{"type":"aws_ami","provider":"","primary":{"id":"ami"}}}},
		{"path":["root","net"],"outputs":{"dropped":{"value":"x"}},"resources":{"terraform_x.c":{"provider":"","primary":{"id":"c"}}}}]}`
	const v1 = `{"version":1,"serial":7,"modules":[{"outputs":{"o":"x"},"resources":{
		"aws_instance.a":{"type":"aws_instance","primary":{"id":"i-1","attributes":{"tags.#":"1","tags.Name":"x","list.#":"1","list.0":"y","none.#":"0"}}}}}]}`
	s := read(t, []byte(v3))
	a := addr.Resource{Mode: addr.Managed, Type: "aws_instance", Name: "a"}.Absolute(addr.RootInstance)
	o := s.Object(a.Instance(addr.IntKey(1)), "")
	if o.Status != state.Tainted || o.SchemaVersion != 2 || string(o.Private) != `{"x":1}` || o.Flatmap["id"] != "i-1" {
		t.Errorf("the object is %+v", o)
	}
	if s.Object(a.Instance(addr.IntKey(1)), "00000001") == nil {
		t.Error("the deposed object is lost")
	}
	if p := s.Resources[a].Provider.String(); p != `provider["registry.opentofu.org/-/aws"].west` {
		t.Errorf("the provider is %s", p)
	}
	net := addr.Resource{Mode: addr.Managed, Type: "terraform_x", Name: "c"}.Absolute(
		addr.RootInstance.Child("net", addr.NoKey))
	if p := s.Resources[net].Provider.String(); p != `module.net.provider["terraform.io/builtin/terraform"]` {
		t.Errorf("the provider is %s", p)
	}
	if v := s.Outputs["list"].Value; !v.RawEquals(cty.ListVal([]cty.Value{cty.StringVal("a"), cty.StringVal("b")})) {
		t.Errorf("the list is %#v", v)
	}
	if len(s.Outputs) != 2 || !s.Outputs["secret"].Sensitive || s.Serial != 7 || s.Lineage != "l" {
		t.Errorf("the state is %+v", s)
	}

	s = read(t, []byte(v1))
	flat := s.Object(a.Instance(addr.NoKey), "").Flatmap
	want := map[string]string{"id": "i-1", "tags.%": "1", "tags.Name": "x", "list.#": "1", "list.0": "y"}
	if fmt.Sprint(flat) != fmt.Sprint(want) {
		t.Errorf("the attributes are %v", flat)
	}
	if v := s.Outputs["o"].Value; !v.RawEquals(cty.StringVal("x")) {
		t.Errorf("the output is %#v", v)
	}
}

func FuzzParse(f *testing.F) {
	s := everything()
	inDoubt(s)
	var b bytes.Buffer
	if err := Write(&b, s, version, Compact); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"version":1,"modules":[{"outputs":{"o":"x"},"resources":{"a.b.0":{"primary":{"id":"i"}}}}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, diags := Parse(src)
		if s == nil || diags.HasErrors() {
			return
		}
		// A state that can be read can be written, and does not change when it is read and written again.
		once := write(t, s, Compact)
		if again := write(t, read(t, []byte(once)), Compact); again != once {
			t.Errorf("differs:\n%s", firstDifference(again, once))
		}
	})
}

var test = addr.ProviderConfig{Provider: addr.DefaultProvider("test")}.Instance(addr.RootInstance, addr.NoKey)

func instance(name string, key addr.Key) addr.Instance {
	return addr.Resource{Mode: addr.Managed, Type: "test_thing", Name: name}.Absolute(addr.RootInstance).Instance(key)
}

// everything returns a state with all fields of the format, except doubts.
func everything() *state.State {
	s := state.Empty()
	s.Lineage, s.Serial, s.EngineVersion = "0f8fad5b-d9cb-469f-a165-70867728950e", 18446744073709551615, version
	mod := addr.RootInstance.Child("m", addr.StringKey("k")).Child("n", addr.IntKey(1))
	west := addr.ProviderInstance{Provider: addr.DefaultProvider("test"), Alias: "west", Key: addr.StringKey("é\"")}
	full := &state.Object{
		Status: state.Tainted, SchemaVersion: 3,
		Attrs:     []byte(`{"big":7227701560655103598123.0625,"empty":{},"html":"\u003c\u0026\u003e","list":[]}`),
		Sensitive: []cty.Path{cty.GetAttrPath("a").IndexString("k<").IndexInt(3), cty.GetAttrPath("b")},
		Private:   []byte{0, 1, 255}, Identity: []byte(`{"id":"x"}`), IdentityVersion: 2,
		Dependencies: state.DependenciesOn(state.DependOn(instance("z", addr.NoKey).Config()),
			state.DependOn(addr.ConfigResource{Module: "m.n", Resource: addr.Resource{Mode: addr.Data,
				Type: "t", Name: "d"}})),
		CreateBeforeDestroy: true, SkipDestroy: true,
	}
	plain := &state.Object{Status: state.Ready, Attrs: []byte(`{}`)}
	s.Apply(
		state.SetObject{Addr: instance("z", addr.NoKey), Provider: test, Object: plain},
		state.SetObject{Addr: instance("a", addr.IntKey(10)), Provider: test, Object: full},
		state.SetObject{Addr: instance("a", addr.IntKey(2)), Provider: test, Object: plain},
		state.SetObject{Addr: instance("a", addr.IntKey(2)), Provider: test, Object: full, Deposed: "ffffffff"},
		state.SetObject{Addr: instance("a", addr.IntKey(2)), Provider: test, Object: plain, Deposed: "00000001"},
		state.SetObject{Addr: addr.Resource{Mode: addr.Data, Type: "t", Name: "d"}.Absolute(mod).Instance(
			addr.StringKey(`"${x}`)), Provider: west, Object: plain},
		state.SetObject{Addr: addr.Resource{Mode: addr.Data, Type: "t", Name: "d"}.Absolute(mod).Instance(
			addr.StringKey("")), Provider: west, Object: plain},
		state.SetObject{Addr: instance("old", addr.NoKey), Provider: test, Object: &state.Object{Status: state.Ready,
			Flatmap: map[string]string{"id": "x", "l.#": "0"}}},
		state.SetOutput{Name: "secret", Output: &state.Output{Value: cty.StringVal("<\u2028é"), Sensitive: true}},
		state.SetOutput{Name: "deprecated",
			Output: &state.Output{Value: cty.MustParseNumberVal("7227701560655103598.125"), Deprecated: "do not"}},
		state.SetOutput{Name: "object",
			Output: &state.Output{Value: cty.ObjectVal(map[string]cty.Value{"l": cty.ListValEmpty(cty.String),
				"n": cty.NullVal(cty.Bool)})}},
		state.SetChecks{Checks: []state.CheckResult{
			{Kind: "check", Config: "check.c", Status: state.CheckFail,
				Objects: []state.CheckObject{{Address: "check.c", Status: state.CheckFail,
					Failures: []string{"<no>"}}}},
			{Kind: "input_variable", Config: "var.x", Status: state.CheckPass},
			{Kind: "output_value", Config: "module.m.output.o", Status: state.CheckUnknown},
			{Kind: "resource", Config: "test_thing.a", Status: state.CheckError,
				Objects: []state.CheckObject{{Address: "test_thing.a[2]", Status: state.CheckError}}},
		}},
	)
	return s
}

// inDoubt adds objects in doubt to everything.
func inDoubt(s *state.State) {
	d := &state.Doubt{
		Run: "r", Attempt: "at", Worker: "w", Pool: "eu", Operation: "update", Started: time.Date(2026, 1, 2, 3, 4,
			5, 6, time.UTC),
		Reason: "the worker <died>", Sent: []byte(`{"a":7227701560655103598123}`), Before: state.Tainted,
	}
	old := *s.Object(instance("a", addr.IntKey(2)), "ffffffff")
	old.Status, old.Doubt = state.InDoubt, d
	s.Apply(
		state.SetObject{Addr: instance("a", addr.IntKey(2)), Deposed: "ffffffff", Provider: test, Object: &old},
		state.SetObject{Addr: instance("new", addr.NoKey), Provider: test, Object: &state.Object{
			Status: state.InDoubt, Doubt: d, Dependencies: old.Dependencies, CreateBeforeDestroy: true,
		}},
	)
}

func read(t *testing.T, src []byte) *state.State {
	t.Helper()
	s, diags := Parse(src)
	if diags.HasErrors() || s == nil {
		t.Fatalf("reading %s: %v", src, diags.Err())
	}
	return s
}

func write(t *testing.T, s *state.State, form Form) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, s, version, form); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func firstDifference(got, want string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	near := func(s string) string { return s[max(0, n-100):min(len(s), n+100)] }
	return fmt.Sprintf("got  …%s…\nwant …%s…", near(got), near(want))
}

func BenchmarkReadAndWriteOf100000(b *testing.B) {
	s := state.Empty()
	for i := range 100000 {
		s.Apply(state.SetObject{Addr: instance("a", addr.IntKey(i)), Provider: test, Object: &state.Object{
			Status: state.Ready, Attrs: fmt.Appendf(nil,
				`{"id":"i-%08d","tags":{"Name":"x","Env":"prod"},"list":[1,2,3],"text":"%0500d"}`, i, i),
		}})
	}
	for name, form := range map[string]Form{"compact": Compact, "indented": Indented} {
		var buf bytes.Buffer
		b.Run("write "+name, func(b *testing.B) {
			for b.Loop() {
				buf.Reset()
				if err := Write(&buf, s, version, form); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(buf.Len()))
		})
		b.Run("read "+name, func(b *testing.B) {
			b.SetBytes(int64(buf.Len()))
			for b.Loop() {
				if _, diags := Parse(buf.Bytes()); diags.HasErrors() {
					b.Fatal(diags.Err())
				}
			}
		})
	}
}
