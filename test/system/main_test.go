// Package system holds the tests of the whole: the programs as users run them, a real NATS server, real plugins. Where
// they take place is package site.
package system

import (
	"testing"

	"github.com/millipede-iac/millipede/test/site"
)

func TestMain(m *testing.M) { site.Main(m) }
