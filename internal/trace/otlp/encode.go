package otlp

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millipede-iac/millipede/internal/trace"
)

// The numbers of the fields are those of OpenTelemetry's protocol, version 1, which no longer changes them:
// opentelemetry/proto/{collector/trace,trace,resource,common}/v1.

// message appends a field that is a message.
func message(b []byte, field protowire.Number, fill func([]byte) []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), fill(nil))
}

func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), strings.ToValidUTF8(s, "\ufffd"))
}

func data(b []byte, field protowire.Number, d []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), d)
}

func number(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func fixed(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), n)
}

// scopeName is the name of the instrumentation scope.
const scopeName = "github.com/millipede-iac/millipede"

// request returns an ExportTraceServiceRequest with the spans of one resource.
func request(resource []trace.Attribute, version string, spans []trace.Record) []byte {
	return message(nil, 1, func(b []byte) []byte { // ResourceSpans
		b = message(b, 1, func(b []byte) []byte { return attributes(b, 1, resource) })
		return message(b, 2, func(b []byte) []byte { // ScopeSpans
			b = message(b, 1, func(b []byte) []byte { return text(text(b, 1, scopeName), 2, version) })
			for i := range spans {
				b = message(b, 2, func(b []byte) []byte { return span(b, &spans[i]) })
			}
			return b
		})
	})
}

const statusError = 2

func span(b []byte, r *trace.Record) []byte {
	b = data(b, 1, r.Trace[:])
	b = data(b, 2, r.Span[:])
	b = text(b, 3, r.State)
	if r.Parent != [8]byte{} {
		b = data(b, 4, r.Parent[:])
	}
	b = text(b, 5, r.Name)
	b = number(b, 6, uint64(r.Kind))
	b = fixed(b, 7, uint64(r.Start.UnixNano()))
	b = fixed(b, 8, uint64(r.End.UnixNano()))
	b = attributes(b, 9, r.Attributes)
	for _, e := range r.Events {
		b = message(b, 11, func(b []byte) []byte {
			return attributes(text(fixed(b, 1, uint64(e.At.UnixNano())), 2, e.Name), 3, e.Attributes)
		})
	}
	if r.Failed {
		b = message(b, 15, func(b []byte) []byte { return number(text(b, 2, r.Reason), 3, statusError) })
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, 16, protowire.Fixed32Type), 1) // sampled
}

func attributes(b []byte, field protowire.Number, list []trace.Attribute) []byte {
	for _, a := range list {
		b = message(b, field, func(b []byte) []byte { // KeyValue
			return message(text(b, 1, a.Key), 2, func(b []byte) []byte { // AnyValue
				if a.IsNumber {
					return number(b, 3, uint64(a.Number))
				}
				// Not text, which omits an empty value: a value must have a kind.
				return protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType),
					strings.ToValidUTF8(a.Text, "\ufffd"))
			})
		})
	}
	return b
}

// rejected decodes an ExportTraceServiceResponse: the number of spans that the collector rejected, and why.
func rejected(b []byte) (n uint64, why string) {
	fields(b, func(field protowire.Number, _ uint64, content []byte) {
		if field != 1 {
			return
		}
		fields(content, func(field protowire.Number, value uint64, content []byte) {
			switch field {
			case 1:
				n = value
			case 2:
				why = string(content)
			}
		})
	})
	return n, why
}

// fields calls fn for the fields of a message, up to the first malformed one.
func fields(b []byte, fn func(field protowire.Number, value uint64, content []byte)) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		var value uint64
		var content []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return
		}
		b = b[n:]
		fn(field, value, content)
	}
}
