// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/mcp"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/usage"
)

func newMCP(reg *cli.Registries) *cobra.Command {
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Start an MCP server that tells assistants about modules and providers",
		Long: `Start a server that answers an assistant's questions about modules and providers, with the
Model Context Protocol on standard input and output. The assistant or its editor starts
this command, which only reads.

` + readServerHelp + `

Exit codes: 0 done, 2 usage.`,
		Example: `  okara mcp --server https://okara.example.com
  okara mcp --registry registry.example.com/platform`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if server.TokenFile == "-" {
				return cli.UsageError("standard input carries the messages of the assistant: specify a file with --token-file")
			}
			if server.URL == "" && reg.Named() == "" && reg.Getenv("OKARA_SERVER") == "" {
				return cli.WithHint(cli.UsageError("no server and no registry given"), "specify --server URL, or --registry HOST[/PREFIX]")
			}
			from, err := openLister(reg, server)
			if err != nil {
				return err
			}
			uses, err := openUses(reg, server)
			if err != nil {
				return err
			}
			reg.Printed = true // only messages
			return mcp.Serve(cmd.Context(), terminalSource(reg, server, from, uses), reg.Version, reg.In, reg.Out)
		},
	}
	server.Add(cmd.Flags())
	return cli.WithoutJSON(cmd, "its output consists of protocol messages")
}

// terminalSource reads for an assistant with the credentials of the user.
func terminalSource(reg *cli.Registries, server cli.ServerFlags, from lister, uses usesSource) mcp.Source {
	s := mcp.Source{
		List: from.Versions, Explain: error.Error, Users: uses.askUsers,
		Open: func(ctx context.Context, it addr.Item, v addr.Version) (*catalog.Catalog, error) {
			t, err := selectRead(ctx, reg, server, it.String()+"@"+v.String(), nil)
			return t.catalog, err
		},
		Outdated: func(ctx context.Context) ([]usage.Outdated, bool, error) {
			all, err := uses.askOutdated(ctx)
			return all.States, all.Complete, err
		},
	}
	switch r := from.(type) {
	case frontLister:
		s.Host = r.c.Host()
		s.Find = func(ctx context.Context, query url.Values) (found search.Results, err error) {
			_, err = r.c.Call(ctx, http.MethodGet, "api/v1/search", query, nil, nil, &found)
			return found, listHint(err)
		}
	case registryLister:
		s.Registry = r.client.Host()
		finder := catalog.NewFinder(r.c, true)
		s.Find = func(ctx context.Context, query url.Values) (found search.Results, err error) {
			q, err := search.ParseQuery(query)
			if err != nil {
				return found, err
			}
			v, complete, err := finder.View(ctx, "", func(string, string) bool { return true })
			if err != nil {
				return found, err
			}
			found = v.Answer(q, func(string, string) int64 { return 0 })
			found.Complete = complete
			return found, nil
		}
	}
	return s
}
