// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// selected is the module or provider that an argument names, in the depot of --registry or
// through a front-end.
type selected struct {
	addr.Selection
	address string // as it was written
	depot   *depot.Depot
	catalog *catalog.Catalog
	repo    *oci.Repo
	version addr.Version    // set by pick, as is status
	status  evidence.Status // of version
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
	return selectedIn(reg, depot.Options{Client: client, Layout: layout, Progress: progress}, arg, it)
}

func selectedIn(reg *cli.Registries, o depot.Options, arg string, it addr.Selection) (selected, error) {
	r, err := o.Client.Repo(it.Repository(o.Layout))
	address, _, _ := strings.Cut(arg, "@")
	return selected{Selection: it, address: address, depot: depot.New(o),
		catalog: catalog.New(catalog.Options{Client: o.Client, Layout: o.Layout, Logger: reg.WarnLogger()}), repo: r}, err
}

// selectRead is selectItem for commands that only read: with --server it finds the selected
// version through the front-end.
func selectRead(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, arg string, progress func(depot.Event)) (selected, error) {
	front, err := cli.OpenFrontEnd(reg, s, progress)
	if err != nil {
		return selected{}, err
	}
	if front == nil {
		return selectItem(reg, arg, progress)
	}
	it, err := addr.ParseSelection(arg)
	if err != nil {
		return selected{}, cli.UsageError("%w", err)
	}
	v, err := frontVersion(ctx, front, it)
	if err != nil {
		return selected{}, listHint(err)
	}
	client, layout, err := front.Content(ctx, it.Item, v)
	if err != nil {
		return selected{}, listHint(err)
	}
	if it, err = addr.ParseSelection(it.Item.String() + "@" + v.String()); err != nil {
		return selected{}, err
	}
	return selectedIn(reg, depot.Options{Client: client, Layout: layout, LayoutFromServer: true, Progress: progress}, arg, it)
}

// frontVersion finds the selected version. An exact version is returned unchecked: the
// front-end reports later if it does not exist.
func frontVersion(ctx context.Context, front *client.Client, it addr.Selection) (addr.Version, error) {
	if exact, err := addr.ParseVersion(it.Versions); err == nil {
		return exact, nil
	}
	l, err := front.Versions(ctx, it.Item)
	if err != nil {
		return addr.Version{}, err
	}
	there := &catalog.Versions{Listing: l, Listed: slices.DeleteFunc(slices.Clone(l.Versions), func(v addr.Version) bool { return l.Status(v).Yanked != nil })}
	v, ok := selectVersion(there, it)
	if !ok {
		return v, noneSelected(there, it)
	}
	return v, nil
}

func pickVersion(ctx context.Context, reg *cli.Registries, arg string, progress func(depot.Event)) (selected, error) {
	t, err := selectItem(reg, arg, progress)
	return t.withVersion(ctx, err)
}

func pickRead(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, arg string, progress func(depot.Event)) (selected, error) {
	t, err := selectRead(ctx, reg, s, arg, progress)
	return t.withVersion(ctx, err)
}

func (t selected) withVersion(ctx context.Context, err error) (selected, error) {
	if err != nil {
		return t, err
	}
	l, v, err := itemVersion(ctx, t.catalog, t.Selection)
	if err != nil {
		return t, err
	}
	t.version = v
	t.status = l.Listing.Status(v)
	return t, nil
}

// completeItems lets shells complete the first argument of commands, an address and
// optionally its version, from the registry or the front-end of --server. On an error there
// are no completions and no message.
func completeItems(reg *cli.Registries, commands ...*cobra.Command) {
	for _, c := range commands {
		c.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompleteTimeout)
			defer cancel()
			address, before, versions := versionWord(args, word)
			switch {
			case versions:
				return completeVersions(ctx, reg, cmd, address, before, word), cobra.ShellCompDirectiveNoFileComp
			case len(args) == 0 && strings.Contains(cmd.Use, "ADDRESS@"): // a version has to follow
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

// versionWord reports whether a word is about the version of an address, and returns the
// part of the word before that. Most shells keep "ADDRESS@VERSION" in one word; bash splits
// words at "@".
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

func completionLister(reg *cli.Registries, cmd *cobra.Command) (lister, error) {
	if cmd.Flag("server") == nil {
		return openRegistryLister(reg)
	}
	return openLister(reg, cli.ServerFlags{URL: cmd.Flag("server").Value.String(), TokenFile: cmd.Flag("token-file").Value.String()})
}
