package operation_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/provider"
	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// captured is a worker of a pool in the hands of somebody else. It answers all questions, with schemas that have no
// attributes, and records them.
type captured struct {
	mu    sync.Mutex // guards asked
	asked []string
}

func (c *captured) questions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func (c *captured) answer(ctx context.Context, pool string, data []byte) ([]byte, error) {
	var packer wire.Packer
	about := wire.CallSubject(pool, wire.ProtocolVersion)
	plain, err := packer.Unpack(ctx, about, data)
	if err != nil {
		return nil, err
	}
	task, err := wire.DecodeTask(plain)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.asked = append(c.asked, task.Address)
	c.mu.Unlock()
	result := &wire.Result{Pool: pool, Schema: &wire.SchemaResult{Schemas: wire.EncodeSchemas(&provider.Schemas{})}}
	return packer.Pack(ctx, about, wire.EncodeResult(result))
}

// capture starts a captured worker of a pool.
func (e *estate) capture(pool string) *captured {
	e.t.Helper()
	conn, c := e.system.Connect("captured "+pool), new(captured)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { // the cleanup waits for it
		served <- conn.Serve(ctx, pool, 8, func(ctx context.Context, data []byte) []byte {
			answer, err := c.answer(ctx, pool, data)
			if err != nil {
				e.t.Error(err)
			}
			return answer
		})
	}()
	e.t.Cleanup(func() {
		stop()
		e.check(errors.Join(<-served, conn.Close()))
	})
	e.check(conn.Beat(ctx, wire.Heartbeat{Worker: "captured", Pools: []string{pool}, Slots: 8,
		Protocol: wire.ProtocolVersion}))
	return c
}

// inPools is an estate with a worker in each of the pools, none of them embedded, and placement rules.
func inPools(t *testing.T, rules string, pools ...string) *estate {
	t.Helper()
	e := &estate{t: t, cloud: newCloud(), store: statemem.New(statemem.Options{}), system: mem.New(mem.Options{})}
	for _, pool := range pools {
		startWorker(t, e.system.Connect("worker "+pool), e.cloud, pool)
	}
	conn := e.system.Connect("coordinator")
	t.Cleanup(func() { e.check(conn.Close()) })
	ring, err := keyring(conn)
	e.check(err)
	parsed, diags := placement.Parse([]byte(rules), placement.FileName)
	e.clean(diags)
	e.session = operation.Session{
		Workspace: "default", EngineVersion: "1.12.6", Hub: hub.New(conn, "c"), Keyring: ring, Store: e.store,
		Package: func(p addr.Provider) wire.Package {
			return wire.Package{Source: p.String(), Version: "1.0.0", Hashes: []string{"h1:x"}}
		},
		WorkerWait: 10 * time.Second, Parallelism: 10, Cwd: "/", Now: time.Now, NewID: rand.Text, Rules: parsed,
		Places: new(operation.Places),
	}
	e.again()
	return e
}

const ofUs = `
pool "us" { resource_types = ["fake_*"] }
`

const passwords = `
variable "password" { default = "hunter2" }
provider "fake" {}
resource "fake_thing" "a" { name = var.password }
`

// Where no worker served the pool "default", any live pool was asked for the schemas, the validations and the functions
// of a provider: a captured worker of another region got its credentials and passwords, and its answer about which
// attributes are sensitive was stored for all later runs.
func TestAProviderIsAskedOnlyInThePoolsOfItsObjects(t *testing.T) {
	e := inPools(t, ofUs, "us")
	eu := e.capture("eu")
	e.configure(passwords)
	e.clean(e.session.Validate(t.Context()))
	e.apply(passwords)
	e.configure("") // the object is in the state alone
	e.session.Prior = e.state()
	e.plan(plan.Options{})
	e.equal("questions to the other pool", eu.questions(), nil)
}

func TestAQuestionWaitsForItsPoolAndNamesIt(t *testing.T) {
	for _, c := range []struct{ rules, pool string }{
		{ofUs, "us"}, {``, "default"}, {`schemas = "home"`, "default"},
	} {
		e := inPools(t, c.rules)
		eu := e.capture("eu")
		e.session.WorkerWait = 10 * time.Millisecond
		e.configure(passwords)
		diags := e.session.Validate(t.Context())
		if !says(diags, `No live worker serves the pool "`+c.pool+`"`) {
			t.Errorf("with %q: %v", c.rules, diags.Err())
		}
		e.equal("questions to the other pool", eu.questions(), nil)
	}
}

func TestAProviderWithoutPlacedObjectsIsAskedInThePoolThatTheOperatorNames(t *testing.T) {
	e := inPools(t, `schemas = "home"`, "home")
	eu := e.capture("eu")
	e.configure(`
terraform {
  required_providers {
    fake = { source = "hashicorp/fake" }
  }
}
`)
	if _, diags := e.session.Schemas(t.Context(), nil); diags.HasErrors() {
		t.Error(diags.Err())
	}
	e.equal("questions to the other pool", eu.questions(), nil)
}

// A captured pool that has objects of a provider itself may be asked about it. It removed "sensitive" from the schema,
// and its answer held for the objects of all pools, as long as the store existed.
func TestPoolsThatDisagreeAboutASchemaAreBothNamed(t *testing.T) {
	e := inPools(t, `
pool "eu" { modules = ["module.child"] }
pool "us" { resource_types = ["fake_*"] }
`, "us")
	e.capture("eu")
	e.configure(passwords+`module "child" { source = "./child" }`, `resource "fake_thing" "b" { name = "b" }`)
	for range 2 { // the second time, nothing wrong is stored
		_, diags := e.session.Schemas(t.Context(), nil)
		if !says(diags, `"eu"`) || !says(diags, `"us"`) || !says(diags, "providers schema -json -refresh") {
			t.Errorf("the answer is %v", diags.Err())
		}
	}
}

// A schema that one pool has given was used for the objects of every other pool.
func TestAStoredSchemaOfOnePoolIsNotBelievedForAnother(t *testing.T) {
	e := inPools(t, `pool "eu" { resource_types = ["fake_*"] }`)
	eu := e.capture("eu")
	e.configure(passwords)
	if _, diags := e.session.Schemas(t.Context(), nil); diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	asked := len(eu.questions())
	if _, diags := e.session.Schemas(t.Context(), nil); diags.HasErrors() || len(eu.questions()) != asked {
		t.Errorf("the answer was not stored: %v, %v", eu.questions(), diags.Err())
	}
	startWorker(t, e.system.Connect("worker us"), e.cloud, "us")
	e.session.Rules, _ = placement.Parse([]byte(ofUs), placement.FileName)
	e.session.Places = new(operation.Places)
	e.apply(passwords)

	fake := addr.DefaultProvider("fake")
	e.session.Rules, _ = placement.Parse([]byte(`pool "eu" { resource_types = ["fake_*"] }`), placement.FileName)
	e.session.Places = new(operation.Places)
	e.session.Prior = nil
	before := len(eu.questions())
	e.check(e.session.ForgetSchemas(t.Context(), fake))
	if _, diags := e.session.Schemas(t.Context(), nil); diags.HasErrors() || len(eu.questions()) == before {
		t.Errorf("the stored answer was used although it was to be asked for again: %v", diags.Err())
	}
}
