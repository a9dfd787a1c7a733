package kubernetes

import (
	"bytes"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// magic is the beginning of an object in protobuf. Official clients send the types that they know in this format
// instead of JSON.
var magic = []byte("k8s\x00")

var errCoded = errors.New("the object is not encoded like Kubernetes objects")

// fromProtobuf decodes a lease from protobuf: an envelope with the type and the object.
func fromProtobuf(body []byte) (Object, error) {
	rest, ok := bytes.CutPrefix(body, magic)
	envelope, err := fields(rest)
	if !ok || err != nil || len(envelope[2]) == 0 {
		return nil, errCoded
	}
	lease, err := fields(envelope[2][0])
	if err != nil {
		return nil, err
	}
	o := Object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": Object{}}
	m := metadata(o)
	for _, part := range lease[1] {
		meta, err := fields(part)
		if err != nil {
			return nil, err
		}
		for number, name := range map[protowire.Number]string{1: "name", 3: "namespace", 6: "resourceVersion"} {
			if v := meta[number]; len(v) > 0 && len(v[0]) > 0 {
				m[name] = string(v[0])
			}
		}
		for number, name := range map[protowire.Number]string{11: "labels", 12: "annotations"} {
			entries := map[string]any{}
			for _, e := range meta[number] {
				pair, err := fields(e)
				if err != nil || len(pair[1]) != 1 || len(pair[2]) != 1 {
					return nil, errCoded
				}
				entries[string(pair[1][0])] = string(pair[2][0])
			}
			m[name] = entries
		}
	}
	for _, part := range lease[2] {
		spec, err := fields(part)
		if err != nil {
			return nil, err
		}
		if v := spec[1]; len(v) > 0 {
			o["spec"] = Object{"holderIdentity": string(v[0])}
		}
	}
	return o, nil
}

// fields returns the fields of a message whose values are bytes, by number.
func fields(message []byte) (map[protowire.Number][][]byte, error) {
	all := map[protowire.Number][][]byte{}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, errCoded
		}
		message = message[n:]
		if kind == protowire.BytesType {
			v, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return nil, errCoded
			}
			all[number] = append(all[number], v)
			message = message[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil, errCoded
		}
		message = message[n:]
	}
	return all, nil
}
