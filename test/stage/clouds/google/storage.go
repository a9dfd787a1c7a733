package google

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// storage handles the calls of Cloud Storage.
func (s *Server) storage(w http.ResponseWriter, r *http.Request, body []byte) {
	for prefix, serve := range map[string]func(http.ResponseWriter, *http.Request, string, string, []byte){
		"/upload/storage/v1/b/": s.upload, "/storage/v1/b/": s.object,
	} {
		rest, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
		if !ok {
			continue
		}
		escapedBucket, rest, _ := strings.Cut(rest, "/o")
		bucket, err := url.PathUnescape(escapedBucket)
		name, err2 := url.PathUnescape(strings.TrimPrefix(rest, "/"))
		if err != nil || err2 != nil || strings.Contains(strings.TrimPrefix(rest, "/"), "/") {
			refuse(w, http.StatusBadRequest, "invalid", "The path is not escaped as it should be.")
			return
		}
		if s.buckets[bucket] == nil {
			refuse(w, http.StatusNotFound, "notFound", "The specified bucket does not exist.")
			return
		}
		serve(w, r, bucket, name, body)
		return
	}
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // the path of the XML API
	o, ok := s.buckets[bucket][name]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case s.buckets[bucket] == nil:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchBucket</Code><Message>The specified "+
			"bucket does not exist.</Message></Error>")
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchKey</Code><Message>The specified key "+
			"does not exist.</Message></Error>")
	default:
		media(w, r, o)
	}
}

// keyOf returns the customer-supplied key of a request; ok is false if its headers contradict each other.
func keyOf(r *http.Request) (key string, ok bool) {
	key = r.Header.Get("X-Goog-Encryption-Key")
	sum, algorithm := r.Header.Get("X-Goog-Encryption-Key-Sha256"), r.Header.Get("X-Goog-Encryption-Algorithm")
	if key == "" {
		return "", sum == "" && algorithm == ""
	}
	raw, err := base64.StdEncoding.DecodeString(key)
	want := sha256.Sum256(raw)
	return key, err == nil && len(raw) == 32 && algorithm == "AES256" &&
		sum == base64.StdEncoding.EncodeToString(want[:])
}

func crc(data []byte) string {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// media sends the content of an object. The request must have the customer-supplied key with which it was stored.
func media(w http.ResponseWriter, r *http.Request, o Object) {
	if key, ok := keyOf(r); !ok || key != o.Customer {
		refuse(w, http.StatusBadRequest, "customerEncryptionKeyIsIncorrect", "The target object is encrypted by a "+
			"customer-supplied encryption key.")
		return
	}
	sum := md5.Sum(o.Data)
	w.Header().Add("X-Goog-Hash", "crc32c="+crc(o.Data))
	w.Header().Add("X-Goog-Hash", "md5="+base64.StdEncoding.EncodeToString(sum[:]))
	w.Header().Set("X-Goog-Generation", strconv.FormatInt(o.Generation, 10))
	w.Header().Set("X-Goog-Metageneration", "1")
	w.Header().Set("X-Goog-Stored-Content-Length", strconv.Itoa(len(o.Data)))
	w.Header().Set("X-Goog-Stored-Content-Encoding", "identity")
	w.Header().Set("Content-Type", o.ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(o.Data)))
	_, _ = w.Write(o.Data)
}

// describe sends the description of an object. The checksums of an encrypted object require its key.
func describe(w http.ResponseWriter, bucket, name string, o Object, key string) {
	out := map[string]any{
		"kind": "storage#object", "bucket": bucket, "name": name, "generation": strconv.FormatInt(o.Generation, 10),
		"metageneration": "1", "contentType": o.ContentType, "size": strconv.Itoa(len(o.Data)),
	}
	if o.Customer == key {
		sum := md5.Sum(o.Data)
		out["md5Hash"], out["crc32c"] = base64.StdEncoding.EncodeToString(sum[:]), crc(o.Data)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// holds reports whether the precondition of a request is true for the stored object.
func holds(r *http.Request, o Object) bool {
	want := r.URL.Query().Get("ifGenerationMatch")
	return want == "" || want == strconv.FormatInt(o.Generation, 10)
}

// object handles the calls about one object, or lists the objects if the name is empty.
func (s *Server) object(w http.ResponseWriter, r *http.Request, bucket, name string, _ []byte) {
	o, ok := s.buckets[bucket][name]
	query := r.URL.Query()
	if g := query.Get("generation"); g != "" && g != strconv.FormatInt(o.Generation, 10) {
		ok = false
	}
	key, valid := keyOf(r)
	switch {
	case name == "" && r.Method == http.MethodGet:
		list(w, s.buckets[bucket], query)
	case !valid:
		refuse(w, http.StatusBadRequest, "customerEncryptionKeySha256IsInvalid", "Provided encryption key hash is "+
			"incorrect.")
	case !ok:
		refuse(w, http.StatusNotFound, "notFound", "No such object: "+bucket+"/"+name)
	case !holds(r, o):
		refuse(w, http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions you "+
			"specified did not hold.")
	case r.Method == http.MethodGet && query.Get("alt") == "media":
		media(w, r, o)
	case r.Method == http.MethodGet && key != "" && key != o.Customer:
		refuse(w, http.StatusBadRequest, "customerEncryptionKeyIsIncorrect", "The provided encryption key is "+
			"incorrect.")
	case r.Method == http.MethodGet:
		describe(w, bucket, name, o, key)
	case r.Method == http.MethodDelete:
		delete(s.buckets[bucket], name)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// upload stores the object of a multipart request.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, bucket, _ string, body []byte) {
	bad := func(message string) { refuse(w, http.StatusBadRequest, "invalid", message) }
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || r.Method != http.MethodPost || r.URL.Query().Get("uploadType") != "multipart" {
		bad("Only multipart uploads are supported.")
		return
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	var about struct{ Name, ContentType, CRC32C string }
	part, err := parts.NextPart()
	if err != nil || json.NewDecoder(part).Decode(&about) != nil || about.Name == "" {
		bad("The first part is not a description of an object.")
		return
	}
	part, err = parts.NextPart()
	if err != nil {
		bad("There is no second part.")
		return
	}
	o := Object{ContentType: part.Header.Get("Content-Type"), KMSKey: r.URL.Query().Get("kmsKeyName")}
	if about.ContentType != "" {
		o.ContentType = about.ContentType
	}
	if o.Data, err = io.ReadAll(part); err != nil {
		bad("The second part is cut off.")
		return
	}
	var valid bool
	switch o.Customer, valid = keyOf(r); {
	case !valid:
		bad("Provided encryption key hash is incorrect.")
	case o.Customer != "" && o.KMSKey != "":
		bad("Only one kind of key can be given.")
	case about.CRC32C != "" && about.CRC32C != crc(o.Data):
		bad("Provided CRC32C does not match calculated CRC32C.")
	case !holds(r, s.buckets[bucket][about.Name]):
		refuse(w, http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions you "+
			"specified did not hold.")
	default:
		s.generation++
		o.Generation = s.generation
		s.buckets[bucket][about.Name] = o
		describe(w, bucket, about.Name, o, o.Customer)
	}
}

// list lists the objects in pages of two, so that clients have to request several pages.
func list(w http.ResponseWriter, bucket map[string]Object, query url.Values) {
	var names, prefixes []string
	for n := range bucket {
		rest, ok := strings.CutPrefix(n, query.Get("prefix"))
		if !ok {
			continue
		}
		if d := query.Get("delimiter"); d != "" && strings.Contains(rest, d) {
			folder, _, _ := strings.Cut(rest, d)
			prefixes = append(prefixes, query.Get("prefix")+folder+d)
			continue
		}
		if n > query.Get("pageToken") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	slices.Sort(prefixes)
	answer := map[string]any{"kind": "storage#objects", "prefixes": slices.Compact(prefixes)}
	if len(names) > 2 {
		names = names[:2]
		answer["nextPageToken"] = names[1]
	}
	items := []map[string]string{}
	for _, n := range names {
		items = append(items, map[string]string{"name": n, "generation": strconv.FormatInt(bucket[n].Generation, 10)})
	}
	answer["items"] = items
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
