package tfc

import (
	"context"
	"crypto/md5" //nolint:gosec // the API's checksum of states
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
)

// NewState is a version of a state to create.
type NewState struct {
	Serial  uint64
	Lineage string
	// Data are the bytes of the state.
	Data []byte
	// Outputs are its outputs as JSON, so that they can be read separately; nil if they must not be visible.
	Outputs []byte
	// Force accepts any serial and lineage.
	Force bool
	// Run is the run that made it; empty for none.
	Run string
}

// WriteState makes a version the current one of a workspace, which the token must have locked. A Conflict means
// that it has not, or that the version does not follow the current one.
func (c *Client) WriteState(ctx context.Context, workspace string, n NewState) error {
	sum := md5.Sum(n.Data) //nolint:gosec // as above
	attributes := map[string]any{
		"serial": n.Serial, "lineage": n.Lineage, "md5": hex.EncodeToString(sum[:]), "force": n.Force,
	}
	if n.Outputs != nil {
		attributes["json-state-outputs"] = base64.StdEncoding.EncodeToString(n.Outputs)
	}
	doc := resource{Type: "state-versions", Attributes: attributes}
	if n.Run != "" {
		doc.Relationships = map[string]related{"run": {reference{ID: n.Run, Type: "runs"}}}
	}
	path := "workspaces/" + url.PathEscape(workspace) + "/state-versions"
	var made one
	err := c.ask(ctx, http.MethodPost, path, nil, sent{doc}, &made)
	var v *StateVersion
	if err == nil {
		v, err = stateOf(made.Data)
	}
	switch {
	case err == nil && v.Upload != "":
		return c.put(ctx, v.Upload, content(n.Data), int64(len(n.Data)))
	case err == nil && v.Status == "finalized":
		return nil // the same bytes were stored
	case err != nil && !Refused(err, http.StatusUnprocessableEntity) && !Refused(err, http.StatusBadRequest):
		return err
	}
	// An older service accepts the state in the request.
	attributes["state"] = base64.StdEncoding.EncodeToString(n.Data)
	if inline := c.ask(ctx, http.MethodPost, path, nil, sent{doc}, nil); inline != nil && err != nil {
		return err
	} else if inline != nil {
		return inline
	}
	return nil
}

// ObjectChange is a change of some instances of a workspace's state, for a service of Millipede.
type ObjectChange struct {
	Operation string          `json:"operation"`
	Lineage   string          `json:"lineage"`
	Serial    uint64          `json:"serial"`
	Removed   []string        `json:"removed,omitempty"`
	State     json.RawMessage `json:"state,omitempty"`
	// Wait is how long the service waits for locks of the objects, at most, in seconds.
	Wait float64 `json:"wait,omitempty"`
}

// ChangeObjects changes instances of a workspace's state while runs change others. A Conflict means that runs have
// locked the instances, or have changed them since the version that the change was made for. A change that was
// made already succeeds. Other services respond with NotFound.
func (c *Client) ChangeObjects(ctx context.Context, workspace string, change ObjectChange) error {
	path := "/api/millipede/v1/workspaces/" + url.PathEscape(workspace) + "/objects"
	return c.ask(ctx, http.MethodPost, path, nil, change, nil)
}
