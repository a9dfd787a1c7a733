package tfe

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// resource is a JSON:API document.
type resource struct {
	ID            string         `json:"id"`
	Type          string         `json:"type"`
	Attributes    map[string]any `json:"attributes,omitempty"`
	Relationships map[string]any `json:"relationships,omitempty"`
	Links         map[string]any `json:"links,omitempty"`
}

// to returns a relationship to one document; to none if id is empty.
func to(kind, id string) any {
	if id == "" {
		return map[string]any{"data": nil}
	}
	return map[string]any{"data": map[string]string{"type": kind, "id": id}}
}

// toAll returns a relationship to several documents.
func toAll(kind string, ids []string) any {
	data := []map[string]string{}
	for _, id := range ids {
		data = append(data, map[string]string{"type": kind, "id": id})
	}
	return map[string]any{"data": data}
}

// moment formats a time for clients: in UTC, and null for the zero time.
func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// orNull returns a text, or null if it is empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// reference identifies another document in a request. Its type is not checked, because clients leave it empty.
type reference struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Attributes struct {
		Name  string `json:"name"`
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"attributes"`
}

// request is a document from a client.
type request struct {
	Data struct {
		ID            string                     `json:"id"`
		Type          string                     `json:"type"`
		Attributes    json.RawMessage            `json:"attributes"`
		Relationships map[string]json.RawMessage `json:"relationships"`
	} `json:"data"`
}

// maxRequest bounds a document from a client; maxInline bounds one that contains a state, which newer clients
// upload instead.
const (
	maxRequest = 2 << 20
	maxInline  = 64 << 20
)

// body reads the document of a request, and decodes its attributes into v.
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

// decode decodes the body of a request into v. An empty body leaves v unchanged.
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

// related returns the document that a relationship of a request refers to; the zero value if there is none.
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

// relatedAll returns the documents that a relationship of a request refers to.
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

// references decodes a body that is a list of documents.
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
