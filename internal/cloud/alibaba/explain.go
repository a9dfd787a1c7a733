package alibaba

import (
	"encoding/json"
	"errors"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// explain decodes the code and the message of services that return JSON without an envelope.
func explain(err error) error {
	var e *call.Error
	var body struct{ Code, Message string }
	if errors.As(err, &e) && e.Code == "" && json.Unmarshal(e.Body, &body) == nil {
		e.Code, e.Message = body.Code, body.Message
	}
	return err
}
