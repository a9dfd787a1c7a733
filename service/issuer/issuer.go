// Package issuer publishes the data for verifying the tokens of runs: OpenID Connect's discovery document, and
// the public keys.
//
// It signs nothing, and requires no authentication.
package issuer

import (
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/identity"
)

// The paths that Handler serves.
const (
	Discovery = "/.well-known/openid-configuration"
	Keys      = "/.well-known/jwks"
)

// claims are the claims of a token.
var claims = []string{
	"sub", "aud", "exp", "iat", "iss", "jti", "nbf", "terraform_organization_id", "terraform_organization_name",
	"terraform_project_id", "terraform_project_name", "terraform_workspace_id", "terraform_workspace_name",
	"terraform_full_workspace", "terraform_run_id", "terraform_run_phase",
}

// Handler serves the documents. A service that does not know its own address issues no tokens, and has no
// documents.
func Handler(signer *service.Identity, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Discovery, func(w http.ResponseWriter, r *http.Request) {
		if signer.Issuer() == "" {
			http.NotFound(w, r)
			return
		}
		answer(w, map[string]any{
			"issuer": signer.Issuer(), "jwks_uri": signer.Issuer() + Keys, "response_types_supported": []string{"id_token"},
			"subject_types_supported": []string{"public"}, "scopes_supported": []string{"openid"},
			"id_token_signing_alg_values_supported": []string{string(identity.Algorithm)}, "claims_supported": claims,
		})
	})
	mux.HandleFunc("GET "+Keys, func(w http.ResponseWriter, r *http.Request) {
		if signer.Issuer() == "" {
			http.NotFound(w, r)
			return
		}
		keys, err := signer.SigningKeys()
		if err != nil {
			log.Error("cannot read the signing keys", "error", err)
			http.Error(w, "the keys cannot be read", http.StatusInternalServerError)
			return
		}
		answer(w, identity.Set(keys))
	})
	return mux
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}
