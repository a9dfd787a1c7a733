package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// settle replaces every unknown value in v by a known one: texts and numbers that are derived from the object's ID and
// the value's path, empty collections. It gives values to the computed parts of blocks and nested attributes.
func settle(v tftypes.Value, id string) (tftypes.Value, error) {
	return tftypes.Transform(v, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		if v.IsKnown() {
			return v, nil
		}
		sum := sha256.Sum256([]byte(id + " " + at.String()))
		switch t := v.Type(); {
		case t.Is(tftypes.String):
			return tftypes.NewValue(t, hex.EncodeToString(sum[:4])), nil
		case t.Is(tftypes.Number):
			return tftypes.NewValue(t, big.NewFloat(float64(sum[0]))), nil
		case t.Is(tftypes.Bool):
			return tftypes.NewValue(t, true), nil
		case t.Is(tftypes.List{}), t.Is(tftypes.Set{}):
			return tftypes.NewValue(t, []tftypes.Value{}), nil
		case t.Is(tftypes.Map{}):
			return tftypes.NewValue(t, map[string]tftypes.Value{}), nil
		default:
			return v, fmt.Errorf("%s has the type %s, for which nothing can be computed", at, t)
		}
	})
}
