// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/workspaceclient"
)

func newVariable(reg *cli.Registries) *cobra.Command {
	var f workspaceFlags
	var category string
	cmd := cli.Parent("variable", "", "List, set and delete the variables of a workspace")
	cmd.Long = `List, set and delete the variables that runs on the server get from a workspace.

Changing them requires the rights to write the workspace and to run in it. Variables of
variable sets are managed with the tfe provider.`
	set := newVariableSet(reg, &f, &category)
	remove := newVariableDelete(reg, &f, &category)
	cmd.AddCommand(newVariableList(reg, &f), set, remove)
	for _, c := range cmd.Commands() {
		c.Long += "\n\n" + workspaceHelp
		f.addTo(reg, c, true)
	}
	for _, c := range []*cobra.Command{set, remove} {
		c.PreRunE = func(_ *cobra.Command, args []string) error {
			if category != "terraform" && category != "env" {
				return cli.UsageError("--category %q must be terraform or env", category)
			}
			if c == set && category == "env" {
				if err := checkEnvironment(args[1]); err != nil {
					return cli.UsageError("%w", err)
				}
			}
			return nil
		}
		c.Flags().StringVar(&category, "category", "terraform", "`terraform|env`: a variable of the configuration, or an environment variable of the tool")
	}
	return cmd
}

func newVariableList(reg *cli.Registries, f *workspaceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list ORGANIZATION/WORKSPACE", Short: "List the variables of a workspace",
		Long:    "List the variables of a workspace, without those of variable sets. Sensitive values are\nnever shown.",
		Example: "  okara workspace variable list acme/shop --server https://okara.example.com",
		Args:    cobra.ExactArgs(1),
		RunE: f.withWorkspace(reg, func(ctx context.Context, c *workspaceclient.Client, p workspaceclient.Ref, _ []string) error {
			list, _, err := c.Variables(ctx, p)
			if err != nil {
				return err
			}
			rows := [][]string{{"KEY", "VALUE", "CATEGORY", "DESCRIPTION"}}
			for _, v := range list {
				value := "(sensitive)"
				if v.Value != nil {
					value = *v.Value
				}
				rows = append(rows, []string{v.Key, cli.OrDash(value), v.Category, cli.OrDash(v.Description)})
			}
			return reg.PrintResult(list, cli.Table(rows))
		}),
	}
}

func newVariableSet(reg *cli.Registries, f *workspaceFlags, category *string) *cobra.Command {
	var hcl, sensitive bool
	var description string
	cmd := &cobra.Command{
		Use: "set ORGANIZATION/WORKSPACE KEY [VALUE]", Short: "Create or change a variable of a workspace",
		Long: `Create a variable of a workspace, or change the one with this KEY. Without VALUE, the value
is read from standard input, which keeps a secret out of the list of processes.`,
		Example: `  okara workspace variable set acme/shop region eu-central-1
  okara workspace variable set acme/shop zones '["a", "b"]' --hcl
  okara workspace variable set acme/shop AWS_SECRET_ACCESS_KEY --category env --sensitive < key.txt`,
		Args: cobra.RangeArgs(2, 3),
	}
	fl := cmd.Flags()
	fl.BoolVar(&hcl, "hcl", false, "read VALUE as HCL, for lists and maps")
	fl.BoolVar(&sensitive, "sensitive", false, "never show the value again; needs a server with state keys")
	fl.StringVar(&description, "description", "", "`TEXT` for users")
	cmd.RunE = f.withWorkspace(reg, func(ctx context.Context, c *workspaceclient.Client, p workspaceclient.Ref, args []string) error {
		value, err := readValue(reg.App, args[1:])
		if err != nil {
			return err
		}
		attributes := map[string]any{"value": value}
		for name, v := range map[string]any{"hcl": hcl, "sensitive": sensitive, "description": description} {
			if fl.Changed(name) {
				attributes[name] = v
			}
		}
		if err := c.SetVariable(ctx, p, *category, args[0], attributes); err != nil {
			return err
		}
		return reg.PrintResult(map[string]string{"key": args[0], "category": *category}, fmt.Sprintf("set variable %s of workspace %s", args[0], p))
	})
	return cmd
}

func readValue(a *cli.App, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	if cli.IsTerminal(a.In) {
		return "", cli.WithHint(cli.UsageError("VALUE is required"), "specify it, or pass it on standard input: < FILE")
	}
	b, err := io.ReadAll(io.LimitReader(a.In, 1<<20))
	return strings.TrimRight(string(b), "\r\n"), err
}

func newVariableDelete(reg *cli.Registries, f *workspaceFlags, category *string) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "delete ORGANIZATION/WORKSPACE KEY", Short: "Delete a variable of a workspace",
		Long:    "Delete a variable of a workspace. Runs that have begun keep it.",
		Example: "  okara workspace variable delete acme/shop region",
		Args:    cobra.ExactArgs(2),
		RunE: f.withWorkspace(reg, func(ctx context.Context, c *workspaceclient.Client, p workspaceclient.Ref, args []string) error {
			if err := reg.ConfirmOverwrite(yes, fmt.Sprintf("delete variable %s of workspace %s", args[0], p)); err != nil {
				return err
			}
			if err := c.DeleteVariable(ctx, p, *category, args[0]); err != nil {
				return err
			}
			return reg.PrintResult(map[string]any{"key": args[0], "category": *category, "deleted": true}, fmt.Sprintf("deleted variable %s of workspace %s", args[0], p))
		}),
	}
	cli.AddYes(cmd.Flags(), &yes)
	return cmd
}
