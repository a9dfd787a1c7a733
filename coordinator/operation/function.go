package operation

import (
	"context"
	"errors"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// providerFunction returns a function that a worker executes. While a plan is applied, a stop does not end a call
// in progress: its vertex would fail, although nothing is wrong with it.
func (s *Session) providerFunction(phase values.Phase, p addr.Provider, name string,
	sig provider.Function) function.Function {
	spec := &function.Spec{
		Description: sig.Summary,
		Type:        function.StaticReturnType(sig.Return),
	}
	for _, q := range sig.Parameters {
		spec.Params = append(spec.Params, parameter(q))
	}
	if v := sig.VariadicParameter; v != nil {
		q := parameter(*v)
		spec.VarParam = &q
	}
	spec.Impl = func(args []cty.Value, ret cty.Type) (cty.Value, error) {
		task := &wire.FunctionTask{Name: name}
		for i, a := range args {
			ty := cty.DynamicPseudoType
			if i < len(sig.Parameters) {
				ty = sig.Parameters[i].Type
			} else if sig.VariadicParameter != nil {
				ty = sig.VariadicParameter.Type
			}
			b, err := coding.EncodeValue(a, ty)
			if err != nil {
				return cty.DynamicVal, function.NewArgError(i, err)
			}
			task.Args = append(task.Args, b)
		}
		// Evaluation has no context of its own, so the call ends with the session's Stop.
		again := s.Stop.stopping()
		ctx := again
		if phase == values.Applying {
			ctx = s.Stop.running(ctx)
		}
		res, diags := s.callFunction(ctx, again, p, task)
		if err := diags.Err(); err != nil {
			return cty.DynamicVal, err
		}
		if res.Function == nil {
			return cty.DynamicVal, errors.New("the worker's answer holds no result")
		}
		if res.Function.Error != "" {
			if res.Function.ErrorArg >= 0 && res.Function.ErrorArg < len(args) {
				return cty.DynamicVal, function.NewArgError(res.Function.ErrorArg, errors.New(res.Function.Error))
			}
			return cty.DynamicVal, errors.New(res.Function.Error)
		}
		return coding.DecodeValue(res.Function.Value, ret)
	}
	return function.New(spec)
}

func parameter(p provider.Parameter) function.Parameter {
	return function.Parameter{
		Name: p.Name, Type: p.Type, Description: p.Description,
		AllowNull: p.AllowNullValue, AllowUnknown: p.AllowUnknownValues, AllowDynamicType: true,
	}
}

// callFunction has this process, or a worker of one of the pools that may be asked, execute a function.
func (s *Session) callFunction(ctx, again context.Context, p addr.Provider, f *wire.FunctionTask) (*wire.Result,
	diag.List) {
	task := &wire.Task{
		Address: p.Display(), Provider: wire.Provider{Package: s.Package(p), Address: p.String(), Dir: s.Dir},
		Function: f,
	}
	if s.Own != nil && !s.Embedded {
		if res := s.Own(ctx, task); res != nil {
			return res, wire.DiagsFromWire(res.Diagnostics)
		}
	}
	by := ""
	return s.callWith(ctx, again, task, s.firstAsked(p, nil, &by))
}
