package tfe

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// resource is a document of the API.
type resource struct {
	ID            string         `json:"id"`
	Type          string         `json:"type"`
	Attributes    map[string]any `json:"attributes,omitempty"`
	Relationships map[string]any `json:"relationships,omitempty"`
	Links         map[string]any `json:"links,omitempty"`
}

// to is a relationship to one document; to none when id is empty.
func to(kind, id string) any {
	if id == "" {
		return map[string]any{"data": nil}
	}
	return map[string]any{"data": map[string]string{"type": kind, "id": id}}
}

// toAll is a relationship to several documents.
func toAll(kind string, ids []string) any {
	data := []map[string]string{}
	for _, id := range ids {
		data = append(data, map[string]string{"type": kind, "id": id})
	}
	return map[string]any{"data": data}
}

// moment is a time as clients read it: with a Z, and null for none.
func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// orNull is a text, or null for none.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// reference is what a request says of another document. Its type is not insisted on: clients leave it empty.
type reference struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Attributes struct {
		Name  string `json:"name"`
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"attributes"`
}

// request is a document that a client sends.
type request struct {
	Data struct {
		ID            string                     `json:"id"`
		Type          string                     `json:"type"`
		Attributes    json.RawMessage            `json:"attributes"`
		Relationships map[string]json.RawMessage `json:"relationships"`
	} `json:"data"`
}

// maxRequest bounds a document that a client sends, and maxInline one with a state in it: newer clients upload that.
const (
	maxRequest = 2 << 20
	maxInline  = 64 << 20
)

// body reads the document of a request, and its attributes into v.
func (c *call) body(v any) (*request, error) { return c.bodyWithin(v, maxRequest) }

func (c *call) bodyWithin(v any, limit int64) (*request, error) {
	q := &request{}
	if err := c.decodeWithin(q, limit); err != nil {
		return nil, err
	}
	if len(q.Data.Attributes) > 0 {
		if err := json.Unmarshal(q.Data.Attributes, v); err != nil {
			return nil, &failure{http.StatusUnprocessableEntity, "invalid attribute",
				"the attributes cannot be read: " + err.Error()}
		}
	}
	return q, nil
}

// decode reads the body of a request. An empty one is nothing.
func (c *call) decode(v any) error { return c.decodeWithin(v, maxRequest) }

func (c *call) decodeWithin(v any, limit int64) error {
	if c.r.ContentLength > limit {
		return &failure{http.StatusRequestEntityTooLarge, "too large", "a document may have at most " +
			strconv.FormatInt(limit, 10) + " bytes"}
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &failure{http.StatusBadRequest, "bad request", "the document cannot be read: " + err.Error()}
	}
	return nil
}

// related returns the document that a relationship of a request names; an empty one for none.
func (q *request) related(name string) (r reference, err error) {
	raw, ok := q.Data.Relationships[name]
	if !ok {
		return r, nil
	}
	var holder struct {
		Data *reference `json:"data"`
	}
	if err := json.Unmarshal(raw, &holder); err != nil {
		return r, badRelationship(name)
	}
	if holder.Data != nil {
		r = *holder.Data
	}
	return r, nil
}

// relatedAll returns the documents that a relationship of a request names.
func (q *request) relatedAll(name string) ([]reference, error) {
	raw, ok := q.Data.Relationships[name]
	if !ok {
		return nil, nil
	}
	var holder struct {
		Data []reference `json:"data"`
	}
	if err := json.Unmarshal(raw, &holder); err != nil {
		return nil, badRelationship(name)
	}
	return holder.Data, nil
}

func badRelationship(name string) error {
	return &failure{http.StatusUnprocessableEntity, "invalid relationship", "the relationship " + name +
		" cannot be read"}
}

// references reads a body that is a list of documents.
func (c *call) references() ([]reference, error) {
	var holder struct {
		Data []reference `json:"data"`
	}
	if err := c.decode(&holder); err != nil {
		return nil, err
	}
	if holder.Data == nil {
		return nil, &failure{http.StatusBadRequest, "bad request", "a list of documents is missing"}
	}
	return holder.Data, nil
}
