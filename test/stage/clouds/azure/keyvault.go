package azure

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// VaultURI is the address of a vault with the key "kek".
const VaultURI = "https://myvault.vault.azure.net"

// vault handles the two calls on a key. It does not encrypt: a ciphertext is the name of the algorithm, and the data
// with inverted bits.
func (s *Server) vault(w http.ResponseWriter, r *http.Request, body []byte) {
	no := func(status int, code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		write(w, map[string]any{"error": map[string]string{"code": code, "message": "The vault refuses."}})
	}
	if !s.bearer(r, "vault.azure.net") {
		w.Header().Set("WWW-Authenticate", `Bearer authorization="https://login.microsoftonline.com/`+Tenant+
			`", resource="https://vault.azure.net"`) // clients send their first request without a token
		no(http.StatusUnauthorized, "Unauthorized")
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/keys/kek/")
	var in struct{ Alg, Value, IV, Tag string }
	if json.Unmarshal(body, &in) != nil || !ok || r.URL.Query().Get("api-version") == "" {
		no(http.StatusNotFound, "KeyNotFound")
		return
	}
	value, err := base64.RawURLEncoding.DecodeString(in.Value)
	if err != nil {
		no(http.StatusBadRequest, "BadParameter")
		return
	}
	prefix := []byte(in.Alg + ":")
	invert := func(b []byte) []byte {
		out := make([]byte, len(b))
		for i := range b {
			out[i] = b[i] ^ 0xff
		}
		return out
	}
	out := map[string]string{"kid": VaultURI + "/keys/kek/version1"}
	switch text, fits := bytes.CutPrefix(value, prefix); {
	case path == "encrypt":
		out["value"] = base64.RawURLEncoding.EncodeToString(append(prefix, invert(value)...))
		if strings.HasSuffix(in.Alg, "GCM") {
			out["iv"], out["tag"] = "aXY", "dGFn"
		}
	case path == "version1/decrypt" && fits && (!strings.HasSuffix(in.Alg, "GCM") || in.IV == "aXY" &&
		in.Tag == "dGFn"):
		out["value"] = base64.RawURLEncoding.EncodeToString(invert(text))
	default:
		no(http.StatusBadRequest, "BadParameter")
		return
	}
	write(w, out)
}
