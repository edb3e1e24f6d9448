// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

func newTemplatePublish(reg *cli.Registries) *cobra.Command {
	var name string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "publish FILE VERSION",
		Short: "Publish a template as an artifact",
		Long: `Publish a template as an artifact of the registry. Servers use it if a
template_source block allows it.

VERSION is a semantic version. It cannot be changed: publishing the same template
again succeeds without a push, a different one is refused. The template is checked
against its module; a module that the registry does not have yet is not an
error.

Prints repository:tag@digest, with --dry-run the JSON that would be stored.

Exit codes: 0 published or already there, 1 invalid template, 2 usage, 4 the
version exists with another template, 5 denied.`,
		Example: `  okara instance template publish vpc.hcl 1.0.0 --registry registry.example.com/platform
  okara instance template publish all.hcl 1.0.0 --name sandbox/vpc
  okara instance template publish vpc.hcl 1.0.0 --dry-run`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := addr.ParseVersion(args[1])
			if err != nil {
				return cli.UsageError("%w", err)
			}
			t, err := readTemplate(args[0], name)
			if err != nil {
				return err
			}
			if dryRun {
				return printTemplate(reg.App, t)
			}
			out, err := publishTemplate(cmd.Context(), reg, t, v)
			if err != nil {
				return cli.PublishHint(err)
			}
			return cli.PrintPublished(reg.App, out)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the `TEMPLATE` of a file with several")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be stored, without pushing")
	return cmd
}

func readTemplate(file, name string) (*template.Template, error) {
	read, files, err := readTemplates([]string{file})
	if err != nil {
		return nil, err
	}
	if len(files) != 1 || files[0] != file {
		return nil, cli.UsageError("%s is a folder; specify a file", file)
	}
	list := read[file]
	for _, t := range list {
		if t.Name == name || name == "" && len(list) == 1 {
			return t, nil
		}
	}
	if name != "" {
		return nil, cli.UsageError("%s has no template %s", file, name)
	}
	return nil, cli.WithHint(cli.UsageError("%s has %s, expected one", file, text.Plural(len(list), "template")), "select one with --name NAMESPACE/NAME")
}

func printTemplate(a *cli.App, t *template.Template) error {
	b, err := t.Canonical()
	if err != nil {
		return err
	}
	return a.PrintResult(json.RawMessage(b), string(b))
}

func publishTemplate(ctx context.Context, reg *cli.Registries, t *template.Template, v addr.Version) (depot.Published, error) {
	client, layout, err := reg.Client()
	if err != nil {
		return depot.Published{}, err
	}
	body, err := t.Canonical()
	if err != nil {
		return depot.Published{}, err
	}
	var module moduleFrom
	if err := module.openCatalog(reg); err != nil {
		return depot.Published{}, err
	}
	switch _, _, err := module.checkTemplate(ctx, reg.App, t); {
	case err != nil && errors.Is(err, oci.ErrNotFound):
		reg.Note("warning: %v", err)
	case err != nil:
		return depot.Published{}, fmt.Errorf("%w; nothing was published", err)
	}
	return depot.New(depot.Options{Client: client, Layout: layout}).PublishTemplate(ctx, t.Name, v, body)
}

func newTemplateValidate(reg *cli.Registries) *cobra.Command {
	var module moduleFrom
	cmd := &cobra.Command{
		Use:   "validate [PATH...]",
		Short: "Check templates",
		Long: `Check templates: files, and the *.hcl files of folders; by default those of
this folder. Each error is printed with its template, file and line.

With --registry or OKARA_REGISTRY the module of each template is looked up
there, and the template is checked against its inputs and outputs. With --module
they are those of a folder. Without either no request is made, and the module is
not checked.

What only a server knows, its credentials and its config, is checked when it reads
the template.

Exit codes: 0 all are valid, 1 invalid template, 2 usage, 3 module or version not
found in the registry.`,
		Example: `  okara instance template validate templates
  okara instance template validate vpc.hcl --module ../modules/vpc
  okara instance template validate templates --registry registry.example.com/platform`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			if err := module.openCatalog(reg); err != nil {
				return err
			}
			return validateTemplates(cmd.Context(), reg.App, args, module)
		},
	}
	cmd.Flags().StringVar(&module.dir, "module", "", "check the templates against the module in this `DIR`")
	return cmd
}

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
			version, known, err := module.checkTemplate(ctx, a, t)
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
		a.Note("their modules were not checked; set the registry with --registry, or a module's folder with --module")
	}
	return a.PrintResult(right, strings.Join(lines, "\n"))
}
