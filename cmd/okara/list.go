// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func newList(reg *registries) *cobra.Command {
	return &cobra.Command{
		Use:   "list [ADDRESS]",
		Short: "List modules and providers, or the versions of one",
		Long: `List modules and providers, or the versions of one, highest first.

Without an argument the catalogue is read, which holds what okara published or
mirrored. ADDRESS is NAMESPACE/NAME/SYSTEM of a module, NAMESPACE/TYPE of a
provider, or HOST/NAMESPACE/TYPE of a mirrored one, with an optional version
constraint after "@".

Exit codes: 0 done, 2 usage, 3 there is no such module or provider.`,
		Example: `  okara list
  okara list net/vpc/aws
  okara list "acme/dns@~> 1.0" --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, layout, err := reg.registryClient()
			if err != nil {
				return err
			}
			c := catalog.New(catalog.Options{Client: client, Layout: layout, Logger: reg.warnLogger()})
			if len(args) == 0 {
				return listCatalog(cmd.Context(), reg.app, c)
			}
			it, err := addr.ParseSelection(args[0])
			if err != nil {
				return usageError("%w", err)
			}
			l, err := c.Versions(cmd.Context(), it.Item)
			if err != nil {
				return err
			}
			return listVersions(reg.app, l, it)
		},
	}
}

// catalogLine is one module or provider in a list.
type catalogLine struct {
	Kind       string `json:"kind"`
	Address    string `json:"address"`
	Repository string `json:"repository"`
}

func listCatalog(ctx context.Context, a *app, c *catalog.Catalog) error {
	index, err := c.Index(ctx)
	if err != nil {
		return err
	}
	lines := []catalogLine{}
	var rows [][]string
	for _, e := range index.Entries {
		lines = append(lines, catalogLine(e))
		rows = append(rows, []string{e.Kind, e.Address})
	}
	return a.printResult(lines, table(rows))
}

// versionLine is one version in a list.
type versionLine struct {
	Version    string  `json:"version"`
	Deprecated *string `json:"deprecated,omitempty"` // the message
	Yanked     *string `json:"yanked,omitempty"`
}

func listVersions(a *app, l *catalog.Versions, it addr.Selection) error {
	lines := []versionLine{}
	var rows [][]string
	versions, err := l.Selected(it)
	if err != nil {
		return err
	}
	for _, v := range versions {
		s := l.Status(v)
		lines = append(lines, versionLine{Version: v.String(), Deprecated: eventMessage(s.Deprecated), Yanked: eventMessage(s.Yanked)})
		rows = append(rows, []string{v.String(), statusText(s)})
	}
	return a.printResult(lines, table(rows))
}

func eventMessage(e *artifact.StatusEvent) *string {
	if e == nil {
		return nil
	}
	return &e.Message
}

// statusText describes a status in a few words, "" if there is nothing to say.
func statusText(s artifact.Status) string {
	var parts []string
	for _, p := range []struct {
		word  string
		event *artifact.StatusEvent
	}{{"yanked", s.Yanked}, {"deprecated", s.Deprecated}} {
		if p.event == nil {
			continue
		}
		text := p.word
		if p.event.Message != "" {
			text += ": " + p.event.Message
		}
		if p.event.Replacement != "" {
			text += " (use " + p.event.Replacement + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// itemVersion finds the version that an item on the command line means: the
// highest that its constraint allows, the latest without one.
func itemVersion(ctx context.Context, c *catalog.Catalog, it addr.Selection) (*catalog.Versions, addr.Version, error) {
	l, err := c.Versions(ctx, it.Item)
	if err != nil {
		return nil, addr.Version{}, err
	}
	if exact, err := addr.ParseVersion(it.Versions); err == nil { // also one that has been yanked
		if !slices.Contains(l.Versions, exact) {
			err = fmt.Errorf("%s has no version %s: %w", l.Repository, exact, oci.ErrNotFound)
			return nil, exact, withHint(err, "the highest version is %s; okara list shows all", l.Versions[0])
		}
		return l, exact, nil
	}
	v, ok := l.Latest()
	if it.Versions != "" {
		v, ok = l.Highest(it.Allow.Allows)
	}
	if !ok {
		return nil, v, fmt.Errorf("%s has no such version: %w", l.Repository, oci.ErrNotFound)
	}
	return l, v, nil
}
