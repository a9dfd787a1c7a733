package funcs_test

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/funcs"
)

func TestDates(t *testing.T) {
	same{
		"timeadd leaves fractions out": {`timeadd("2017-11-22T00:00:00.9Z", "100ms")`,
			`"2017-11-22T00:00:01Z"`},
		"timecmp compares moments, not texts": {`timecmp("2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00")`, `0`},
		"timecmp says which is earlier": {
			`[timecmp("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"), ` +
				`timecmp("2021-01-01T00:00:00Z", "2020-01-01T00:00:00Z")]`, `[-1, 1]`},
		"timecmp takes an hour of one digit": {`timecmp("2020-01-01T3:00:00Z", "2020-01-01T03:00:00Z")`, `0`},
		"formatdate writes a timestamp in words": {`formatdate("EEEE, D MMM YYYY hh:mm ZZZ", "2020-01-02T03:04:05Z")`,
			`"Thursday, 2 Jan 2020 03:04 UTC"`},
	}.prove(t, funcs.Options{})
	refused{
		"no timestamp at all": {`timecmp("bogus", "x")`, badArgument, `"bogus" is where a year should be`, ""},
		"a timestamp that ends early": {`timecmp("2020-01-01T00:00:00", "x")`, badArgument,
			"it ends where a UTC offset should be", ""},
		"a month that is none": {`timecmp("2020-13-01T00:00:00Z", "x")`, badArgument, "month out of range", ""},
		"a wrong separator": {`timecmp("2020/01/01T00:00:00Z", "x")`, badArgument,
			`is where "-" should be`, ""},
		"the second one": {`timecmp("2020-01-01T00:00:00Z", "2020-01-01")`, badArgument,
			`"timestamp_b"`, ""},
		"a duration in days":  {`timeadd("2017-11-22T00:00:00Z", "1d")`, badCall, "unknown unit", ""},
		"timeadd is stricter": {`timeadd("2017-11-22T7:00:00Z", "1h")`, badCall, "", ""},
	}.prove(t, funcs.Options{})
}
