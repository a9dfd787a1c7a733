package change

import (
	"context"
	"testing"

	"github.com/millipede-iac/millipede/wire"
)

// The cost of a no-op plan on the worker, without that of the provider.
func BenchmarkPlanOfAnUnchangedObject(b *testing.B) {
	f := newFake()
	task := &wire.PlanTask{
		Type: "test_thing", Refresh: true, Config: enc(obj("name", "a")),
		Prior: &wire.StoredObject{SchemaVersion: 3,
			Attrs: []byte(`{"id":"i-1","name":"a","size":"big","secret":null,"once":null,"tags":null}`)},
	}
	for b.Loop() {
		f.calls = f.calls[:0]
		got, diags := Plan(context.Background(), f.host(), task)
		if diags.HasErrors() || got.Action != "no-op" {
			b.Fatal(diags.Err(), got.Action)
		}
	}
}
