package google

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// Do sends a request, and retries it after a pause while the service is busy or unreachable, as often as configured
// (call.Caller).
func (s *Client) Do(ctx context.Context, r call.Request) (*call.Response, error) {
	return s.caller.Do(ctx, r)
}

// explain decodes the reason of an error response: JSON, or a line of text if content was requested.
func explain(e *call.Error, _ http.Header) {
	var object struct {
		Error struct {
			Message, Status string
			Errors          []struct{ Reason string }
		}
	}
	switch text := bytes.TrimSpace(e.Body); {
	case len(text) == 0 || text[0] == '<':
	case text[0] == '{' && json.Unmarshal(text, &object) == nil:
		e.Message, e.Code = object.Error.Message, object.Error.Status
		if len(object.Error.Errors) > 0 {
			e.Code = object.Error.Errors[0].Reason
		}
	default:
		line, _, _ := strings.Cut(string(text), "\n")
		e.Message = line[:min(len(line), 200)]
	}
}
