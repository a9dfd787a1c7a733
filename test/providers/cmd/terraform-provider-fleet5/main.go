// Command terraform-provider-fleet5 serves the test provider fleet over plugin protocol 5, as fleet5.
package main

import (
	"log"
	"os"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/fleet"
)

func main() {
	if err := fleet.Serve5("fleet5", act.ReadEnv(os.Getenv)); err != nil {
		log.Fatal(err)
	}
}
