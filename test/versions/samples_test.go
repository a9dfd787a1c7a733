// Package versions has what each released version of Millipede has sent and stored, and reads it with this one.
//
// testdata/versions has a directory for each version. Record makes a new one; the test does that when it is asked to:
//
//	go test ./test/versions -record=0.2.0
//
// The samples never change: a new message, or a new field, gets a new sample beside them.
package versions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	statejournal "github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/seal"
	"github.com/millipede-iac/millipede/wire"
	workerjournal "github.com/millipede-iac/millipede/worker/journal"
)

// noon is the time of all samples.
var noon = time.Date(2026, 11, 28, 12, 0, 0, 7, time.UTC)

// secret is the key of the samples that are sealed.
var secret = []byte("a key that is in the open source")

// A message is a sample of a message, with its codec.
type message struct {
	name   string
	sample any
	encode func() []byte
	decode func([]byte) (any, error)
}

// of makes a message from the functions of a type.
func of[T any](name string, sample T, encode func(T) []byte, decode func([]byte) (T, error)) message {
	return message{name, sample, func() []byte { return encode(sample) },
		func(data []byte) (any, error) { return decode(data) }}
}

// coded makes a message of the type's codec alone.
func coded[T any](name string, sample T) message {
	return of(name, sample, func(v T) []byte { return coding.Marshal(&v) }, func(data []byte) (T, error) {
		var v T
		err := coding.Unmarshal(data, 16, &v)
		return v, err
	})
}

// task, result and heartbeat hide the version of a message: it is that of the recording program.
func task(t *wire.Task, err error) (wire.Task, error) {
	if err != nil {
		return wire.Task{}, err
	}
	t.Protocol = 0
	return *t, nil
}

func result(r *wire.Result, err error) (wire.Result, error) {
	if err != nil {
		return wire.Result{}, err
	}
	r.Protocol = 0
	return *r, nil
}

func heartbeat(data []byte) (wire.Heartbeat, error) {
	h, err := wire.DecodeHeartbeat(data)
	h.Protocol, h.Lowest = 6, 6
	return h, err
}

func sampleTask(name string, t wire.Task) message {
	t.Run, t.Attempt, t.Address = "run-1", "attempt-1", "test_thing.a[0]"
	t.Provider = wire.Provider{Package: wire.Package{Source: "example.com/acme/test", Version: "1.2.3",
		Hashes: []string{"h1:x"}}, Address: "provider.test", Config: []byte{0x80}, Digest: "d", Dir: "/work"}
	t.Worker, t.More = "w1", true
	t.Environment = &wire.Environment{Run: "run-1", Sealed: "sealed"}
	return of("task-"+name, t, func(t wire.Task) []byte { return wire.EncodeTask(&t) },
		func(data []byte) (wire.Task, error) { return task(wire.DecodeTask(data)) })
}

func sampleResult(name string, r wire.Result) message {
	r.Attempt, r.Nonce, r.Worker, r.Pool = "attempt-1", "nonce", "w1", "eu"
	r.Started, r.Ended = noon.Local(), noon.Add(time.Second).Local()
	return of("result-"+name, r, func(r wire.Result) []byte { return wire.EncodeResult(&r) },
		func(data []byte) (wire.Result, error) { return result(wire.DecodeResult(data)) })
}

// messages are the samples of all messages: between coordinators and workers, and between a service and its engines.
func messages() []message {
	stored := &wire.StoredObject{SchemaVersion: 2, Attrs: []byte(`{"id":"i-1"}`), Private: []byte("p"), Tainted: true}
	list := []message{
		sampleTask("schema", wire.Task{Schema: &wire.SchemaTask{Managed: []string{"test_thing"}, All: true}}),
		sampleTask("validate", wire.Task{Validate: &wire.ValidateTask{Kind: "managed", Type: "test_thing",
			Config: []byte{0x80}}}),
		sampleTask("plan", wire.Task{Plan: &wire.PlanTask{Type: "test_thing", Prior: stored, Refresh: true,
			Config: []byte{0x80}, IgnorePaths: [][]byte{{1}}, Sensitive: [][]byte{{2}}, Replace: "requested",
			IfChanged: true}}),
		sampleTask("read", wire.Task{Read: &wire.ReadDataTask{Type: "test_data", Config: []byte{0x80}}}),
		sampleTask("apply", wire.Task{Apply: &wire.ApplyTask{Type: "test_thing", Action: plan.Update,
			Prior: []byte{0x80}, Planned: []byte{0x81, 0xa1, 'a', 1}, Config: []byte{0x80}, Stored: stored,
			Settled: true}}),
		sampleTask("import", wire.Task{Import: &wire.ImportTask{Type: "test_thing", ID: "i-1"}}),
		sampleTask("ephemeral", wire.Task{Ephemeral: &wire.EphemeralTask{Op: "open", Type: "test_secret"}}),
		sampleTask("function", wire.Task{Function: &wire.FunctionTask{Name: "f", Args: [][]byte{{1}, {2}}}}),
		sampleTask("provision", wire.Task{Provision: &wire.ProvisionTask{Dir: "/work", Provisioners: []wire.Provisioner{
			{Type: "file", Config: []byte{0x80}, Continue: true, Files: []wire.File{{Path: "x", Data: []byte("y")}}}}}}),
		sampleResult("plan", wire.Result{Plan: &wire.PlanResult{Prior: []byte{0x80}, Planned: []byte{0x80},
			Action: plan.Update, Reason: "tainted", ReplacePaths: [][]byte{{1}}, SchemaVersion: 2, Unread: true}}),
		sampleResult("apply", wire.Result{Apply: &wire.ApplyResult{Object: []byte{0x80}, Private: []byte("p"),
			SchemaVersion: 2, Tainted: true}}),
		sampleResult("doubt", wire.Result{Doubt: "the plugin died", Answer: &wire.Answer{Known: []byte(`{}`),
			Raw: []byte("raw")}, Diagnostics: []wire.Diagnostic{{Severity: 'E', Summary: "s", Detail: "d", Lost: "l"}}}),
		sampleResult("not-started", wire.Result{NotStarted: true}),
		of("claim", wire.Claim{Nonce: "n", Worker: "w1", At: noon.Local(), Tombstone: true, Reason: "r"}, wire.EncodeClaim,
			wire.DecodeClaim),
		of("permit-request", wire.PermitRequest{ID: "p", Coordinator: "c", Run: "run-1", At: noon.Local()},
			wire.EncodePermitRequest, wire.DecodePermitRequest),
		of("permit-offer", wire.PermitOffer{Limit: "default", Request: wire.PermitRequest{ID: "p", At: noon.Local()},
			Ack: "$JS.ACK.x"}, wire.EncodePermitOffer, wire.DecodePermitOffer),
		of("heartbeat", wire.Heartbeat{Worker: "w1", Pools: []string{"eu"}, Slots: 4, Running: 1, Version: "0.1.0",
			Protocol: 6, Platform: "linux_amd64", Draining: true, Trouble: "full", PublicKey: "X", Host: "h",
			Attempts: []wire.AttemptID{"attempt-1"}, Lowest: 6}, wire.EncodeHeartbeat, heartbeat),
		of("control", wire.Control{Kind: "warm", Providers: []wire.Provider{{Address: "provider.test"}}},
			wire.EncodeControl, wire.DecodeControl),
		of("event", wire.Event{Address: "test_thing.a", Attempt: "attempt-1", Worker: "w1", Kind: "output", Text: "x"},
			wire.EncodeEvent, wire.DecodeEvent),
		coded("variables", wire.Variables{Whole: true, Entries: []string{"A=b"}}),
		coded("sealed-key", wire.SealedKey{Recipient: "X", Sealed: []byte("s")}),
	}
	return append(list, schemasMessage(), envelopeMessage(),
		coded("engine-hello", protocol.Hello{Lowest: 1, Highest: 1, Seat: 3, Epoch: 7, Setup: []byte("{}")}),
		coded("engine-call", protocol.ToEngine{Call: &protocol.Call{Number: 5, Kind: protocol.Apply,
			Job: &protocol.Job{Run: []byte("{}"), Workspace: []byte("{}"), Scratch: "s", Environment: []string{"A=b"},
				Plan: []byte("p"), Resumed: true, Configured: true}}, Stop: &protocol.Stop{Suspended: true}}),
		coded("engine-answer", protocol.ToService{Log: []byte("line\n"), Waits: &protocol.Waits{Run: "run-2", Text: "t"},
			Answer: &protocol.Answer{Failure: &protocol.Failure{Text: "no", Is: []string{"stopped"}}}}))
}

func schemasMessage() message {
	block := &schema.Block{Attributes: map[string]*schema.Attribute{"id": {Type: cty.String, Computed: true}}}
	sample := &provider.Schemas{ProtocolVersion: 6, Managed: map[string]schema.Schema{"test_thing": {Version: 2,
		Block: block}}, Functions: map[string]provider.Function{"f": {Return: cty.Number}}}
	return of("schemas", sample, wire.EncodeSchemas, wire.DecodeSchemas)
}

// envelopeMessage is a message in an envelope that is not sealed: a seal is new each time.
func envelopeMessage() message {
	text := strings.Repeat("compressed ", 4<<10)
	return of("envelope", text, func(text string) []byte {
		data, err := wire.Packer{}.Pack(context.Background(), "call.eu.6", []byte(text))
		if err != nil {
			panic("versions: " + err.Error())
		}
		return data
	}, func(data []byte) (string, error) {
		got, err := wire.Packer{}.Unpack(context.Background(), "call.eu.6", data)
		return string(got), err
	})
}

// The samples of stores.
var (
	thing      = mustInstance(`module.m.test_thing.a["k"]`)
	thingOwner = addr.ProviderInstance{Provider: addr.DefaultProvider("test")}
	sampleRun  = statejournal.Run{ID: "run-1", Workspace: statejournal.DefaultWorkspace, Coordinator: "c",
		Command: "apply", Started: noon, Status: statejournal.Running, Who: "me@here", Vertices: 2}
	sampleEvents = []statejournal.Event{
		{Kind: statejournal.Want, Vertex: 0, At: noon, Address: thing.String(), Action: "create"},
		{Kind: statejournal.Dispatch, Vertex: 0, At: noon, Address: thing.String(), Attempt: "attempt-1", Pool: "eu",
			Permits: []string{"default/p"}, Waits: []statejournal.Wait{{Kind: statejournal.WaitPlace, Name: "eu",
				For: time.Second}}, Waited: time.Second},
		{Kind: statejournal.Finish, Vertex: 0, At: noon, Address: thing.String(), Attempt: "attempt-1", Worker: "w1",
			Took: time.Minute, Sequence: 9},
	}
	sampleWorkspace = record.Workspace{ID: "ws-1", Organization: "acme", Project: "prj-1", Name: "net",
		ExecutionMode: "remote", TerraformVersion: "1.12.6"}
	sampleFile = "the log of a plan\n"
	sampleRef  = wire.TaskRef{Pool: "eu", Coordinator: "c", Run: "run-1", Attempt: "attempt-1"}
)

func mustInstance(text string) addr.Instance {
	a, diags := addr.ParseInstance(text)
	if diags.HasErrors() {
		panic("versions: " + diags.Err().Error())
	}
	return a
}

func samplePlan() planfile.Saved {
	return planfile.Saved{Engine: "0.1.0", Plan: &plan.Plan{Mode: plan.Normal, EngineVersion: "1.12.6", Timestamp: noon,
		Workspace: "default", BaseLineage: "l", BaseSerial: 3, Prior: state.Empty()},
		Config: planfile.Config{Files: map[string][]byte{"main.tf": []byte("locals {}\n")}, Dir: "."}}
}

func serviceKey() (*seal.Key, error) { return seal.NewKey(secret) }

// Record makes the directory of a version with this program.
func Record(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "messages"), 0o755); err != nil {
		return err
	}
	for _, m := range messages() {
		if err := os.WriteFile(filepath.Join(dir, "messages", m.name), m.encode(), 0o644); err != nil {
			return err
		}
	}
	saved, err := planfile.Encode(samplePlan())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "saved.plan"), saved, 0o644)
	}
	return errors.Join(err, recordState(ctx, filepath.Join(dir, "state.db"), saved), recordService(filepath.Join(dir,
		"service")), recordJournal(filepath.Join(dir, "worker")))
}

func recordState(ctx context.Context, path string, saved []byte) (err error) {
	s, err := bolt.OpenOptions(path, statejournal.LockInfo{}, 0, bolt.Options{Now: func() time.Time { return noon },
		NewID: func() string { return "lineage" }, EngineVersion: "1.12.6", Program: "0.1.0", Unannounced: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	object := &state.Object{Status: state.Ready, SchemaVersion: 2, Attrs: []byte(`{"id":"i-1"}`), Private: []byte("p"),
		CreateBeforeDestroy: true}
	doubt := &state.Object{Status: state.InDoubt, Doubt: &state.Doubt{Run: "run-1", Attempt: "attempt-2", Worker: "w1",
		Pool: "eu", Operation: "create", Started: noon, Reason: "lost"}}
	return errors.Join(
		s.BeginRun(ctx, "", sampleRun, saved),
		s.Commit(ctx, statejournal.Commit{Workspace: sampleRun.Workspace, Run: sampleRun.ID, Events: sampleEvents,
			Changes: []state.Change{
				state.SetObject{Addr: thing, Provider: thingOwner, Object: object},
				state.SetObject{Addr: mustInstance("test_thing.b"), Provider: thingOwner, Object: doubt},
				state.SetOutput{Name: "o", Output: &state.Output{Value: cty.StringVal("v"), Sensitive: true}},
			}}),
		s.Commit(ctx, statejournal.Commit{Workspace: sampleRun.Workspace, EndVersion: true, Cause: "apply"}),
		s.PutValue(ctx, "durations", "k", []byte("1s")))
}

func recordService(dir string) (err error) {
	key, err := serviceKey()
	if err != nil {
		return err
	}
	s, err := store.OpenOptions(dir, key, store.Options{Program: "0.1.0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = s.Write("states/sv-1", strings.NewReader(sampleFile), 1<<10)
	return errors.Join(err, s.Update(func(tx *store.Tx) error { return tables.Workspaces.Put(tx, &sampleWorkspace) }))
}

func recordJournal(dir string) (err error) {
	j, _, err := workerjournal.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return errors.Join(j.Intend(sampleRef, "nonce", []byte("not started")), j.Start(sampleRef, []byte("in doubt")),
		j.End(sampleRef, []byte("result")))
}

// sum identifies a file in a message of the test.
func sum(data []byte) string {
	s := sha256.Sum256(data)
	return fmt.Sprintf("%d bytes %s", len(data), hex.EncodeToString(s[:4]))
}
