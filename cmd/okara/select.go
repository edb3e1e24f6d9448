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
