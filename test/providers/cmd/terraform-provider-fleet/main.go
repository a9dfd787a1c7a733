// Command terraform-provider-fleet serves the test provider fleet over plugin protocol 6.
package main

import (
	"log"
	"os"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/fleet"
)

func main() {
	if err := fleet.Serve("fleet", act.ReadEnv(os.Getenv)); err != nil {
		log.Fatal(err)
	}
}
