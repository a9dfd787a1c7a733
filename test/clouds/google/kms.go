package google

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// KMSEndpoint is the address of the key service.
func (s *Server) KMSEndpoint() string { return s.URL + "/kms/v1/" }

// kms answers the two calls on a key. Its encryption is none: the name of the key, and the bytes turned over.
func (s *Server) kms(w http.ResponseWriter, r *http.Request, scope string, body []byte) {
	if !strings.HasSuffix(scope, "/cloudkms") && !strings.HasSuffix(scope, "/cloud-platform") && scope != tokenScope {
		refuse(w, http.StatusForbidden, "forbidden", "Request had insufficient authentication scopes.")
		return
	}
	name, operation, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/kms/v1/"), ":")
	var in struct{ Plaintext, Ciphertext []byte }
	if json.Unmarshal(body, &in) != nil || !strings.HasPrefix(name, "projects/p/") {
		refuse(w, http.StatusNotFound, "notFound", "CryptoKey "+name+" not found.")
		return
	}
	prefix := []byte(name + ":")
	turn := func(b []byte) []byte {
		out := make([]byte, len(b))
		for i := range b {
			out[i] = b[i] ^ 0xff
		}
		return out
	}
	switch text, ok := bytes.CutPrefix(in.Ciphertext, prefix); {
	case operation == "encrypt":
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "ciphertext": append(prefix, turn(in.Plaintext)...)})
	case operation == "decrypt" && ok:
		_ = json.NewEncoder(w).Encode(map[string]any{"plaintext": turn(text)})
	default:
		refuse(w, http.StatusBadRequest, "badRequest", "Decryption failed: the ciphertext is invalid.")
	}
}
