package catalog_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/backend/catalog"
	"github.com/millipede-iac/millipede/lang/arguments"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// toy is a backend that is added by the recipe of ARCHITECTURE.md: a separate package (this function), its line in the
// table (which the test passes). It stores snapshots in rooms, in memory.
func toy(rooms map[string]*backend.Memory) *backend.Kind {
	return &backend.Kind{
		Name: "toy",
		Schema: &schema.Block{Attributes: map[string]*schema.Attribute{
			"room": {Type: cty.String, Required: true},
		}},
		Env: map[string][]string{"room": {"TOY_ROOM"}},
		Open: func(_ context.Context, _ backend.Place, args arguments.Arguments) (backend.Backend, diag.List) {
			room := rooms[args.String("room")]
			if room == nil {
				return nil, diag.List{args.Problem("room", "No such room", "There are the rooms that were built.")}
			}
			return room, nil
		},
	}
}

func TestABackendIsAddedByTheRecipe(t *testing.T) {
	rooms := map[string]*backend.Memory{}
	place := func(env map[string]string) backend.Place {
		return backend.Place{
			Kinds: append(catalog.All(), toy(rooms)), Env: func(name string) string { return env[name] },
		}
	}
	named := func(room string) cty.Value { return cty.ObjectVal(map[string]cty.Value{"room": cty.StringVal(room)}) }
	t.Run("it passes the suite", func(t *testing.T) {
		of := map[*testing.T]string{}
		backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
			if of[t] == "" { // each test has a room of its own
				of[t] = t.Name()
				rooms[t.Name()] = backend.NewMemory()
			}
			b, diags := place(nil).Open(t.Context(), "toy", named(of[t]))
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			return b
		}})
	})
	t.Run("its arguments come from the environment, too", func(t *testing.T) {
		rooms["attic"] = backend.NewMemory()
		b, diags := place(map[string]string{"TOY_ROOM": "attic"}).Open(t.Context(), "toy", cty.EmptyObjectVal)
		if diags.HasErrors() || b != backend.Backend(rooms["attic"]) {
			t.Errorf("got %v, %v", b, diags.Err())
		}
	})
	for sentence, c := range map[string]struct {
		config cty.Value
		want   string
	}{
		"an argument that is missing is asked for": {cty.EmptyObjectVal, "or in the environment as TOY_ROOM"},
		"an argument that it does not know is refused": {
			cty.ObjectVal(map[string]cty.Value{"rum": cty.StringVal("x")}), "rum"},
		"what it finds wrong itself is told": {named("cellar"), "There are the rooms that were built."},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, diags := place(nil).Open(t.Context(), "toy", c.config)
			if !diags.HasErrors() || !strings.Contains(diags.Err().Error(), c.want) {
				t.Errorf("got %v", diags.Err())
			}
		})
	}
	if _, diags := place(nil).Open(t.Context(), "toys", cty.EmptyObjectVal); !diags.HasErrors() ||
		!strings.Contains(diags.Err().Error(), "toy") {
		t.Errorf("the list of backends does not have the new backend: %v", diags.Err())
	}
}

func TestEachPackageOfABackendIsInTheTable(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("catalog.go")
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]bool{"catalog": true, "backendtest": true, "bucket": true}
	found := 0
	for _, e := range entries {
		if !e.IsDir() || others[e.Name()] {
			continue
		}
		found++
		if !strings.Contains(string(table), `"github.com/millipede-iac/millipede/backend/`+e.Name()+`"`) {
			t.Errorf("backend/%s is not in the table", e.Name())
		}
	}
	if found < 10 {
		t.Errorf("only %d packages of backends were found", found)
	}
}

// Init recorded null for an absent block that may occur several times. OpenTofu records an empty list, took the record
// for one of a different configuration, and asked for a migration.
func TestABlockThatIsNotThereIsRecordedAsOpenTofuDoes(t *testing.T) {
	for kind, block := range map[string]string{"cos": "assume_role", "oss": "assume_role", "kubernetes": "exec"} {
		k, diags := catalog.All().Find(kind)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		args, diags := k.Decode(cty.EmptyObjectVal)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		recorded := k.Recorded(args)
		v := recorded.GetAttr(block)
		if v.IsNull() || v.LengthInt() != 0 {
			t.Errorf("%s of %s is recorded as %#v", block, kind, v)
		}
	}
}
