package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// shape is a family of configurations that differ only in size.
type shape struct {
	name  string
	about string
	// usual is the default size.
	usual int
	// plugins is set if the configuration needs the test providers.
	plugins bool
	// files returns the configuration of size n by file name; it is deterministic.
	files func(n int) map[string]string
	// vertices returns the number of resource instances.
	vertices func(n int) int
	// work returns the duration of the simulated operations of an apply: along the longest path, and in total. Nil
	// for shapes whose operations take no time.
	work func(n int) (critical, total time.Duration)
	// measure is set for shapes without a life cycle.
	measure func(ctx context.Context, b *bench, n int) error
}

// shapes are all shapes, by name.
var shapes = []shape{
	{name: "empty", about: "no blocks", files: one(func(int) string { return "" }), vertices: times(0)},
	{name: "small", about: "n resource blocks, one by default: the minimum time of commands", usual: 1, files: one(blocks),
		vertices: times(1)},
	{name: "wide", about: "one resource with count = n", usual: 10_000, files: one(wide), vertices: times(1)},
	{name: "blocks", about: "n resource blocks without references", usual: 2_000, files: one(blocks), vertices: times(1)},
	{name: "layers", about: "n resource blocks in layers of 100, each block with two references to the layer before",
		usual: 2_000, files: one(layers), vertices: times(1)},
	{name: "chain", about: "n resource blocks, each of which refers to the one before", usual: 1_000, files: one(chain),
		vertices: times(1)},
	{name: "modules", about: "n calls of a small module, in chains of ten", usual: 1_000, files: modules,
		vertices: times(2)},
	{name: "index", about: "two resources with count = n; each instance of one refers to one of the other by index",
		usual: 2_000, files: one(index), vertices: times(2)},
	{name: "sleep", about: "n objects of a plugin in layers of 20; a creation takes 100 to 500 ms", usual: 300,
		plugins: true, files: one(sleep), vertices: times(1), work: sleepWork},
	{name: "regions", about: "n operations in each of two pools, with one slot and with ten", usual: 50, plugins: true,
		files: one(regions), vertices: times(2), measure: measureRegions},
	{name: "workers", about: "n operations with one, two, four and eight workers", usual: 200, plugins: true,
		files: one(slow), vertices: times(1), measure: measureWorkers},
	{name: "plugin", about: "one resource of a plugin with count = n, whose operations take no time", usual: 1_000,
		plugins: true, files: one(pluginWide), vertices: times(1)},
	{name: "changed", about: "n objects of a plugin, of which ten change; plans that read all or few", usual: 10_000,
		plugins: true, files: one(mostlyKept), vertices: times(1), measure: measureChanged},
}

// shapeOf returns the shape with a name.
func shapeOf(name string) (shape, error) {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		if s.name == name {
			return s, nil
		}
		names[i] = s.name
	}
	return shape{}, fmt.Errorf("there is no shape %q; choose one of %s", name, strings.Join(names, ", "))
}

func one(text func(n int) string) func(int) map[string]string {
	return func(n int) map[string]string { return map[string]string{"main.tf": text(n)} }
}

func times(k int) func(int) int { return func(n int) int { return k * n } }

func wide(n int) string {
	return fmt.Sprintf("resource \"terraform_data\" \"a\" {\n  count = %d\n  input = \"v${count.index}\"\n}\n", n)
}

func blocks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "resource \"terraform_data\" \"r%d\" {\n  input = \"v%d\"\n}\n\n", i, i)
	}
	return b.String()
}

// layerWidth is the number of resources in a layer of the layers shape.
const layerWidth = 100

func layers(n int) string {
	chance := rand.New(rand.NewPCG(1, uint64(n)))
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "resource \"terraform_data\" \"r%d\" {\n", i)
		if first := i/layerWidth*layerWidth - layerWidth; first < 0 {
			fmt.Fprintf(&b, "  input = \"v%d\"\n", i)
		} else {
			fmt.Fprintf(&b, "  input = [terraform_data.r%d.id, terraform_data.r%d.id]\n", first+chance.IntN(layerWidth),
				first+chance.IntN(layerWidth))
		}
		b.WriteString("}\n\n")
	}
	return b.String()
}

func chain(n int) string {
	var b strings.Builder
	b.WriteString("resource \"terraform_data\" \"r0\" {\n  input = \"v\"\n}\n\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "resource \"terraform_data\" \"r%d\" {\n  input = terraform_data.r%d.id\n}\n\n", i, i-1)
	}
	return b.String()
}

func modules(n int) map[string]string {
	const child = `variable "name" {
  type = string
}

locals {
  label = "label-${var.name}"
}

resource "terraform_data" "first" {
  input = local.label
}

resource "terraform_data" "second" {
  input = terraform_data.first.id
}

output "id" {
  value = terraform_data.second.id
}
`
	var b strings.Builder
	for i := range n {
		name := fmt.Sprintf("\"v%d\"", i)
		if i%10 > 0 {
			name = fmt.Sprintf("module.m%d.id", i-1)
		}
		fmt.Fprintf(&b, "module \"m%d\" {\n  source = \"./child\"\n  name   = %s\n}\n\n", i, name)
	}
	return map[string]string{"main.tf": b.String(), "child/main.tf": child}
}

func index(n int) string {
	return fmt.Sprintf(`resource "terraform_data" "volume" {
  count = %d
  input = "v${count.index}"
}

resource "terraform_data" "attachment" {
  count = %d
  input = terraform_data.volume[count.index].id
}
`, n, n)
}

// simulated is an object in the sleep shape.
type simulated struct {
	after   []int
	creates time.Duration
}

// sleepWidth is the number of objects in a layer of the sleep shape: twice the usual parallelism.
const sleepWidth = 20

// simulate generates the objects of the sleep shape.
func simulate(n int) []simulated {
	chance := rand.New(rand.NewPCG(2, uint64(n)))
	list := make([]simulated, n)
	for i := range list {
		list[i].creates = time.Duration(100+chance.IntN(401)) * time.Millisecond
		if first := i/sleepWidth*sleepWidth - sleepWidth; first >= 0 {
			list[i].after = []int{first + chance.IntN(sleepWidth), first + chance.IntN(sleepWidth)}
		}
	}
	return list
}

const (
	fleet = "terraform {\n  required_providers {\n    fleet = { source = \"millipede/fleet\" }\n  }\n}\n\n"
	bulk  = "terraform {\n  required_providers {\n    bulk = { source = \"millipede/bulk\" }\n  }\n}\n\n"
)

func sleep(n int) string {
	var b strings.Builder
	b.WriteString(fleet)
	for i, s := range simulate(n) {
		fmt.Fprintf(&b, "resource \"fleet_machine\" \"m%d\" {\n  name      = \"m%d\"\n  create_ms = %d\n", i, i,
			s.creates.Milliseconds())
		if s.after != nil {
			fmt.Fprintf(&b, "  labels = { a = fleet_machine.m%d.id, b = fleet_machine.m%d.id }\n",
				s.after[0], s.after[1])
		}
		b.WriteString("}\n\n")
	}
	return b.String()
}

func sleepWork(n int) (critical, total time.Duration) {
	list := simulate(n)
	ends := make([]time.Duration, n)
	for i, s := range list {
		for _, before := range s.after {
			ends[i] = max(ends[i], ends[before])
		}
		ends[i] += s.creates
		total += s.creates
		critical = max(critical, ends[i])
	}
	return critical, total
}

func pluginWide(n int) string {
	return fleet + fmt.Sprintf("resource \"fleet_machine\" \"m\" {\n  count = %d\n  name  = \"m-${count.index}\"\n}\n",
		n)
}
