// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
)

func newTemplateValidate(reg *cli.Registries) *cobra.Command {
	var module moduleFrom
	cmd := &cobra.Command{
		Use:   "validate [PATH...]",
		Short: "Check templates",
		Long: `Check templates: files, and the files *.hcl of folders; without any, this
folder. Each error is printed with its template, file and line.

With --registry or OKARA_REGISTRY the module of each template is looked up
there, and the template is checked against its inputs and outputs. With --module
they are those of a folder. Without either no request is made, and the module is
not checked.

What only a server knows, its credentials and its config, is checked when it reads
the template.

Exit codes: 0 all are right, 1 something is wrong, 2 usage, 3 the registry has no such
module or version.`,
		Example: `  okara instance template validate templates
  okara instance template validate vpc.hcl --module ../modules/vpc
  okara instance template validate templates --registry registry.example.com/platform`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			if err := module.open(reg); err != nil {
				return err
			}
			return validateTemplates(cmd.Context(), reg.App, args, module)
		},
	}
	cmd.Flags().StringVar(&module.dir, "module", "", "check the templates against the module in this `DIR`")
	return cmd
}

// validated is one valid template.
type validated struct {
	Template string `json:"template"`
	File     string `json:"file"`
	Digest   string `json:"digest"`            // of what publishing would store
	Module   string `json:"module"`            // address
	Version  string `json:"version,omitempty"` // that the template means now
	Checked  bool   `json:"checked"`           // checked against its module
}

func validateTemplates(ctx context.Context, a *cli.App, paths []string, module moduleFrom) error {
	read, files, err := readTemplates(paths)
	if err != nil {
		return err
	}
	var right []validated
	var lines []string
	unseen := 0
	for _, file := range files {
		for _, t := range read[file] {
			digest, err := t.Digest()
			if err != nil {
				return err
			}
			version, known, err := module.check(ctx, t)
			if err != nil {
				return err
			}
			if !known {
				unseen++
			}
			right = append(right, validated{t.Name, file, digest, t.Module.Address, version, known})
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", t.Name, t.Module.Address, version)))
		}
	}
	if unseen > 0 {
		a.Note("their modules were not looked at; name the registry with --registry, or a module's folder with --module")
	}
	return a.PrintResult(right, strings.Join(lines, "\n"))
}
