// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/spf13/cobra"
)

// selected is the module or provider that an argument names, in the depot of
// --registry.
type selected struct {
	addr.Selection
	address string // as it was written
	depot   *depot.Depot
	catalog *catalog.Catalog
	repo    *oci.Repo
	version addr.Version // set by pick
}

// selectItem reads ADDRESS[@CONSTRAINT].
func selectItem(reg *cli.Registries, arg string, progress func(depot.Event)) (selected, error) {
	it, err := addr.ParseSelection(arg)
	if err != nil {
		return selected{}, cli.UsageError("%w", err)
	}
	client, layout, err := reg.Client()
	if err != nil {
		return selected{}, err
	}
	r, err := client.Repo(it.Repository(layout))
	address, _, _ := strings.Cut(arg, "@")
	return selected{Selection: it, address: address, depot: depot.New(depot.Options{Client: client, Layout: layout, Progress: progress}),
		catalog: catalog.New(catalog.Options{Client: client, Layout: layout, Logger: reg.WarnLogger()}), repo: r}, err
}

// pick is selectItem with the version that is meant.
func pick(ctx context.Context, reg *cli.Registries, arg string, progress func(depot.Event)) (selected, error) {
	t, err := selectItem(reg, arg, progress)
	if err == nil {
		_, t.version, err = itemVersion(ctx, t.catalog, t.Selection)
	}
	return t, err
}

// completeItems lets shells complete the first argument of commands, an address and
// perhaps its version, from the registry or the front-end of --server. What fails
// completes nothing, and says nothing.
func completeItems(reg *cli.Registries, commands ...*cobra.Command) {
	for _, c := range commands {
		c.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompleteTimeout)
			defer cancel()
			address, before, versions := versionWord(args, word)
			switch {
			case versions:
				return completeVersions(ctx, reg, cmd, address, before, word), cobra.ShellCompDirectiveNoFileComp
			case len(args) == 0 && strings.Contains(cmd.Use, "ADDRESS@"): // a version is to follow
				return completeAddresses(ctx, reg, cmd, word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			case len(args) == 0:
				return completeAddresses(ctx, reg, cmd, word), cobra.ShellCompDirectiveNoFileComp
			case strings.HasSuffix(cmd.Use, " DIR"), strings.HasSuffix(cmd.Use, " FILE"):
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// versionWord reports whether a word is about the version of an address, and what
// stands in it before that. Most shells have "ADDRESS@VERSION" in one word; bash
// parts words at "@".
func versionWord(args []string, word string) (address, before string, ok bool) {
	switch {
	case len(args) == 2 && args[1] == "@":
		return args[0], "", true
	case len(args) == 1 && word == "@":
		return args[0], "@", true
	case len(args) == 0:
		address, _, ok = strings.Cut(word, "@")
		return address, address + "@", ok
	}
	return "", "", false
}

func completeAddresses(ctx context.Context, reg *cli.Registries, cmd *cobra.Command, word string) []string {
	from, err := completionLister(reg, cmd)
	if err != nil {
		return nil
	}
	entries, err := from.List(ctx)
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Address, word) {
			found = append(found, e.Address)
		}
	}
	return found
}

func completeVersions(ctx context.Context, reg *cli.Registries, cmd *cobra.Command, address, before, word string) []string {
	it, err := addr.ParseItem(address)
	if err != nil {
		return nil
	}
	from, err := completionLister(reg, cmd)
	if err != nil {
		return nil
	}
	l, err := from.Versions(ctx, it)
	if err != nil {
		return nil
	}
	var found []string
	for _, v := range l.Versions {
		if text := before + v.String(); strings.HasPrefix(text, word) {
			found = append(found, text)
		}
	}
	return found
}

// completionLister is where a command finds its artifacts.
func completionLister(reg *cli.Registries, cmd *cobra.Command) (lister, error) {
	if cmd.Flag("server") == nil {
		return openRegistryLister(reg)
	}
	return openLister(reg, cli.ServerFlags{URL: cmd.Flag("server").Value.String(), TokenFile: cmd.Flag("token-file").Value.String()})
}
