package funcs

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func dates() family {
	return family{
		"formatdate": {stdlib.FormatDateFunc, "Writes a timestamp in another form, given by a pattern such as \"DD " +
			"MMM YYYY\"."},
		"timeadd": {stdlib.TimeAddFunc, "Adds a duration such as \"1h30m\" to a timestamp."},
		"timecmp": {timeCmp(), "Compares two timestamps: -1 when the first is earlier, 0 when they are the same " +
			"moment, 1 when it is later."},
	}
}

// planned contains the function that returns the time of the plan.
func planned(at time.Time) family {
	return family{"plantimestamp": {
		returning(cty.String, func([]cty.Value, cty.Type) (cty.Value, error) {
			if at.IsZero() {
				return cty.UnknownVal(cty.String), nil
			}
			return cty.StringVal(at.Format(time.RFC3339)), nil
		}),
		"Gives the moment of the plan, the same for all calls of one run.",
	}}
}

// impure contains the functions whose result differs at each call. If deferred is set, they return unknown values.
func impure(now func() time.Time, deferred bool) family {
	f := family{
		"bcrypt": {bcryptHash(), "Hashes a password with bcrypt and a fresh salt."},
		"timestamp": {
			returning(cty.String, func([]cty.Value, cty.Type) (cty.Value, error) {
				return cty.StringVal(now().UTC().Format(time.RFC3339)), nil
			}),
			"Gives the moment of the call, in UTC; it is known only when changes are applied.",
		},
		"uuid": {
			returning(cty.String, func([]cty.Value, cty.Type) (cty.Value, error) {
				id, err := uuid.NewRandom()
				if err != nil {
					return cty.NilVal, fmt.Errorf("drawing a random UUID: %w", err)
				}
				return cty.StringVal(id.String()), nil
			}),
			"Gives a random UUID, another one at each call; it is known only when changes are applied.",
		},
	}
	if deferred {
		for name, b := range f {
			f[name] = builtin{function.Unpredictable(b.fn), b.doc}
		}
	}
	return f
}

func timeCmp() function.Function {
	return returning(cty.Number, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		a, err := rfc3339(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		b, err := rfc3339(args[1].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(1, err)
		}
		return cty.NumberIntVal(int64(a.Compare(b))), nil
	}, plain("timestamp_a", cty.String), plain("timestamp_b", cty.String))
}

// rfc3339 parses a timestamp. Its errors describe the parts of a timestamp in words, not by the numbers of Go's
// layouts.
func rfc3339(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	var wrong *time.ParseError
	switch {
	case err == nil:
		return t, nil
	case !errors.As(err, &wrong):
		return time.Time{}, err
	case wrong.Message != "":
		return time.Time{}, fmt.Errorf("%q is not an RFC 3339 timestamp%s", s, wrong.Message)
	}
	part, ok := map[string]string{
		"2006": "a year", "01": "a month", "02": "a day", "15": "an hour", "04": "a minute", "05": "a second",
		"Z07:00": "a UTC offset",
	}[wrong.LayoutElem]
	if !ok {
		part = fmt.Sprintf("%q", wrong.LayoutElem)
	}
	if wrong.ValueElem == "" {
		return time.Time{}, fmt.Errorf("%q is not an RFC 3339 timestamp: it ends where %s should be", s, part)
	}
	return time.Time{}, fmt.Errorf("%q is not an RFC 3339 timestamp: %q is where %s should be", s,
		wrong.ValueElem, part)
}
