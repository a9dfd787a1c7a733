package oss

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// rows are the rows of a table of TableStore whose key is LockID, a string. A request is a message of Protocol Buffers
// with a row in a form of TableStore's own (plainrow.go).
type rows struct {
	caller         *call.Caller
	address, table string
}

// keyColumn is the name of the table's key.
const keyColumn = "LockID"

// expectation is the condition of a change on the existing row.
type expectation uint64

const (
	ignore         expectation = 0
	expectNotExist expectation = 2
)

// conditionFailed is the error code of a condition that is not met.
const conditionFailed = "OTSConditionCheckFail"

// message is an encoded protobuf message.
type message []byte

func (m message) text(number protowire.Number, value string) message {
	return protowire.AppendString(protowire.AppendTag(m, number, protowire.BytesType), value)
}

func (m message) bytes(number protowire.Number, value []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, number, protowire.BytesType), value)
}

func (m message) number(number protowire.Number, value uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, number, protowire.VarintType), value)
}

// field returns the last length-delimited field with a number; nil if there is none.
func field(m []byte, number protowire.Number) ([]byte, error) {
	var out []byte
	for len(m) > 0 {
		n, kind, size := protowire.ConsumeTag(m)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		m = m[size:]
		if n == number && kind == protowire.BytesType {
			value, size := protowire.ConsumeBytes(m)
			if size < 0 {
				return nil, protowire.ParseError(size)
			}
			out = value
		}
		if size = protowire.ConsumeFieldValue(n, kind, m); size < 0 {
			return nil, protowire.ParseError(size)
		}
		m = m[size:]
	}
	return out, nil
}

// ask calls an operation.
func (t *rows) ask(ctx context.Context, operation string, in message) ([]byte, error) {
	answer, err := t.caller.Do(ctx, call.Request{Method: http.MethodPost, URL: t.address + "/" + operation, Body: in})
	var e *call.Error
	if errors.As(err, &e) && e.Code == "" {
		code, bad := field(e.Body, 1)
		text, worse := field(e.Body, 2)
		if bad == nil && worse == nil {
			e.Code, e.Message = string(code), string(text)
		}
	}
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// describe checks that the table exists.
func (t *rows) describe(ctx context.Context) error {
	_, err := t.ask(ctx, "DescribeTable", message{}.text(1, t.table))
	return err
}

// Get implements bucket.Rows.
func (t *rows) Get(ctx context.Context, key, column string) (string, error) {
	in := message{}.text(1, t.table).bytes(2, plainRow(key, nil, false)).text(3, keyColumn).text(3, column).number(5, 1)
	answer, err := t.ask(ctx, "GetRow", in)
	if err != nil {
		return "", err
	}
	row, err := field(answer, 2)
	if err != nil {
		return "", fmt.Errorf("reading a row of the table %s: %w", t.table, err)
	}
	_, columns, err := readPlainRow(row)
	if err != nil {
		return "", fmt.Errorf("reading a row of the table %s: %w", t.table, err)
	}
	return columns[column], nil
}

// Put implements bucket.Rows.
func (t *rows) Put(ctx context.Context, key, column, value string) error {
	return t.change(ctx, "PutRow", plainRow(key, map[string]string{column: value}, false), ignore)
}

// Create implements bucket.Rows.
func (t *rows) Create(ctx context.Context, key, column, value string) error {
	err := t.change(ctx, "PutRow", plainRow(key, map[string]string{column: value}, false), expectNotExist)
	if call.IsCode(err, conditionFailed) {
		return bucket.ErrExists
	}
	return err
}

// Delete implements bucket.Rows.
func (t *rows) Delete(ctx context.Context, key string) error {
	return t.change(ctx, "DeleteRow", plainRow(key, nil, true), ignore)
}

// DeleteValue implements bucket.Rows. It does not compare, as in OpenTofu.
func (t *rows) DeleteValue(ctx context.Context, key, _, _ string) error { return t.Delete(ctx, key) }

// change calls an operation that changes a row.
func (t *rows) change(ctx context.Context, operation string, row []byte, e expectation) error {
	_, err := t.ask(ctx, operation, message{}.text(1, t.table).bytes(2, row).bytes(3, message{}.number(1, uint64(e))))
	return err
}
