package cliconfig

import "testing"

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"plugin_cache_dir = \"$HOME/x\"\nhost \"example.com\" {\n  services = { \"modules.v1\" = " +
			"\"https://example.com/\" }\n}\n",
		"provider_installation {\n  dev_overrides { \"a/b\" = \"/x\" }\n  filesystem_mirror {\n    path = \"/y\"\n   " +
			" include = [\"*/*\"]\n  }\n  network_mirror { url = \"https://m/\" }\n  direct { exclude = " +
			"[\"a/*\"] }\n}\n",
		"credentials \"app.example.com\" { token = \"t\" }\ncredentials_helper \"store\" { args = [\"-x\"] " +
			"}\nregistry_protocols { retry_count = 2 }\n",
		`{"provider_installation": [{"direct": [{}]}], "credentials": {"a.b": {"token": 1}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var c Config
		if c.parse("rc", text).HasErrors() {
			return
		}
		for _, m := range c.Methods {
			for _, pattern := range m.Include {
				if why := checkPattern(pattern); why != "" {
					t.Errorf("the pattern %q was taken: %s", pattern, why)
				}
			}
		}
	})
}
