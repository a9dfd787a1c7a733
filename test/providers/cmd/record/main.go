// Command record prints a summary of the record of the test providers, as a JSON object.
//
// The object is record.Summary. Flags choose the calls that it is about.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/millipede-iac/millipede/test/providers/record"
)

func main() {
	log.SetFlags(0)
	var filters []record.Filter
	for _, f := range []struct {
		name, usage string
		filter      func(...string) record.Filter
	}{
		{"types", "only these resource types, with commas between", record.Types},
		{"names", "only objects of these names", record.Names},
		{"pools", "only calls in these pools", record.Pools},
		{"providers", "only calls of these providers", record.Providers},
		{"ops", "only these operations", func(ops ...string) record.Filter {
			var all []record.Op
			for _, op := range ops {
				all = append(all, record.Op(op))
			}
			return record.Ops(all...)
		}},
	} {
		flag.Func(f.name, f.usage, func(list string) error {
			filters = append(filters, f.filter(strings.Split(list, ",")...))
			return nil
		})
	}
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: record [flags] FILE")
	}
	r, err := record.ReadFile(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.MarshalIndent(r.Summarize(filters...), "", "  ")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := fmt.Fprintln(os.Stdout, string(text)); err != nil {
		log.Fatal(err)
	}
}
