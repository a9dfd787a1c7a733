package google

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// KMSEndpoint returns the URL of Cloud KMS.
func (s *Server) KMSEndpoint() string { return s.URL + "/kms/v1/" }

// kmsMethod is the beginning of the paths of gRPC calls to Cloud KMS.
const kmsMethod = "/google.cloud.kms.v1.KeyManagementService/"

// The gRPC codes of Cloud KMS.
const (
	grpcOK              = 0
	grpcInvalidArgument = 3
	grpcNotFound        = 5
)

// kms handles the two calls on a key with JSON.
func (s *Server) kms(w http.ResponseWriter, r *http.Request, scope string, body []byte) {
	if !mayUseKeys(scope) {
		refuse(w, http.StatusForbidden, "forbidden", "Request had insufficient authentication scopes.")
		return
	}
	name, operation, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/kms/v1/"), ":")
	var in struct{ Plaintext, Ciphertext []byte }
	if json.Unmarshal(body, &in) != nil || !isKey(name) {
		refuse(w, http.StatusNotFound, "notFound", "CryptoKey "+name+" not found.")
		return
	}
	switch text, ok := unwrap(name, in.Ciphertext); {
	case operation == "encrypt":
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "ciphertext": wrap(name, in.Plaintext)})
	case operation == "decrypt" && ok:
		_ = json.NewEncoder(w).Encode(map[string]any{"plaintext": text})
	default:
		refuse(w, http.StatusBadRequest, "badRequest", "Decryption failed: the ciphertext is invalid.")
	}
}

// kmsOverGRPC handles the same calls with gRPC, which OpenTofu uses. The requests of both calls have the key's name in
// field 1 and the data in field 2; the response of Decrypt has the data in field 1.
func (s *Server) kmsOverGRPC(w http.ResponseWriter, method, scope string, body []byte) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	name, data, ok := keyRequest(body)
	end := func(code int, message string, fields ...[]byte) {
		if code == grpcOK {
			out := bytes.Join(fields, nil)
			frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(out))) //nolint:gosec // a key is short
			_, _ = w.Write(append(frame, out...))
		}
		w.Header().Set("Grpc-Status", strconv.Itoa(code))
		w.Header().Set("Grpc-Message", message)
	}
	switch text, own := unwrap(name, data); {
	case !ok || !mayUseKeys(scope):
		end(grpcInvalidArgument, "the request is invalid, or its token has another scope")
	case !isKey(name):
		end(grpcNotFound, "CryptoKey "+name+" not found.")
	case method == "Encrypt":
		end(grpcOK, "", field(1, []byte(name)), field(2, wrap(name, data)))
	case method == "Decrypt" && own:
		end(grpcOK, "", field(1, text))
	default:
		end(grpcInvalidArgument, "Decryption failed: the ciphertext is invalid.")
	}
}

// keyRequest reads the one message of a gRPC call.
func keyRequest(frame []byte) (name string, data []byte, ok bool) {
	const header = 5 // one byte for the compression, four for the length of the message
	if len(frame) < header || frame[0] != 0 {
		return "", nil, false
	}
	for rest := frame[header:]; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return "", nil, false
		}
		rest = rest[n:]
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(rest)
			switch number {
			case 1:
				name = string(value)
			case 2:
				data = value
			}
		}
		if n = protowire.ConsumeFieldValue(number, kind, rest); n < 0 {
			return "", nil, false
		}
		rest = rest[n:]
	}
	return name, data, true
}

func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func mayUseKeys(scope string) bool {
	return strings.HasSuffix(scope, "/cloudkms") || strings.HasSuffix(scope, "/cloud-platform") || scope == tokenScope
}

func isKey(name string) bool { return strings.HasPrefix(name, "projects/p/") }

// wrap returns the fake's ciphertext: the name of the key, and the data with inverted bits.
func wrap(key string, text []byte) []byte { return append([]byte(key+":"), inverted(text)...) }

func unwrap(key string, wrapped []byte) (text []byte, ok bool) {
	inner, ok := bytes.CutPrefix(wrapped, []byte(key+":"))
	return inverted(inner), ok
}

func inverted(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = b[i] ^ 0xff
	}
	return out
}
