// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

type runFunc = func(cmd *cobra.Command, args []string) error

// withNamedState lets a command omit REPOSITORY, the first of its minArgs arguments, in the folder of
// a root module: the backend "oci" block names the repository and its keys; the workspace is
// the one that the tool has selected there.
func (f *stateFlags) withNamedState(reg *cli.Registries, minArgs int, ws *string, run runFunc) runFunc {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case cmd.Flags().Changed("workspace") && *ws == "":
			return cli.UsageError("--workspace must not be empty")
		case len(args) >= minArgs && !isVersion(args[0]):
			args[0] = reg.Reference(args[0])
			return run(cmd, args)
		case len(args) > 0 && isRepository(args[0]):
			return cli.UsageError("missing: %s", strings.Fields(cmd.Use)[2])
		}
		if minArgs <= 1 && len(args) > 0 { // the number is no argument of the command
			err := cli.UsageError("%q is not a repository", args[0])
			if cmd.Flags().Lookup("version") != nil {
				return cli.WithHint(err, "for this version, use --version %s", args[0])
			}
			return cli.WithHint(err, "run `%s` without a number", cmd.CommandPath())
		}
		c, err := bridge.Read(".", bridge.ReadOptions{Getenv: reg.Getenv})
		if err != nil {
			return err
		}
		if !c.Declared {
			return cli.WithHint(cli.UsageError("no repository given"), `specify REPOSITORY, or run this in a folder with a backend "oci" block`)
		}
		if !cmd.Flags().Changed("workspace") {
			*ws = bridge.SelectedWorkspace(".", reg.Getenv)
		}
		f.useBlock(reg.App, c.Backend.ForWorkspace(*ws))
		b := f.block
		reg.Note("okara: %s, workspace %s", b.Repository, *ws)
		return run(cmd, append([]string{b.Repository}, args...))
	}
}

func (f *stateFlags) withStore(reg *cli.Registries, minArgs int, ws *string, run func(*cobra.Command, *statebackend.Store, []string) error) runFunc {
	return f.withNamedState(reg, minArgs, ws, func(cmd *cobra.Command, args []string) error {
		s, err := f.openStore(reg, args[0])
		if err != nil {
			return err
		}
		return run(cmd, s, args)
	})
}

// isRepository reports whether an argument names a repository with its host, and no file.
func isRepository(arg string) bool {
	host, _, ok := strings.Cut(arg, "/")
	_, err := os.Stat(arg)
	return ok && err != nil && strings.ContainsAny(host, ".:")
}

func isVersion(arg string) bool {
	_, err := strconv.ParseInt(arg, 10, 64)
	return err == nil
}

// useBlock takes repository, original and keys from a backend block; keys and original from
// flags or variables take precedence.
func (f *stateFlags) useBlock(a *cli.App, b backendblock.Backend) {
	if len(f.Keys)+len(f.Identities) == 0 && a.Getenv("OKARA_STATE_KEYS")+a.Getenv("OKARA_STATE_IDENTITIES") == "" {
		for _, e := range b.Encryption {
			if e.KeyID != "" {
				f.Keys = append(f.Keys, e.KeyID)
			}
			if e.Identity != "" {
				f.Identities = append(f.Identities, e.Identity)
			}
		}
	}
	b.Encryption = nil
	b.Primary = cmp.Or(f.Primary, a.Getenv("OKARA_STATE_PRIMARY"), b.Primary)
	b.StrictReads = true
	f.block = &b
}

func (f *stateFlags) blockStore(reg *cli.Registries, o statebackend.Options) (*statebackend.Store, error) {
	client, err := reg.OCIOptions()
	if err != nil {
		return nil, err
	}
	return backendblock.Open(*f.block, backendblock.OpenOptions{Client: client, TLS: reg.TransportOptions(), State: o})
}

func repositoriesBelow(ctx context.Context, reg *cli.Registries, prefix string) ([]string, error) {
	host, path, err := addr.SplitRegistry(prefix)
	if err != nil {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	c, err := reg.ClientOf(host)
	if err != nil {
		return nil, err
	}
	names, err := c.Repositories(ctx)
	if err != nil {
		err = fmt.Errorf("listing the repositories of %s: %w", host, err)
		if errors.Is(err, oci.ErrUnavailable) { // its hint says more
			return nil, err
		}
		return nil, cli.WithHint(err, "not every registry can list its repositories; specify them one by one, without --all")
	}
	names = slices.DeleteFunc(names, func(n string) bool { return path != "" && n != path && !strings.HasPrefix(n, path+"/") })
	for i, n := range names {
		names[i] = host + "/" + n
	}
	return names, nil
}

// listRepositories returns the repositories for list and locks: the named one, or with all also
// those below it.
func listRepositories(ctx context.Context, reg *cli.Registries, name string, all bool) ([]string, error) {
	if !all {
		return []string{name}, nil
	}
	return repositoriesBelow(ctx, reg, name)
}
