// Command terraform-provider-bulk serves the test provider bulk over plugin protocol 6.
package main

import (
	"log"
	"os"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/bulk"
)

func main() {
	if err := bulk.Serve(act.ReadEnv(os.Getenv)); err != nil {
		log.Fatal(err)
	}
}
