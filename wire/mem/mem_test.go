package mem_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
	"github.com/millipede-iac/millipede/wire/wiretest"
)

func TestConformance(t *testing.T) {
	// The compressor is created at its first use. If that were in virtual time, the next test could not use it.
	if _, err := (wire.Packer{}).Pack(t.Context(), "", make([]byte, wire.CompressOver+1)); err != nil {
		t.Fatal(err)
	}
	wiretest.Run(t, func(t *testing.T, body func(t *testing.T)) { synctest.Test(t, body) },
		func(*testing.T) *wiretest.System {
			s := mem.New(mem.Options{AckWait: 5 * time.Second})
			actors := 0
			return &wiretest.System{
				Connect: func(*testing.T) wire.Transport {
					actors++
					return s.Connect(fmt.Sprint("actor-", actors))
				},
				Restart: func(*testing.T) { s.Restart() },
				AckWait: 5 * time.Second,
			}
		})
}
