// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/instances/templatesource"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
)

func newTemplate(reg *cli.Registries) *cobra.Command {
	cmd := cli.Parent("template", "", "Write templates, and list those of a server")
	cmd.Long = `A template defines what users may launch from a server (okara serve): a module,
the inputs that they may choose, for how long, and who owns the result.

It is a file in the server's folder of templates, or an artifact in the registry
that a template_source block of the server allows.`
	cmd.AddCommand(
		newTemplateList(reg), newTemplateShow(reg), newTemplateValidate(reg), newTemplatePublish(reg), newTemplatePause(reg), newTemplateResume(reg),
	)
	return cmd
}

func readTemplates(paths []string) (map[string][]*template.Template, []string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil, nil, cli.UsageError("%s does not exist", path)
		case err != nil:
			return nil, nil, err
		case !info.IsDir():
			files = append(files, path)
			continue
		}
		found, err := templatesource.Files(path)
		if err != nil {
			return nil, nil, err
		}
		if len(found) == 0 {
			return nil, nil, cli.WithHint(cli.UsageError("no *.hcl files in %s", path), "name a template file, or the folder of `instances.templates`")
		}
		files = append(files, found...)
	}
	read := map[string][]*template.Template{}
	var all []error
	seen := map[string]string{}
	for _, file := range files {
		b, err := templatesource.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		list, err := template.Parse(b, file, template.Known{})
		if err != nil {
			all = append(all, err)
			continue
		}
		for _, t := range list {
			if first, ok := seen[t.Name]; ok {
				all = append(all, fmt.Errorf("template %s: %s:1: duplicate, also in %s", t.Name, file, first))
			}
			seen[t.Name] = file
		}
		read[file] = list
	}
	return read, files, errors.Join(all...)
}

type moduleFrom struct {
	dir     string           // of the module; "": read from the catalog
	catalog *catalog.Catalog // nil: there is no registry
}

func (m *moduleFrom) openCatalog(reg *cli.Registries) error {
	if m.dir != "" || reg.Named() == "" {
		return nil
	}
	client, layout, err := reg.Client()
	if err != nil {
		return err
	}
	m.catalog = catalog.New(catalog.Options{Client: client, Layout: layout, Logger: reg.WarnLogger()})
	return nil
}

// checkTemplate checks a template against its module. Known is false if there is no source for the
// module; Version is empty for a folder.
func (m *moduleFrom) checkTemplate(ctx context.Context, a *cli.App, t *template.Template) (version string, known bool, err error) {
	var described template.Module
	switch {
	case m.dir != "":
		if described, err = describeFolder(ctx, m.dir, t.Module); err != nil {
			return "", false, err
		}
	case m.catalog != nil:
		source, found, err := templatesource.Resolve(ctx, m.catalog, t.Module)
		if err != nil {
			return "", false, fmt.Errorf("template %s: %w", t.Name, err)
		}
		described = found
		version = source.Version
	default:
		return "", false, nil
	}
	for tool, what := range described.Refused {
		a.Note("warning: template %s: %s refuses the module: %s", t.Name, tool, what)
	}
	_, err = template.NewSchema(t, described)
	return version, true, err
}

func describeFolder(ctx context.Context, dir string, ref template.ModuleRef) (template.Module, error) {
	root, err := cli.OpenTree(dir)
	if err != nil {
		return template.Module{}, err
	}
	defer root.Close()
	m, err := addr.ParseModule(ref.Address)
	if err != nil {
		return template.Module{}, err
	}
	plan, err := depot.PlanModule(ctx, root.FS(), addr.ModuleVersion{Module: m}, depot.ModuleOptions{AllowInvalid: true})
	if err != nil {
		return template.Module{}, err
	}
	return templatesource.Described(plan.Description(), ref.Path)
}
