package instance

import (
	"reflect"
	"testing"

	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/wire"
)

// A field that is added to a task in the future also affects plans: a verdict that did not include it would be used
// although the request was different.
func TestAVerdictIsAboutEverythingThatIsAsked(t *testing.T) {
	whole := func() (*wire.Provider, *wire.PlanTask) {
		p, task := &wire.Provider{Mock: &wire.Mock{}}, &wire.PlanTask{Prior: &wire.StoredObject{},
			MovedFrom: &wire.MovedFrom{}, Import: &wire.ImportTask{}}
		return p, task
	}
	p, task := whole()
	s := &schema.Schema{}
	none := Digest(p, s, task)
	if Digest(p, &schema.Schema{Version: 1}, task) == none {
		t.Error("the digest of a verdict does not depend on the version of the schema")
	}
	seen := map[any]string{none: "nothing"}
	var each func(path string, at func() (reflect.Value, func() any))
	each = func(path string, at func() (reflect.Value, func() any)) {
		v, _ := at()
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			field := func() (reflect.Value, func() any) {
				v, verdict := at()
				return v.Field(i), verdict
			}
			switch name {
			case "Provider.Address", "Provider.Config", "Provider.Dir":
				continue // Digest stands for the configuration and for whose it is
			}
			f, verdict := field()
			switch f.Kind() {
			case reflect.Struct:
				each(name, field)
				continue
			case reflect.Pointer:
				each(name, func() (reflect.Value, func() any) {
					f, verdict := field()
					return f.Elem(), verdict
				})
				f.SetZero()
			default:
				fill(t, f)
			}
			got := verdict()
			if other, twice := seen[got]; twice {
				t.Errorf("the verdicts with a changed %s and a changed %s have the same digest", name, other)
			}
			seen[got] = name
		}
	}
	each("Provider", func() (reflect.Value, func() any) {
		p, task := whole()
		return reflect.ValueOf(p).Elem(), func() any { return Digest(p, s, task) }
	})
	each("PlanTask", func() (reflect.Value, func() any) {
		p, task := whole()
		return reflect.ValueOf(task).Elem(), func() any { return Digest(p, s, task) }
	})
}

// fill sets a field to a value that differs from its zero value.
func fill(t *testing.T, f reflect.Value) {
	t.Helper()
	switch f.Interface().(type) {
	case string:
		f.SetString("x")
	case bool:
		f.SetBool(true)
	case int64:
		f.SetInt(7)
	case []byte:
		f.SetBytes([]byte("x"))
	case []string:
		f.Set(reflect.ValueOf([]string{"x"}))
	case [][]byte:
		f.Set(reflect.ValueOf([][]byte{[]byte("x")}))
	case map[string]string:
		f.Set(reflect.ValueOf(map[string]string{"k": "v"}))
	default:
		t.Fatalf("fill does not support fields of the kind %s", f.Type())
	}
}

func TestPartsOfAVerdictDoNotRunIntoEachOther(t *testing.T) {
	p, s := &wire.Provider{}, &schema.Schema{}
	a := Digest(p, s, &wire.PlanTask{Config: []byte("ab"), Meta: []byte("c")})
	b := Digest(p, s, &wire.PlanTask{Config: []byte("a"), Meta: []byte("bc")})
	if a == b {
		t.Error("different tasks have the same verdict")
	}
}
