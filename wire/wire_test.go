package wire_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// filled returns a value of the type with every field set, so that the test notices a field that is not transmitted.
func filled(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(filled(t.Elem(), depth-1))
		}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 123_456_789)))
			return v
		}
		for i := range t.NumField() {
			v.Field(i).Set(filled(t.Field(i).Type, depth))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 2, 2))
		for i := range 2 {
			v.Index(i).Set(filled(t.Elem(), depth))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(filled(t.Key(), depth), filled(t.Elem(), depth))
	case reflect.String:
		v.SetString("text ü")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(7)
	default:
		v.SetInt(-70_000_000 % (1 << (8*t.Size() - 1)))
	}
	return v
}

// tasks returns a task for each operation, with every field filled.
func tasks() map[string]*wire.Task {
	out := map[string]*wire.Task{}
	ty := reflect.TypeFor[wire.Task]()
	for i := range ty.NumField() {
		f := ty.Field(i)
		if f.Type.Kind() != reflect.Pointer || f.Name == "Environment" { // which is no operation
			continue
		}
		t := filled(ty, 0).Interface().(wire.Task)
		t.Protocol = wire.ProtocolVersion
		reflect.ValueOf(&t).Elem().Field(i).Set(filled(f.Type, 4))
		out[f.Name] = &t
	}
	return out
}

func TestEveryFieldOfATaskTravels(t *testing.T) {
	for name, want := range tasks() {
		got, err := wire.DecodeTask(wire.EncodeTask(want))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestEveryFieldOfAResultTravels(t *testing.T) {
	want := filled(reflect.TypeFor[wire.Result](), 4).Interface().(wire.Result)
	want.Protocol = wire.ProtocolVersion
	got, err := wire.DecodeResult(wire.EncodeResult(&want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryFieldOfTheSmallMessagesTravels(t *testing.T) {
	check := func(name string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	claim := filled(reflect.TypeFor[wire.Claim](), 1).Interface().(wire.Claim)
	gotClaim, err := wire.DecodeClaim(wire.EncodeClaim(claim))
	check("claim", claim, gotClaim, err)
	request := filled(reflect.TypeFor[wire.PermitRequest](), 1).Interface().(wire.PermitRequest)
	gotRequest, err := wire.DecodePermitRequest(wire.EncodePermitRequest(request))
	check("request", request, gotRequest, err)
	offer := filled(reflect.TypeFor[wire.PermitOffer](), 1).Interface().(wire.PermitOffer)
	gotOffer, err := wire.DecodePermitOffer(wire.EncodePermitOffer(offer))
	check("offer", offer, gotOffer, err)
	beat := filled(reflect.TypeFor[wire.Heartbeat](), 1).Interface().(wire.Heartbeat)
	gotBeat, err := wire.DecodeHeartbeat(wire.EncodeHeartbeat(beat))
	check("heartbeat", beat, gotBeat, err)
	control := filled(reflect.TypeFor[wire.Control](), 1).Interface().(wire.Control)
	gotControl, err := wire.DecodeControl(wire.EncodeControl(control))
	check("control", control, gotControl, err)
	event := filled(reflect.TypeFor[wire.Event](), 1).Interface().(wire.Event)
	gotEvent, err := wire.DecodeEvent(wire.EncodeEvent(event))
	check("event", event, gotEvent, err)
}

func TestNothingSetStaysNothing(t *testing.T) {
	got, err := wire.DecodeResult(wire.EncodeResult(&wire.Result{}))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Started.IsZero() || got.Plan != nil || got.Value != nil || got.Diagnostics != nil {
		t.Errorf("got %+v", got)
	}
}

// positional writes a struct as messages are written.
func positional(t *testing.T, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseArrayEncodedStructs(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestAPeerOfAnotherVersionIsRefusedClearly(t *testing.T) {
	for _, peer := range []int{0, 1, wire.ProtocolVersion - 1, wire.ProtocolVersion + 1, 200, 40_000} {
		data := positional(t, &struct {
			Version int
			Strange map[string]bool
		}{peer, map[string]bool{"of another shape": true}})
		_, err := wire.DecodeTask(data)
		var version *wire.VersionError
		if !errors.As(err, &version) || version.Peer != peer || version.Own != wire.Spoken() {
			t.Errorf("version %d: %v", peer, err)
		}
		// The results of one version before are read.
		if _, err = wire.DecodeResult(data); errors.As(err, &version) == (peer == wire.LowestVersion-1) {
			t.Errorf("version %d: %v", peer, err)
		}
	}
}

func TestATaskNeedsExactlyOneOperation(t *testing.T) {
	if _, err := wire.DecodeTask(positional(t, &wire.Task{Protocol: wire.ProtocolVersion})); err == nil {
		t.Error("a task without an operation was accepted")
	}
	two := &wire.Task{Protocol: wire.ProtocolVersion, Read: &wire.ReadDataTask{}, Schema: &wire.SchemaTask{}}
	if _, err := wire.DecodeTask(positional(t, two)); err == nil {
		t.Error("a task with two operations was accepted")
	}
	defer func() {
		if recover() == nil {
			t.Error("a task with two operations was encoded")
		}
	}()
	wire.EncodeTask(two)
}

func TestBrokenMessagesAreRefused(t *testing.T) {
	whole := wire.EncodeTask(tasks()["Plan"])
	for n := range whole {
		if _, err := wire.DecodeTask(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were accepted", n, len(whole))
		}
	}
	if _, err := wire.DecodeTask(append(bytes.Clone(whole), 0)); err == nil {
		t.Error("a message with an additional byte was accepted")
	}
	claims := "\x92\x01\xdf\xff\xff\xff\xff" // a map of four billion entries, which are not there
	if _, err := wire.DecodeTask([]byte(claims)); err == nil {
		t.Error("a length beyond the message was accepted")
	}
	deep := append([]byte("\x92\x01"), bytes.Repeat([]byte{0x91}, 100_000)...)
	if _, err := wire.DecodeTask(append(deep, 0xc0)); err == nil {
		t.Error("a hundred thousand nested arrays were accepted")
	}
}

func TestTokensAreReversibleAndSafe(t *testing.T) {
	for _, name := range []string{"", "=", "eu-west_1", "a.b", "*", ">", " ", "a b\tc", "ü", "\x00\xff", "=3D",
		"provider/aws[\"x\"]"} {
		token := wire.Token(name)
		if token == "" || strings.ContainsAny(token, " \t\r\n\f.*>\\/") {
			t.Errorf("%q became the token %q", name, token)
		}
		if got, err := wire.Untoken(token); err != nil || got != name {
			t.Errorf("%q became %q and then %q, %v", name, token, got, err)
		}
	}
	for _, token := range []string{"", "a.b", "=3", "=zz", "=3d", "=41", "a=", "ü"} {
		if name, err := wire.Untoken(token); err == nil {
			t.Errorf("%q was read as %q", token, name)
		}
	}
}

func TestSubjectsCarryTheirNames(t *testing.T) {
	ref := wire.TaskRef{Pool: "eu.west 1", Coordinator: "c>", Run: "", Attempt: "a*"}
	for _, subject := range []string{wire.TaskSubject(ref), wire.ResultSubject(ref)} {
		if got, err := wire.ParseRef(subject); err != nil || got != ref {
			t.Errorf("%s was read as %+v, %v", subject, got, err)
		}
	}
	limit, coordinator, id, err := wire.ParseAdmit(wire.AdmitSubject("a limit",
		wire.PermitRequest{Coordinator: "c.d", ID: "i"}))
	if limit != "a limit" || coordinator != "c.d" || id != "i" || err != nil {
		t.Errorf("got %q, %q, %q, %v", limit, coordinator, id, err)
	}
	for _, subject := range []string{"", "task.a.b.c", "claim.a.b.c.d", "task.a.b.c.d.e", "task.a.b.c.=1"} {
		if _, err := wire.ParseRef(subject); err == nil {
			t.Errorf("%q was accepted", subject)
		}
	}
}

func TestDiagnosticsTravel(t *testing.T) {
	list := diag.List{
		{Severity: diag.Error, Summary: "Broken", Detail: "Very.", Path: cty.GetAttrPath("a").IndexInt(1)},
		{Severity: diag.Warning, Summary: "Odd", Extra: &provider.Lost{Reason: "it exited"}},
		{Severity: diag.Error, Summary: "Gone", Extra: &provider.Lost{}},
		{Severity: diag.Error, Summary: "Beneath a key that cannot travel",
			Path: cty.GetAttrPath("a").Index(cty.StringVal("x").Mark("m")).GetAttr("b")},
	}
	got := wire.DiagsFromWire(wire.DiagsToWire(list))
	if len(got) != len(list) {
		t.Fatalf("%d travelled", len(got))
	}
	for i, d := range got {
		if d.Severity != list[i].Severity || d.Summary != list[i].Summary || d.Detail != list[i].Detail {
			t.Errorf("%+v became %+v", list[i], d)
		}
	}
	if !got[0].Path.Equals(list[0].Path) || !got[3].Path.Equals(cty.GetAttrPath("a")) {
		t.Errorf("the paths are %#v and %#v", got[0].Path, got[3].Path)
	}
	if lost, ok := got[1].Extra.(*provider.Lost); !ok || lost.Reason != "it exited" {
		t.Errorf("the extra is %#v", got[1].Extra)
	}
	if _, ok := got[2].Extra.(*provider.Lost); !ok {
		t.Error("a loss without a reason was not transmitted")
	}
	if wire.DiagsFromWire(nil) != nil || wire.DiagsToWire(nil) != nil {
		t.Error("an empty list of diagnostics was decoded as a list with elements")
	}
}

// noise returns n bytes that do not compress.
func noise(n int) []byte {
	data := make([]byte, n)
	source(1).Read(data) // it never fails
	return data
}

func source(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }
