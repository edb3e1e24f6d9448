// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
)

// validateModule runs init and validate of tofu or terraform over a copy of the files that would be published, as one
// that a root module calls, or else as a root module. With --force, what they refuse is a warning.
func validateModule(ctx context.Context, a *cli.App, root string, m addr.ModuleVersion, o depot.ModuleOptions) (err error) {
	var tool string
	for _, name := range []string{cmp.Or(a.Getenv("OKARA_TOFU"), "tofu"), cmp.Or(a.Getenv("OKARA_TERRAFORM"), "terraform")} {
		if path, err := exec.LookPath(name); err == nil {
			tool = cmp.Or(tool, path)
		}
	}
	if tool == "" {
		return cli.UsageError("--validate needs tofu or terraform on PATH")
	}
	dir, done, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	plan, err := copyPublished(ctx, root, filepath.Join(dir, copiedModule), m, o)
	if err != nil {
		return cli.PublishHint(err)
	}
	caller := writeCaller(plan, o.Dir)
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(caller), 0o600); err != nil {
		return err
	}
	found, err := validateFolder(ctx, tool, dir)
	if err == nil || !errors.Is(err, description.ErrInvalid) {
		return err
	}
	which := "refuses it"
	if !o.AllowInvalid {
		if _, asRoot := validateFolder(ctx, tool, filepath.Join(dir, copiedModule, filepath.FromSlash(o.Dir))); asRoot != nil {
			return cli.WithHint(err, "TF_VAR_NAME gives a variable a value; --force publishes the files as they are")
		}
		which = "takes it as a root module, and refuses it where it is called"
	}
	a.Note("warning: %s %s:\n%s", filepath.Base(tool), which, found)
	return nil
}

// copiedModule is the folder of the copy, below that of its caller.
const copiedModule = "package"

// writeCaller returns a root module that calls the copy of the module in dir with values of the declared types. What a
// source depends on is the name of a folder that there is.
func writeCaller(plan *depot.ModulePlan, dir string) string {
	m := plan.Description().Root
	var inputs struct {
		Required   []string
		Properties map[string]struct {
			Type  string `json:"x-okara-type"`
			Const bool   `json:"x-okara-const"`
		}
	}
	_ = json.Unmarshal(m.Inputs, &inputs) // absent where there are none
	var call, rest, sources, providers strings.Builder
	for _, name := range inputs.Required {
		fmt.Fprintf(&call, "  %s = var.%[1]s\n", name)
		fmt.Fprintf(&rest, "variable %q {\n  type = %s\n", name, cmp.Or(inputs.Properties[name].Type, "any"))
		if folder := findChosen(plan, dir, name); folder != "" {
			fmt.Fprintf(&rest, "  default = %q\n", folder)
		}
		if inputs.Properties[name].Const {
			rest.WriteString("  const = true\n")
		}
		rest.WriteString("}\n")
	}
	for _, p := range m.RequiredProviders {
		if len(p.Aliases) > 0 && p.Source != "" {
			fmt.Fprintf(&sources, "    %s = {\n      source = %q\n    }\n", p.Name, p.Source)
		}
		for _, alias := range p.Aliases {
			name, alias, _ := strings.Cut(alias, ".")
			fmt.Fprintf(&providers, "    %s.%s = %[1]s.%[2]s\n", name, alias)
			fmt.Fprintf(&rest, "provider %q {\n  alias = %q\n}\n", name, alias)
		}
	}
	return fmt.Sprintf("module \"m\" {\n  source = %q\n%s  providers = {\n%s  }\n}\nterraform {\n  required_providers {\n%s  }\n}\n%s",
		"./"+path.Join(copiedModule, dir), call.String(), providers.String(), sources.String(), rest.String())
}

// findChosen returns a folder of the package that a variable may choose in the source of a call.
func findChosen(plan *depot.ModulePlan, dir, variable string) string {
	for _, c := range plan.Description().Root.ModuleCalls {
		before, after, ok := strings.Cut(path.Join(dir, c.Source), "${var."+variable+"}")
		for _, f := range plan.Tree.Files {
			at, below := strings.CutPrefix(path.Dir(f.Path)+"/", before)
			if name, _, fits := strings.Cut(at, after+"/"); ok && below && before != "" && fits && name != "" && description.IsConfiguration(f.Path) {
				return name
			}
		}
	}
	return ""
}

func copyPublished(ctx context.Context, root, to string, m addr.ModuleVersion, o depot.ModuleOptions) (*depot.ModulePlan, error) {
	tree, err := cli.OpenOwn(ctx, root, &o)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	o.AllowInvalid = true // the tool says it
	plan, err := depot.PlanModule(ctx, tree.FS(), m, o)
	if err != nil {
		return nil, err
	}
	for _, f := range plan.Tree.Files {
		b, err := fs.ReadFile(tree.FS(), f.Path)
		at := filepath.Join(to, filepath.FromSlash(f.Path))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, b, 0o600)); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// validateFolder returns what the tool refuses, as text and as an [description.ErrInvalid].
func validateFolder(ctx context.Context, tool, dir string) (string, error) {
	run := func(both bool, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Dir, cmd.Env = dir, append(slices.DeleteFunc(os.Environ(), func(s string) bool {
			return strings.HasPrefix(s, "TF_CLI_ARGS") || strings.HasPrefix(s, "TF_DATA_DIR=") || strings.HasPrefix(s, "TF_WORKSPACE=")
		}), "TF_IN_AUTOMATION=1")
		if both {
			return cmd.CombinedOutput()
		}
		return cmd.Output()
	}
	var lines []string
	out, err := run(true, "init", "-backend=false", "-input=false", "-no-color")
	if err != nil {
		_, said, _ := strings.Cut(string(out), "\nError: ") // after what was installed
		lines = append(lines, "Error: "+strings.ReplaceAll(strings.TrimSpace(cmp.Or(said, string(out))), " on "+copiedModule+"/", " on "))
	}
	if err == nil {
		out, _ = run(false, "validate", "-json")           // its status repeats what the document says
		_, body, _ := strings.Cut("\n"+string(out), "\n{") // after warnings about the CLI configuration
		var doc struct {
			Diagnostics []struct {
				Severity, Summary, Detail string
				Range                     struct {
					Filename string
					Start    struct{ Line, Column int }
				}
			}
		}
		if err := json.Unmarshal([]byte("{"+body), &doc); err != nil {
			return "", fmt.Errorf("%s validate: %s", filepath.Base(tool), text.Excerpt(string(out)))
		}
		for _, d := range doc.Diagnostics {
			if at := d.Range; d.Severity == "error" && d.Summary != "Provider configuration not present" { // its caller has it
				lines = append(lines, fmt.Sprintf("%s:%d:%d: %s: %s", strings.TrimPrefix(at.Filename, copiedModule+"/"), at.Start.Line, at.Start.Column, d.Summary, d.Detail))
			}
		}
	}
	if len(lines) == 0 {
		return "", ctx.Err()
	}
	found := strings.Join(lines, "\n")
	return found, fmt.Errorf("%w for %s:\n%s", description.ErrInvalid, filepath.Base(tool), found)
}
