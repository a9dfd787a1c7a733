package azure

import (
	"context"
	"net/http"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// Service returns a Caller for a service, authorized by tokens of the identity. audience is that of the tokens,
// such as https://vault.azure.net.
func (c *Cloud) Service(ctx context.Context, audience string) (*call.Caller, error) {
	who, err := c.credential(ctx)
	if err != nil {
		return nil, err
	}
	return c.caller(func(ctx context.Context, r *http.Request, _ []byte) error {
		return who.authorize(ctx, r, audience+"/.default")
	}), nil
}
