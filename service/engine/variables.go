package engine

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/syntax"
	"github.com/millipede-iac/millipede/service/work"
)

func makeDir(dir string) error { return os.MkdirAll(dir, 0o700) }

// writeVariables writes the values of a run's variables to files outside of its configuration: weak ones, which the
// files of the configuration win over, and strong ones, which win over all.
func writeVariables(j *work.Job) (weak, strong []string, err error) {
	for run, files := range map[bool]*[]string{false: &weak, true: &strong} {
		f := hclwrite.NewEmptyFile()
		text := []byte{}
		for _, v := range j.Variables {
			if v.Run != run {
				continue
			}
			if !hclsyntax.ValidIdentifier(v.Name) {
				continue // no configuration can declare it
			}
			if v.HCL {
				// It must be an expression and nothing behind it, which would be the values of other variables.
				expression := hcl.Pos{Line: 1, Column: 1}
				_, problems := syntax.ParseExpression([]byte(v.Text), "the value of "+v.Name, expression)
				if problems.HasErrors() {
					return nil, nil, fmt.Errorf("the value of the variable %s is not an expression: %s", v.Name,
						problems[0].Detail)
				}
				text = append(text, (v.Name + " = " + v.Text + "\n")...)
			} else {
				f.Body().SetAttributeValue(v.Name, cty.StringVal(v.Text))
			}
		}
		text = append(text, f.Bytes()...)
		if len(text) == 0 {
			continue
		}
		name := filepath.Join(j.Scratch, map[bool]string{false: "workspace.tfvars", true: "run.tfvars"}[run])
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return nil, nil, err
		}
		*files = append(*files, name)
	}
	return weak, strong, nil
}
