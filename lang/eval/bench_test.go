package eval

import (
	"fmt"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
)

// instanceType is a schema of a usual size: wide attributes and a few block types.
func instanceType(width int) *schema.Block {
	b := &schema.Block{
		Attributes: map[string]*schema.Attribute{
			"name": optional(cty.String), "cidr": optional(cty.String), "vpc_id": optional(cty.String),
			"size": optional(cty.Number), "tags": optional(cty.Map(cty.String)),
			"id": {Type: cty.String, Computed: true},
		},
		Blocks: map[string]*schema.NestedBlock{
			"disk": {Nesting: schema.NestingList, Block: schema.Block{Attributes: map[string]*schema.Attribute{
				"size": optional(cty.Number), "kind": optional(cty.String),
			}}},
		},
	}
	for i := range width {
		b.Attributes[fmt.Sprintf("extra_%d", i)] = optional(cty.String)
	}
	return b
}

const fiveAttributes = `
name   = "web-${count.index}"
cidr   = "10.0.${count.index}.0/24"
vpc_id = aws_vpc.main.id
size   = var.n
tags   = { Name = var.name, Env = "prod" }
`

// BenchmarkBlock evaluates a block of five attributes for one instance of a resource with count. Budget: 5 µs.
func BenchmarkBlock(b *testing.B) {
	for _, width := range []int{0, 60} {
		b.Run(fmt.Sprintf("schema of %d attributes", width+7), func(b *testing.B) {
			bound := PrepareBody(parseBody(b, fiveAttributes), instanceType(width)).Bind(testScope(sampleData()))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, diags := bound.Eval(countRep(i%250), cty.NilVal); diags.HasErrors() {
					b.Fatal(diags.Err())
				}
				i++
			}
		})
	}
}

// BenchmarkBlockUnshared is BenchmarkBlock for a resource without count: everything is fetched again.
func BenchmarkBlockUnshared(b *testing.B) {
	t := PrepareBody(parseBody(b, fiveAttributes), instanceType(0))
	s := testScope(sampleData())
	b.ReportAllocs()
	for b.Loop() {
		if _, diags := t.Eval(s, countRep(1), cty.NilVal); diags.HasErrors() {
			b.Fatal(diags.Err())
		}
	}
}

// BenchmarkBlockByLibrary is BenchmarkBlock with hcldec alone, for comparison.
func BenchmarkBlockByLibrary(b *testing.B) {
	bound := PrepareBody(parseBody(b, fiveAttributes), instanceType(0)).Bind(testScope(sampleData()))
	b.ReportAllocs()
	for b.Loop() {
		if _, diags := bound.slow(countRep(1), cty.NilVal); diags.HasErrors() {
			b.Fatal(diags.Err())
		}
	}
}

// BenchmarkPrepare measures the work that is done once for each block of a configuration.
func BenchmarkPrepare(b *testing.B) {
	body, block := parseBody(b, fiveAttributes), instanceType(60)
	b.ReportAllocs()
	for b.Loop() {
		PrepareBody(body, block)
	}
}

// BenchmarkDynamicBlocks evaluates three blocks that a dynamic block makes.
func BenchmarkDynamicBlocks(b *testing.B) {
	bound := PrepareBody(parseBody(b, `
name = "web-${count.index}"
dynamic "disk" {
  for_each = [1, 2, count.index]
  content {
    size = disk.value
    kind = "k${disk.key}"
  }
}
`), instanceType(0)).Bind(testScope(sampleData()))
	b.ReportAllocs()
	for b.Loop() {
		if _, diags := bound.Eval(countRep(1), cty.NilVal); diags.HasErrors() {
			b.Fatal(diags.Err())
		}
	}
}

// BenchmarkReferByIndex evaluates n instances that each refer to one of n others by index. The time for one must not
// depend on n.
func BenchmarkReferByIndex(b *testing.B) {
	for _, n := range []int{200, 2000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			volumes := make([]cty.Value, n)
			for i := range volumes {
				volumes[i] = obj("id", fmt.Sprint("vol-", i))
			}
			d := sampleData()
			d.resources["aws_volume.v"] = cty.TupleVal(volumes)
			d.wholes = map[string]int{}
			bound := PrepareBody(parseBody(b, `
name   = aws_volume.v[count.index].id
vpc_id = aws_vpc.main.id
`), instanceType(0)).Bind(testScope(d))
			i := 0
			for b.Loop() {
				v, diags := bound.Eval(countRep(i%n), cty.NilVal)
				if diags.HasErrors() || v.GetAttr("name").AsString() == "" {
					b.Fatal(diags.Err())
				}
				i++
			}
			if d.wholes["aws_volume.v"] > 0 {
				b.Fatal("the whole resource was built")
			}
		})
	}
}
