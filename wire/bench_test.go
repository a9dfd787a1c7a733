package wire_test

import (
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/wire"
)

// BenchmarkBothWays is the budget of architecture.md: encoding and decoding a small task and its result, 3 µs.
func BenchmarkBothWays(b *testing.B) {
	config := make([]byte, 120)
	task := &wire.Task{
		Run: "01J0000000000000", Attempt: "01J0000000000001", Address: "test_thing.a[17]",
		Provider: wire.Provider{Package: wire.Package{Source: "registry.opentofu.org/hashicorp/time", Version: "0.14.2",
			Hashes: []string{"h1:0123456789abcdef0123456789abcdef"}}, Digest: "0123456789abcdef"},
		Apply: &wire.ApplyTask{Type: "test_thing", Action: plan.Create, Planned: config, Config: config},
	}
	result := &wire.Result{
		Attempt: "01J0000000000001", Nonce: "0123456789abcdef", Worker: "w1", Pool: "default", Started: time.Now(),
		Ended: time.Now(),
		Apply: &wire.ApplyResult{Object: config},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeTask(wire.EncodeTask(task)); err != nil {
			b.Fatal(err)
		}
		if _, err := wire.DecodeResult(wire.EncodeResult(result)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTask(b *testing.B) {
	task := &wire.Task{
		Run: "01J0000000000000", Attempt: "01J0000000000001", Address: "test_thing.a[17]",
		Provider: wire.Provider{Package: wire.Package{Source: "registry.opentofu.org/hashicorp/time",
			Version: "0.14.2"}, Digest: "0123456789abcdef"},
		Plan: &wire.PlanTask{Type: "test_thing", Config: make([]byte, 120)},
	}
	data := wire.EncodeTask(task)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wire.EncodeTask(task)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := wire.DecodeTask(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkValue(b *testing.B) {
	ty := cty.Object(map[string]cty.Type{"id": cty.String, "name": cty.String, "tags": cty.Map(cty.String),
		"n": cty.Number})
	v := cty.ObjectVal(map[string]cty.Value{"id": cty.UnknownVal(cty.String).RefineNotNull(),
		"name": cty.StringVal("n"), "n": cty.NumberIntVal(4),
		"tags": cty.MapVal(map[string]cty.Value{"a": cty.StringVal("b")})})
	b.ReportAllocs()
	for b.Loop() {
		data, err := coding.EncodeValue(v, ty)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := coding.DecodeValue(data, ty); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	s := sealer(b, 1)
	data, about := make([]byte, 500), []byte("task.default.coordinator.run.attempt")
	b.ReportAllocs()
	for b.Loop() {
		sealed, err := s.Seal(nil, data, about)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Open(sealed, about); err != nil {
			b.Fatal(err)
		}
	}
}
