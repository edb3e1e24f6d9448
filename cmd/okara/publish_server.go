// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"io/fs"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
)

const serverHelp = `With --server it goes through an okara server, which requires a token but no
credential for the registry: that of --token-file or OKARA_TOKEN, else the one that tofu
and terraform send there (TF_TOKEN_..., a credentials block), else, in GitHub Actions
with the permission id-token: write, the job's own.`

// readServerHelp is serverHelp for commands that only read.
const readServerHelp = `With --server, an okara server returns what is in its registry, as far as the
token may read it: that of --token-file or OKARA_TOKEN, else the one that tofu and
terraform send there. A caller without the right to publish only gets versions that the
server serves, not those withdrawn or blocked by its policy.`

// publisher is a destination of versions: a registry or a front-end before it.
type publisher interface {
	PublishModule(ctx context.Context, tree fs.FS, m addr.ModuleVersion, o depot.ModuleOptions) (depot.Published, error)
	ModuleThere(ctx context.Context, m addr.ModuleVersion, plan *depot.ModulePlan, o depot.ModuleOptions) (existing bool, err error)
	PublishProvider(ctx context.Context, dist fs.FS, p addr.Provider, v addr.Version, o depot.ProviderOptions) (depot.Published, error)
	Versions(ctx context.Context, it addr.Item) (*depot.Listing, error)
}

// openPublisher returns the front-end of --server, else the registry. done ends the progress
// bars, if any, and must be called before anything is printed.
func openPublisher(reg *cli.Registries, s cli.ServerFlags) (p publisher, done func(), err error) {
	progress, done := reg.Progress()
	front, err := cli.OpenFrontEnd(reg, s, progress)
	if err == nil && front != nil {
		return front, done, nil
	}
	if done(); err != nil {
		return nil, nil, err
	}
	return openDepot(reg)
}

// openDepot returns the depot of --registry. done ends the progress bars, if any, and must
// be called before anything is printed.
func openDepot(reg *cli.Registries) (d *depot.Depot, done func(), err error) {
	client, layout, err := reg.Client()
	if err != nil {
		return nil, nil, err
	}
	progress, done := reg.Progress()
	return depot.New(depot.Options{Client: client, Layout: layout, Progress: progress}), done, nil
}

// openCompared returns what a dry run compares with; nil if neither the command line nor the
// environment names a registry or a front-end.
func openCompared(reg *cli.Registries, s cli.ServerFlags) (p publisher, done func(), err error) {
	if cmp.Or(s.URL, reg.Registry, reg.Getenv("OKARA_SERVER"), reg.Getenv("OKARA_REGISTRY")) == "" {
		return nil, func() {}, nil
	}
	return openPublisher(reg, s)
}

// publishOne publishes to the destination set by the flags, and prints the outcome.
func publishOne(reg *cli.Registries, s cli.ServerFlags, one func(publisher) (depot.Published, error)) error {
	p, done, err := openPublisher(reg, s)
	if err != nil {
		return err
	}
	out, err := one(p)
	done()
	if err != nil {
		cli.NoteWarnings(reg.App, out)
		return cli.PublishHint(err)
	}
	return cli.PrintPublished(reg.App, out)
}

// frontPath is the path at which a front-end accepts changes of the item.
func frontPath(it addr.Item) (string, error) {
	switch it.Kind {
	case addr.KindModule:
		return client.ModulePath(it.Module), nil
	case addr.KindProvider:
		return client.ProviderPath(it.Provider), nil
	}
	return "", cli.UsageError("%s is mirrored; a server only accepts changes to what was published there", it.Provider)
}
