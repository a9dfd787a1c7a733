// Package system tests the whole system: the programs as users run them, with a real NATS server and real plugins. It
// uses package site.
package system

import (
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

func TestMain(m *testing.M) { site.Main(m) }
