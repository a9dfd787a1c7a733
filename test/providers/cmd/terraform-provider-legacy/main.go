// Command terraform-provider-legacy serves the test provider legacy over plugin protocol 5.
package main

import (
	"log"
	"os"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/legacy"
)

func main() {
	if err := legacy.Serve(act.ReadEnv(os.Getenv)); err != nil {
		log.Fatal(err)
	}
}
