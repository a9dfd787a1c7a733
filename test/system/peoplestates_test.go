package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	client "github.com/hashicorp/go-tfe"
)

// counter is a state with a number, which each writer increments under the lock.
func counter(n int) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.9.0","serial":%d,"lineage":"l","outputs":{"n":{"value":%d,`+
		`"type":"number"}},"resources":[]}`, n, n)
}

// numberIn returns the number of a counter; 0 if there is no state.
func numberIn(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	var st struct {
		Outputs struct{ N struct{ Value int } }
	}
	err := json.Unmarshal([]byte(text), &st)
	return st.Outputs.N.Value, err
}

// writeOverHTTP increments a counter with the protocol of the http backend, unless somebody else has the lock.
func (p *person) writeOverHTTP() error {
	lock := fmt.Sprintf(`{"ID":"%s-%d","Operation":"apply","Who":%q}`, p.name, p.n, p.name)
	const at = "/state/main/plain"
	var refused *refusal
	if _, err := p.ask("LOCK", at, lock); errors.As(err, &refused) && refused.code == http.StatusLocked {
		return nil
	} else if err != nil {
		return err
	}
	text, err := p.ask(http.MethodGet, at, "")
	if err != nil {
		return err
	}
	n, err := numberIn(text)
	if err == nil {
		_, err = p.ask(http.MethodPost, at+fmt.Sprintf("?ID=%s-%d", p.name, p.n), counter(n+1))
	}
	if err != nil {
		return err
	}
	p.count("plain")
	_, err = p.ask("UNLOCK", at, lock)
	return err
}

// count records that a counter was incremented.
func (p *person) count(of string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known["counter "+of]++
}

// writeByAPI increments a counter like a command with a cloud block in a workspace with local execution.
func (p *person) writeByAPI() error {
	ctx := p.Context()
	w, err := p.client.Workspaces.Read(ctx, "main", "own")
	if err != nil {
		return err
	}
	if _, err := p.client.Workspaces.Lock(ctx, w.ID, client.WorkspaceLockOptions{}); errors.Is(err,
		client.ErrWorkspaceLocked) {
		return nil
	} else if err != nil {
		return err
	}
	n, err := numberOf(p.people, p.client, w)
	if err != nil {
		return err
	}
	text := []byte(counter(n + 1))
	if _, err = p.client.StateVersions.Upload(ctx, w.ID, client.StateVersionUploadOptions{
		StateVersionCreateOptions: client.StateVersionCreateOptions{Serial: client.Int64(int64(n + 1)),
			Lineage: client.String("l"), MD5: client.String(sum(text))}, RawState: text}); err != nil {
		return err
	}
	p.count("own")
	_, err = p.client.Workspaces.Unlock(ctx, w.ID)
	return err
}
