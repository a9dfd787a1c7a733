package history

import "testing"

func TestTheModuleOfAnAddressIsFound(t *testing.T) {
	for address, want := range map[string]string{
		"aws_vpc.main":                           "",
		"module.a.aws_vpc.main":                  "module.a",
		`module.a["x.module.y"].module.b[0].x.y`: `module.a["x.module.y"].module.b[0]`,
		`module.a["q\".z"].data.x.y["module.c"]`: `module.a["q\".z"]`,
		"module_x.y":                             "",
	} {
		if got := moduleOf(address); got != want {
			t.Errorf("the module of %s is %q, want %q", address, got, want)
		}
	}
}
