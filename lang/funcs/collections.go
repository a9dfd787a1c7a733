package funcs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/millipede-iac/millipede/lang/syntax"
)

func collections() family {
	return family{
		"alltrue": {allTrue(), "Tells whether every element of a list is true; an empty list counts as true."},
		"anytrue": {anyTrue(), "Tells whether at least one element of a list is true."},
		"chunklist": {stdlib.ChunklistFunc, "Cuts a list into lists of a given length; the last one may be " +
			"shorter."},
		"coalesce":     {coalesce(), "Gives the first of its arguments that is neither null nor an empty string."},
		"coalescelist": {stdlib.CoalesceListFunc, "Gives the first of its arguments that is a list with elements."},
		"compact":      {stdlib.CompactFunc, "Leaves the nulls and the empty strings out of a list of strings."},
		"concat":       {bounded(stdlib.ConcatFunc, added), "Joins lists into one."},
		"contains":     {contains(), "Tells whether a list or set has an element that is equal to a value."},
		"distinct":     {distinct(), "Leaves out the elements of a list that occurred before."},
		"element": {stdlib.ElementFunc, "Gives the element of a list at an index, which starts over when it is " +
			"past the end."},
		"flatten": {bounded(stdlib.FlattenFunc, flattened),
			"Replaces the lists inside a list by their elements, at every depth."},
		"index":  {index(), "Gives the index of the first element of a list that is equal to a value."},
		"keys":   {stdlib.KeysFunc, "Gives the keys of a map, or the attribute names of an object, sorted."},
		"length": {length(), "Counts the elements of a collection, or the characters of a string."},
		"lookup": {lookup(), "Gives the element of a map under a key, or a default when there is none."},
		"matchkeys": {matchKeys(), "Keeps the elements of a list whose counterpart in a list of keys is one of " +
			"the wanted keys."},
		"merge": {bounded(stdlib.MergeFunc, added),
			"Joins maps or objects into one; where they share a key, the last one wins."},
		"one":     {one(), "Gives the only element of a list or set, or null when it is empty."},
		"range":   {stdlib.RangeFunc, "Builds the list of the numbers from a start to a limit, in steps."},
		"reverse": {stdlib.ReverseListFunc, "Puts the elements of a list in the opposite order."},
		"slice": {stdlib.SliceFunc,
			"Takes the elements of a list from one index up to another that is left out."},
		"sort": {stdlib.SortFunc, "Sorts a list of strings by their Unicode code points."},
		"sum":  {sum(), "Adds up the numbers of a list or set."},
		"transpose": {transpose(), "Turns a map of lists of strings around: each string becomes a key that leads " +
			"to the keys it was under."},
		"values": {stdlib.ValuesFunc, "Gives the elements of a map, or the attributes of an object, in the " +
			"order of their keys."},
		"zipmap": {stdlib.ZipmapFunc, "Builds a map of a list of keys and a list of values."},
	}
}

func sets() family {
	return family{
		"setintersection": {stdlib.SetIntersectionFunc,
			"Gives the set of the elements that all of the given sets have."},
		"setproduct": {bounded(stdlib.SetProductFunc, multiplied),
			"Gives every combination that takes one element of each of the " +
				"given collections."},
		"setsubtract": {stdlib.SetSubtractFunc, "Gives the set of the elements of one set that another one lacks."},
		"setunion": {bounded(stdlib.SetUnionFunc, added),
			"Gives the set of the elements that at least one of the given sets has."},
	}
}

// allTrue is unknown as soon as it meets an unknown element.
func allTrue() function.Function {
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		for _, v := range args[0].AsValueSlice() {
			switch {
			case !v.IsKnown():
				return cty.UnknownVal(cty.Bool), nil
			case v.IsNull() || v.False():
				return cty.False, nil
			}
		}
		return cty.True, nil
	}, plain("list", cty.List(cty.Bool)))
}

// anyTrue is unknown only if no known element is true.
func anyTrue() function.Function {
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		answer := cty.False
		for _, v := range args[0].AsValueSlice() {
			switch {
			case !v.IsKnown():
				answer = cty.UnknownVal(cty.Bool)
			case !v.IsNull() && v.True():
				return cty.True, nil
			}
		}
		return answer, nil
	}, plain("list", cty.List(cty.Bool)))
}

// coalesce differs from go-cty's function in that it also skips empty strings.
func coalesce() function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{
			Name: "vals", Type: cty.DynamicPseudoType, AllowUnknown: true, AllowDynamicType: true, AllowNull: true,
		},
		Type: func(args []cty.Value) (cty.Type, error) {
			types := make([]cty.Type, len(args))
			for i, v := range args {
				types[i] = v.Type()
			}
			ty, _ := convert.UnifyUnsafe(types)
			if ty == cty.NilType {
				return ty, errors.New("the arguments have no type in common")
			}
			return ty, nil
		},
		RefineResult: notNull,
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			for i, arg := range args {
				v, err := syntax.Convert(arg, ty)
				switch {
				case err != nil:
					return cty.NilVal, function.NewArgError(i, err)
				case !v.IsKnown():
					return cty.UnknownVal(ty), nil
				case v.IsNull() || ty == cty.String && v.AsString() == "":
					continue
				}
				return v, nil
			}
			return cty.NilVal, errors.New("every argument is null or an empty string")
		},
	})
}

// distinct compares elements by their hashes first: all with all would take time with the square of the list.
func distinct() function.Function {
	return function.New(&function.Spec{
		Params: stdlib.DistinctFunc.Params(), RefineResult: notNull, Type: stdlib.DistinctFunc.ReturnTypeForValues,
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			list := args[0]
			if !list.IsWhollyKnown() || list.LengthInt() < 100 {
				return stdlib.Distinct(list)
			}
			var out []cty.Value
			seen := map[int][]cty.Value{}
			for it := list.ElementIterator(); it.Next(); {
				_, element := it.Element()
				hash := element.Hash()
				if !slices.ContainsFunc(seen[hash], element.RawEquals) {
					seen[hash] = append(seen[hash], element)
					out = append(out, element)
				}
			}
			return cty.ListVal(out), nil
		},
	})
}

// contains also finds null, which OpenTofu refuses to search for.
func contains() function.Function {
	value := plain("value", cty.DynamicPseudoType)
	value.AllowNull, value.AllowDynamicType = true, true // the literal null has no type
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		ty := args[0].Type()
		if !args[1].IsNull() || !ty.IsListType() && !ty.IsSetType() && !ty.IsTupleType() {
			return stdlib.Contains(args[0], args[1])
		}
		found := cty.False
		for it := args[0].ElementIterator(); it.Next(); {
			switch _, element := it.Element(); {
			case !element.IsKnown() && !element.Range().DefinitelyNotNull():
				found = cty.UnknownVal(cty.Bool)
			case element.IsKnown() && element.IsNull():
				return cty.True, nil
			}
		}
		return found, nil
	}, plain("list", cty.DynamicPseudoType), value)
}

// index differs from go-cty's function in its errors for arguments that are not lists.
func index() function.Function {
	return returning(cty.Number, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		list, wanted := args[0], args[1]
		if ty := list.Type(); !ty.IsListType() && !ty.IsTupleType() {
			return cty.NilVal, errors.New("only a list or a tuple has indexes")
		}
		for it := list.ElementIterator(); it.Next(); {
			i, v := it.Element()
			switch eq := v.Equals(wanted); {
			case !eq.IsKnown():
				return cty.UnknownVal(cty.Number), nil
			case eq.True():
				return i, nil
			}
		}
		return cty.NilVal, errors.New("no element of the list is equal to the value")
	}, plain("list", cty.DynamicPseudoType), plain("value", cty.DynamicPseudoType))
}

func length() function.Function {
	value := anything("value")
	value.AllowNull = false
	return function.New(&function.Spec{
		Params: []function.Parameter{value},
		Type: func(args []cty.Value) (cty.Type, error) {
			ty := args[0].Type()
			if ty.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType() || ty == cty.String ||
				ty == cty.DynamicPseudoType {
				return cty.Number, nil
			}
			return cty.Number, fmt.Errorf("only a string, a collection, a tuple or an object has a length, not %s",
				ty.FriendlyName())
		},
		RefineResult: notNull,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			switch ty := args[0].Type(); {
			case ty == cty.String:
				return stdlib.Strlen(args[0])
			case ty.IsObjectType():
				return cty.NumberIntVal(int64(len(ty.AttributeTypes()))).WithSameMarks(args[0]), nil
			default:
				return stdlib.Length(args[0])
			}
		},
	})
}

// lookup has an optional default; go-cty's function requires it.
func lookup() function.Function {
	fallback := anything("default")
	return function.New(&function.Spec{
		Params:   []function.Parameter{withMarks("inputMap", cty.DynamicPseudoType), withMarks("key", cty.String)},
		VarParam: &fallback,
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) > 3 {
				return cty.NilType, fmt.Errorf("lookup takes a map, a key and perhaps a default, but there are %d "+
					"arguments", len(args))
			}
			ty := args[0].Type()
			switch {
			case ty.IsMapType():
				if len(args) == 3 {
					if _, err := syntax.Convert(args[2], ty.ElementType()); err != nil {
						return cty.NilType, function.NewArgErrorf(2, "the default must fit the map's element type, %s",
							ty.ElementType().FriendlyName())
					}
				}
				return ty.ElementType(), nil
			case !ty.IsObjectType():
				return cty.NilType, function.NewArgErrorf(0, "a map is required, not %s", ty.FriendlyName())
			case !args[1].IsKnown():
				return cty.DynamicPseudoType, nil
			}
			key, keyMarks := args[1].Unmark()
			switch {
			case ty.HasAttribute(key.AsString()):
				return ty.AttributeType(key.AsString()), nil
			case len(args) == 3:
				return args[2].Type(), nil
			default:
				return cty.NilType, function.NewArgErrorf(0, "the object has no attribute %s",
					show(key.AsString(), keyMarks))
			}
		},
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			from, fromMarks := args[0].Unmark()
			key, keyMarks := args[1].Unmark()
			if from.Type().IsObjectType() {
				if from.Type().HasAttribute(key.AsString()) {
					return from.GetAttr(key.AsString()).WithMarks(fromMarks, keyMarks), nil
				}
			} else if from.HasIndex(key).True() {
				return from.Index(key).WithMarks(fromMarks, keyMarks), nil
			}
			if len(args) < 3 {
				return cty.NilVal, fmt.Errorf("the map has no element %s", show(key.AsString(), fromMarks, keyMarks))
			}
			v, err := syntax.Convert(args[2], ty)
			if err != nil {
				return cty.NilVal, function.NewArgError(2, err)
			}
			return v.WithMarks(fromMarks, keyMarks), nil
		},
	})
}

func matchKeys() function.Function {
	list := cty.List(cty.DynamicPseudoType)
	return function.New(&function.Spec{
		Params: []function.Parameter{plain("values", list), plain("keys", list), plain("searchset", list)},
		Type: func(args []cty.Value) (cty.Type, error) {
			if ty, _ := convert.UnifyUnsafe([]cty.Type{args[1].Type(), args[2].Type()}); ty == cty.NilType {
				return cty.NilType, errors.New("keys and searchset must have elements of one type")
			}
			return args[0].Type(), nil
		},
		RefineResult: notNull,
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			values, keys, wanted := args[0], args[1], args[2]
			if values.LengthInt() != keys.LengthInt() {
				return cty.NilVal, fmt.Errorf(
					"there must be as many keys as values, but there are %d keys for %d values",
					keys.LengthInt(), values.LengthInt())
			}
			if wanted.LengthInt() == 0 {
				return cty.ListValEmpty(ty.ElementType()), nil
			}
			if !values.IsWhollyKnown() || !keys.IsWhollyKnown() || !wanted.IsWhollyKnown() {
				return cty.UnknownVal(ty), nil
			}

			common, _ := convert.UnifyUnsafe([]cty.Type{keys.Type(), wanted.Type()})
			keys, err := syntax.Convert(keys, common)
			if err != nil {
				return cty.NilVal, function.NewArgError(1, err)
			}
			wanted, err = syntax.Convert(wanted, common)
			if err != nil {
				return cty.NilVal, function.NewArgError(2, err)
			}
			set := cty.SetVal(wanted.AsValueSlice())
			vals := values.AsValueSlice()
			var kept []cty.Value
			for i, key := range keys.AsValueSlice() {
				if set.HasElement(key).True() {
					kept = append(kept, vals[i])
				}
			}
			if len(kept) == 0 {
				return cty.ListValEmpty(ty.ElementType()), nil
			}
			return cty.ListVal(kept), nil
		},
	})
}

func one() function.Function {
	tooMany := func() error {
		return function.NewArgErrorf(0, "a list, set or tuple with no or one element is required")
	}
	return function.New(&function.Spec{
		Params: []function.Parameter{plain("list", cty.DynamicPseudoType)},
		Type: func(args []cty.Value) (cty.Type, error) {
			ty := args[0].Type()
			switch {
			case ty.IsListType() || ty.IsSetType():
				return ty.ElementType(), nil
			case ty.IsTupleType() && ty.Length() == 0:
				return cty.DynamicPseudoType, nil
			case ty.IsTupleType() && ty.Length() == 1:
				return ty.TupleElementType(0), nil
			default:
				return cty.NilType, tooMany()
			}
		},
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			if !args[0].Length().IsKnown() { // a set with unknown elements, some of which may turn out to be equal
				return cty.UnknownVal(ty), nil
			}
			switch elems := args[0].AsValueSlice(); len(elems) {
			case 0:
				return cty.NullVal(ty), nil
			case 1:
				return elems[0], nil
			default:
				return cty.NilVal, tooMany()
			}
		},
	})
}

func sum() function.Function {
	return returning(cty.Number, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if ty := args[0].Type(); !ty.IsListType() && !ty.IsSetType() && !ty.IsTupleType() {
			return cty.NilVal, function.NewArgErrorf(0, "a list, set or tuple of numbers is required, not %s",
				ty.FriendlyName())
		}
		if !args[0].IsWhollyKnown() {
			return cty.UnknownVal(cty.Number), nil
		}
		elems := args[0].AsValueSlice()
		if len(elems) == 0 {
			return cty.NilVal, function.NewArgErrorf(0, "an empty list has no sum")
		}
		for i, v := range elems {
			n, err := syntax.Convert(v, cty.Number)
			if errors.Is(err, syntax.ErrTooGreat) {
				return cty.NilVal, function.NewArgError(0, err)
			}
			if err != nil || n.IsNull() {
				return cty.NilVal, function.NewArgErrorf(0, "each element must be a number, and element %d is not", i)
			}
			elems[i] = n
		}
		if slices.ContainsFunc(elems, equalTo(cty.PositiveInfinity)) &&
			slices.ContainsFunc(elems, equalTo(cty.NegativeInfinity)) {
			return cty.NilVal, errors.New("the sum of opposite infinities is not defined")
		}
		total := elems[0]
		for _, v := range elems[1:] {
			total = total.Add(v)
		}
		return total, nil
	}, plain("list", cty.DynamicPseudoType))
}

func equalTo(want cty.Value) func(cty.Value) bool {
	return func(v cty.Value) bool { return v.RawEquals(want) }
}

func transpose() function.Function {
	ty := cty.Map(cty.List(cty.String))
	return returning(ty, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if !args[0].IsWhollyKnown() {
			return cty.UnknownVal(ty), nil
		}
		keysOf := map[string][]cty.Value{}
		for it := args[0].ElementIterator(); it.Next(); { // in the order of the keys, so the lists come out sorted
			key, list := it.Element()
			if list.IsNull() {
				return cty.NilVal, function.NewArgErrorf(0, "the list under %q is null", key.AsString())
			}
			for i, s := range list.AsValueSlice() {
				if s.IsNull() {
					return cty.NilVal, function.NewArgErrorf(0, "element %d of the list under %q is null", i,
						key.AsString())
				}
				keysOf[s.AsString()] = append(keysOf[s.AsString()], key)
			}
		}
		if len(keysOf) == 0 {
			return cty.MapValEmpty(cty.List(cty.String)), nil
		}
		out := make(map[string]cty.Value, len(keysOf))
		for s, keys := range keysOf {
			out[s] = cty.ListVal(keys)
		}
		return cty.MapVal(out), nil
	}, plain("values", ty))
}
