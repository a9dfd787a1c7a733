// Package system tests the whole system: the programs as users run them, with a real NATS server and real plugins. It
// uses package site.
package system

import (
	"os"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

func TestMain(m *testing.M) {
	if program := os.Getenv(withoutLandlock); program != "" {
		panic(executeWithout(program)) // it returns only with an error
	}
	site.Main(m)
}

// withoutLandlock is the variable with which the program of these tests executes another one, for which the system
// calls of Landlock fail.
const withoutLandlock = "WITHOUT_LANDLOCK"
