package tfc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// reference identifies a document. A tag has no ID, but attributes.
type reference struct {
	ID         string `json:"id,omitempty"`
	Type       string `json:"type"`
	Attributes any    `json:"attributes,omitempty"`
}

// related is a relationship in a request.
type related struct {
	Data any `json:"data"`
}

// resource is a document in a request.
type resource struct {
	Type          string             `json:"type"`
	Attributes    any                `json:"attributes,omitempty"`
	Relationships map[string]related `json:"relationships,omitempty"`
}

type sent struct {
	Data any `json:"data"`
}

// received is a document in a response.
type received struct {
	ID            string          `json:"id"`
	Type          string          `json:"type"`
	Attributes    json.RawMessage `json:"attributes"`
	Relationships map[string]struct {
		Data json.RawMessage `json:"data"`
	} `json:"relationships"`
}

type one struct {
	Data     received   `json:"data"`
	Included []received `json:"included"`
}

type many struct {
	Data []received `json:"data"`
	Meta struct {
		Pagination struct {
			Next *int `json:"next-page"`
		} `json:"pagination"`
	} `json:"meta"`
}

// into decodes the attributes of a document of this type.
func (r received) into(kind string, attributes any) error {
	if r.Type != kind || r.ID == "" {
		return fmt.Errorf("the service has answered with a document of the type %q, where one of %q is due", r.Type, kind)
	}
	if len(r.Attributes) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Attributes, attributes); err != nil {
		return fmt.Errorf("the service has answered with a malformed document of the type %q: %w", kind, err)
	}
	return nil
}

// to returns the ID of the document of a relationship; empty if there is none.
func (r received) to(name string) string { return r.reference(name).ID }

// reference returns the reference of a relationship to a document; the zero value if there is none.
func (r received) reference(name string) (ref reference) {
	if json.Unmarshal(r.Relationships[name].Data, &ref) != nil {
		return reference{}
	}
	return ref
}

// pageSize is the number of documents in a page, maxPages the maximum number of pages.
const (
	pageSize = 100
	maxPages = 1000
)

// all requests all pages of a list, or until fn returns false.
func (c *Client) all(ctx context.Context, path string, query url.Values, fn func(received) (bool, error)) error {
	if query == nil {
		query = url.Values{}
	}
	query.Set("page[size]", strconv.Itoa(pageSize))
	for number := 1; number <= maxPages; {
		query.Set("page[number]", strconv.Itoa(number))
		var page many
		if err := c.ask(ctx, http.MethodGet, path, query, nil, &page); err != nil {
			return err
		}
		for _, r := range page.Data {
			if more, err := fn(r); err != nil || !more {
				return err
			}
		}
		next := page.Meta.Pagination.Next
		if next == nil || *next <= number {
			return nil
		}
		number = *next
	}
	return nil
}
