package s3

import (
	"context"

	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/aws"
	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// rows are the items of a DynamoDB table.
type rows struct {
	client          *aws.Client
	table, endpoint string
}

// item is an item of the table: values of DynamoDB's type S by attribute.
type item map[string]struct{ S string }

// keyAttribute is the key of the table.
const keyAttribute = "LockID"

// ask calls an operation of DynamoDB on the table.
func (r *rows) ask(ctx context.Context, operation string, in map[string]any, out any) error {
	in["TableName"] = r.table
	return r.client.Ask(ctx, "dynamodb", r.endpoint, "DynamoDB_20120810."+operation, "1.0", in, out)
}

func (r *rows) find(ctx context.Context, key, column string) (item, error) {
	var answer struct{ Item item }
	err := r.ask(ctx, "GetItem", map[string]any{
		"Key": item{keyAttribute: {key}}, "ProjectionExpression": keyAttribute + ", " + column, "ConsistentRead": true,
	}, &answer)
	return answer.Item, err
}

// Get implements bucket.Rows.
func (r *rows) Get(ctx context.Context, key, column string) (string, error) {
	found, err := r.find(ctx, key, column)
	return found[column].S, err
}

// Put implements bucket.Rows.
func (r *rows) Put(ctx context.Context, key, column, value string) error {
	return r.ask(ctx, "PutItem", map[string]any{"Item": item{keyAttribute: {key}, column: {value}}}, nil)
}

// Create implements bucket.Rows.
func (r *rows) Create(ctx context.Context, key, column, value string) error {
	err := r.ask(ctx, "PutItem", map[string]any{
		"Item":                item{keyAttribute: {key}, column: {value}},
		"ConditionExpression": "attribute_not_exists(" + keyAttribute + ")",
	}, nil)
	if refused(err) {
		return bucket.ErrExists
	}
	return err
}

// refused reports whether the condition of a request was not met.
func refused(err error) bool { return call.IsCode(err, "ConditionalCheckFailedException") }

// Delete implements bucket.Rows.
func (r *rows) Delete(ctx context.Context, key string) error {
	return r.ask(ctx, "DeleteItem", map[string]any{"Key": item{keyAttribute: {key}}}, nil)
}

// DeleteValue implements bucket.Rows.
func (r *rows) DeleteValue(ctx context.Context, key, column, value string) error {
	err := r.ask(ctx, "DeleteItem", map[string]any{
		"Key": item{keyAttribute: {key}}, "ConditionExpression": column + " = :info",
		"ExpressionAttributeValues": item{":info": {value}},
	}, nil)
	if refused(err) {
		if left, err := r.find(ctx, key, column); err == nil && left == nil {
			return nil // it was deleted by an attempt whose response was lost
		}
		return bucket.ErrChanged
	}
	return err
}
