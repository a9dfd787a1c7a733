package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// definition is a function: its signature, and its implementation.
type definition struct {
	name string
	function.Definition
	run func(ctx context.Context, args function.ArgumentsData, result *function.ResultData) *function.FuncError
}

// functions are all functions. The calls are on the record of the environment, not on that of a provider block:
// functions work without one.
var functions = []definition{
	{"join_upper", function.Definition{
		Summary:     "Joins two texts, in capitals",
		Description: "join_upper(\"a\", \"b\") is \"A-B\".",
		Parameters:  []function.Parameter{function.StringParameter{Name: "a"}, function.StringParameter{Name: "b"}},
		Return:      function.StringReturn{},
	}, joinUpper},
	{"total", function.Definition{
		Summary:           "Adds numbers",
		VariadicParameter: function.NumberParameter{Name: "numbers"},
		Return:            function.Float64Return{},
	}, total},
	{"or_else", function.Definition{
		Summary: "The first text, or the second where that is null",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "text", AllowNullValue: true}, function.StringParameter{Name: "fallback"},
		},
		Return: function.StringReturn{},
	}, orElse},
	{"describe", function.Definition{
		Summary: "A machine in words",
		Parameters: []function.Parameter{function.ObjectParameter{Name: "machine", AttributeTypes: map[string]attr.Type{
			"name": types.StringType, "ports": types.ListType{ElemType: types.Int64Type},
		}}},
		Return: function.MapReturn{ElementType: types.StringType},
	}, describe},
	{"echo", function.Definition{
		Summary: "Any value, as it is",
		Parameters: []function.Parameter{function.DynamicParameter{Name: "value", AllowNullValue: true,
			AllowUnknownValues: true}},
		Return: function.DynamicReturn{},
	}, echo},
	{"refuse", function.Definition{
		Summary: "Fails, because of its second argument",
		Parameters: []function.Parameter{function.StringParameter{Name: "first"},
			function.StringParameter{Name: "reason"}},
		Return:             function.StringReturn{},
		DeprecationMessage: "Nobody needs it.",
	}, refuse},
	{"nap", function.Definition{
		Summary:    "Lasts a number of milliseconds, which it returns",
		Parameters: []function.Parameter{function.Int64Parameter{Name: "ms"}},
		Return:     function.Int64Return{},
	}, nap},
}

// call is a function as the framework wants it.
type call struct {
	definition
	stage *act.Stage
}

// Metadata names the function.
func (c *call) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = c.name
}

// Definition returns the signature.
func (c *call) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = c.definition.Definition
}

// Run records the call and makes it.
func (c *call) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	err := c.stage.Do(ctx, record.Entry{Op: record.Function, Type: c.name}, act.Script{}, func(*record.Entry) error {
		if resp.Error = c.run(ctx, req.Arguments, &resp.Result); resp.Error != nil {
			return errors.New(resp.Error.Text)
		}
		return nil
	})
	if err != nil && resp.Error == nil {
		resp.Error = function.NewFuncError(err.Error())
	}
}

func joinUpper(ctx context.Context, args function.ArgumentsData, result *function.ResultData) *function.FuncError {
	var a, b string
	if err := args.Get(ctx, &a, &b); err != nil {
		return err
	}
	return result.Set(ctx, strings.ToUpper(a+"-"+b))
}

func total(ctx context.Context, args function.ArgumentsData, result *function.ResultData) *function.FuncError {
	var numbers []float64
	if err := args.Get(ctx, &numbers); err != nil {
		return err
	}
	sum := 0.0
	for _, n := range numbers {
		sum += n
	}
	return result.Set(ctx, sum)
}

func orElse(ctx context.Context, args function.ArgumentsData, result *function.ResultData) *function.FuncError {
	var text *string
	var fallback string
	if err := args.Get(ctx, &text, &fallback); err != nil {
		return err
	}
	if text != nil {
		fallback = *text
	}
	return result.Set(ctx, fallback)
}

func describe(ctx context.Context, args function.ArgumentsData, result *function.ResultData) *function.FuncError {
	var machine struct {
		Name  string  `tfsdk:"name"`
		Ports []int64 `tfsdk:"ports"`
	}
	if err := args.Get(ctx, &machine); err != nil {
		return err
	}
	return result.Set(ctx, map[string]string{
		"title": "machine " + machine.Name, "ports": strings.Trim(fmt.Sprint(machine.Ports), "[]"),
	})
}

func echo(ctx context.Context, args function.ArgumentsData, result *function.ResultData) *function.FuncError {
	var value types.Dynamic
	if err := args.Get(ctx, &value); err != nil {
		return err
	}
	return result.Set(ctx, value)
}

func refuse(ctx context.Context, args function.ArgumentsData, _ *function.ResultData) *function.FuncError {
	var first, reason string
	if err := args.Get(ctx, &first, &reason); err != nil {
		return err
	}
	return function.NewArgumentFuncError(1, "refused: "+reason)
}

func nap(ctx context.Context, args function.ArgumentsData, result *function.ResultData) *function.FuncError {
	var ms int64
	if err := args.Get(ctx, &ms); err != nil {
		return err
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return function.NewFuncError("the nap was cancelled")
	case <-timer.C:
		return result.Set(ctx, ms)
	}
}
