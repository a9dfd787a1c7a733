package web

import (
	"encoding/json"
	"strings"
)

// outputChange is the change of an output value in the document of a plan.
type outputChange struct {
	Before       any `json:"before"`
	After        any `json:"after"`
	Unknown      any `json:"after_unknown"`
	BeforeSecret any `json:"before_sensitive"`
	AfterSecret  any `json:"after_sensitive"`
}

func decodeOutputs(text []byte) (out map[string]outputChange, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber() // numbers keep every digit
	return out, d.Decode(&out)
}
