// Command terraform-provider-unruly serves the test provider unruly over plugin protocol 6.
package main

import (
	"log"
	"os"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/unruly"
)

func main() {
	if err := unruly.Serve(act.ReadEnv(os.Getenv), os.Getenv); err != nil {
		log.Fatal(err)
	}
}
