// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func newUsedBy(reg *cli.Registries) *cobra.Command {
	var server cli.ServerFlags
	var provider bool
	cmd := &cobra.Command{
		Use:   "used-by ADDRESS[@CONSTRAINT]",
		Short: "List the states that use a module or provider",
		Long: `List the states whose newest version uses a module or provider: the version in use,
since when, who wrote the state last, the newest version that fits, and whether the
one in use is withdrawn or deprecated; with --server, also whether a scan flagged it.

ADDRESS is [HOST/]NAMESPACE/NAME/SYSTEM of a module, [HOST/]NAMESPACE/TYPE of a provider,
or the source of a module block, such as git::https://git.example.com/net/dns.git or
./modules/dns. Without a host, it matches any host. Versions without a record are not
listed; see okara state uses.

With --server, an okara server answers from its index. States that are written through the
server are in it at once, others after the server has listed their repositories again.
It lists the states that the token may read, the instances whose template's module it is, as
far as the list of instances has them, and the number of the others, if there are five or
more. Without it, the states below --registry are read.

Exit codes: 0 done, 2 usage, 5 denied.`,
		Example: `  okara used-by net/vpc/aws
  okara used-by 'net/vpc/aws@< 5.3' --server https://okara.example.com
  okara used-by hashicorp/aws@4.1.0 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := usage.ParseQuery(args[0], provider)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			from, err := openUses(reg, server)
			if err != nil {
				return err
			}
			a, err := from.askUsers(cmd.Context(), args[0], q)
			if err != nil {
				return err
			}
			noteUsers(reg.App, args[0], a)
			if direct, ok := from.(registryUses); ok && len(a.States) == 0 {
				address, _, _ := strings.Cut(args[0], "@")
				if it, err := addr.ParseItem(address); err == nil && it.Kind != addr.KindMirror {
					known, err := direct.c.Versions(cmd.Context(), it)
					selected, wrong := addr.ParseSelection(args[0])
					switch {
					case errors.Is(err, oci.ErrNotFound):
						reg.Note("nothing is published as %s: check the address", it)
					case err == nil && wrong == nil && len(known.Listing.Versions) > 0 && !slices.ContainsFunc(known.Listing.Versions, selected.Selects):
						reg.Note("%s has no version that matches, the newest is %s", it, known.Listing.Versions[0])
					}
				}
			}
			rows := [][]string{{"STATE", "WORKSPACE", "VERSION", "SINCE", "BY", "NEWEST", "STATUS"}}
			for _, s := range a.States {
				rows = append(rows, []string{s.UserName(), cli.OrDash(s.Workspace), cli.OrDash(s.Version), cli.Timestamp(s.Since), cli.OrDash(oneLine(s.By, 40)), cli.OrDash(s.Newest), cli.OrDash(s.Status)})
			}
			return reg.PrintResult(a, usesTable(rows))
		},
	}
	server.Add(cmd.Flags())
	cmd.Flags().BoolVar(&provider, "provider", false, "treat ADDRESS as that of a provider")
	return cmd
}

func noteUsers(a *cli.App, what string, found usage.Answer) {
	switch {
	case found.Others > 0:
		a.Note("%d other states or instances, which you may not read, use some version of it", found.Others)
	case found.Some:
		a.Note("a few other states or instances, which you may not read, use some version of it")
	case len(found.States) == 0:
		a.Note("no state is known to use %s", what)
	}
	if found.Loose > 0 {
		a.Note("%s it in a version that is not recorded", text.Plural(found.Loose, "state")+" may use")
	}
	if found.Bare > 0 {
		a.Note("%s without a record of modules and providers", text.Plural(found.Bare, "state"))
	}
	if !found.Complete {
		a.Note("the list may not be complete: some states or versions could not be read, or the registry does not list its repositories")
	}
}

func usesTable(rows [][]string) string {
	if len(rows) == 1 {
		return ""
	}
	return cli.Table(rows)
}

func newOutdated(reg *cli.Registries) *cobra.Command {
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "outdated",
		Short: "List the states that use old, withdrawn or flagged versions",
		Long: `List the states that use a version which is not the newest that their constraint allows, or
is withdrawn or deprecated; with --server, also versions that a scan flagged. BETTER is the
next higher version without these problems. Only modules and providers of the registry are
checked.

With --server, an okara server answers for the states that the token may read.

Exit codes: 0 done, 2 usage, 5 denied.`,
		Example: `  okara outdated
  okara outdated --server https://okara.example.com --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := openUses(reg, server)
			if err != nil {
				return err
			}
			all, err := from.askOutdated(cmd.Context())
			if err != nil {
				return err
			}
			if !all.Complete {
				reg.Note("the list may not be complete: some states or versions could not be read, or the registry does not list its repositories")
			}
			if len(all.States) == 0 {
				reg.Note("no outdated versions found")
			}
			rows := [][]string{{"STATE", "WORKSPACE", "USES", "VERSION", "NEWEST", "STATUS", "BETTER"}}
			for _, s := range all.States {
				rows = append(rows, []string{s.State, s.Workspace, s.Source, cli.OrDash(s.Version), cli.OrDash(s.Newest), cli.OrDash(s.Status), cli.OrDash(s.Better)})
			}
			return reg.PrintResult(all, usesTable(rows))
		},
	}
	server.Add(cmd.Flags())
	return cmd
}

type outdatedStates struct {
	Complete bool             `json:"complete"`
	States   []usage.Outdated `json:"states"`
}

// usesSource knows what states use.
type usesSource interface {
	askUsers(ctx context.Context, address string, q usage.Query) (usage.Answer, error)
	askOutdated(ctx context.Context) (outdatedStates, error)
}

func openUses(reg *cli.Registries, s cli.ServerFlags) (usesSource, error) {
	front, err := cli.OpenFrontEnd(reg, s, nil)
	if err != nil || front != nil {
		return frontUses{front}, err
	}
	return openRegistryUses(reg)
}

// openRegistryUses opens the states of a registry, with the keys of the environment.
func openRegistryUses(reg *cli.Registries) (registryUses, error) {
	client, layout, err := reg.Client()
	if err != nil {
		return registryUses{}, err
	}
	var keys cli.KeyFlags
	o, err := keys.StateOptions(reg.App)
	if err != nil {
		return registryUses{}, err
	}
	known, err := states.New(states.Options{Client: client, Layout: layout, State: o, Logger: reg.WarnLogger()})
	if err != nil {
		return registryUses{}, err
	}
	return registryUses{known.Uses(), catalog.New(catalog.Options{Client: client, Layout: layout, Logger: reg.WarnLogger()})}, nil
}

// keepUsed returns which versions of an item retention keeps because the newest version of a state
// uses them. uses is the index of a server; nil: the states of the registry are read once, when they are asked for.
func keepUsed(reg *cli.Registries, uses *states.Uses) func(context.Context, string) func(addr.Version) bool {
	var mu sync.Mutex // guards uses
	return func(ctx context.Context, address string) func(addr.Version) bool {
		mu.Lock()
		defer mu.Unlock()
		if uses == nil {
			from, err := openRegistryUses(reg)
			if err == nil {
				uses = from.uses
				err = uses.Refresh(ctx)
			}
			if err != nil {
				reg.Note("warning: the records of what states use could not be read: %v", err)
			}
			if uses == nil {
				return func(addr.Version) bool { return true }
			}
		}
		used, known := uses.InUse(address)
		if !known {
			reg.Note("warning: the versions of %s in use are unknown, so all are kept: a state could not be read, or has no complete record", address)
		}
		return used
	}
}

type frontUses struct{ c *client.Client }

func (f frontUses) askUsers(ctx context.Context, address string, q usage.Query) (a usage.Answer, err error) {
	_, err = f.c.Call(ctx, http.MethodGet, "v1/used-by", url.Values{"address": {address}, "kind": {q.Kind}}, nil, nil, &a)
	return a, listHint(err)
}

func (f frontUses) askOutdated(ctx context.Context) (all outdatedStates, err error) {
	_, err = f.c.Call(ctx, http.MethodGet, "v1/outdated", nil, nil, nil, &all)
	return all, listHint(err)
}

// registryUses reads all states of a registry, which decides what may be read.
type registryUses struct {
	uses *states.Uses
	c    *catalog.Catalog
}

func mayReadAll(string, string) bool { return true }

func (r registryUses) askUsers(ctx context.Context, _ string, q usage.Query) (usage.Answer, error) {
	if err := r.uses.Refresh(ctx); err != nil {
		return usage.Answer{}, err
	}
	a := r.uses.Ask(q, mayReadAll)
	a.Judge(func(it usage.Item) usage.Verdict { return r.c.Judge(ctx, it, "") })
	return a, nil
}

func (r registryUses) askOutdated(ctx context.Context) (all outdatedStates, err error) {
	if err = r.uses.Refresh(ctx); err != nil {
		return all, err
	}
	all.States, all.Complete = r.uses.Outdated(mayReadAll, func(it usage.Item) usage.Verdict { return r.c.Judge(ctx, it, "") })
	return all, nil
}

// usersWait bounds how long a withdrawal waits for the states of a registry.
const usersWait = 20 * time.Second

// warnUsers says how many states use a version that is about to be withdrawn, as far as the server
// or, if front is nil, the registry tells; "" if none does.
func warnUsers(ctx context.Context, reg *cli.Registries, front *client.Client, it addr.Item, version string) string {
	var from usesSource = frontUses{front}
	var err error
	if front == nil {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, usersWait)
		defer cancel()
		from, err = openRegistryUses(reg)
	}
	address := it.String()
	if _, err := addr.ParseVersion(version); err == nil {
		address += "@" + version
	}
	var q usage.Query
	var a usage.Answer
	if err == nil {
		q, err = usage.ParseQuery(address, it.Kind != addr.KindModule)
	}
	if err == nil {
		a, err = from.askUsers(ctx, address, q)
	}
	if err != nil {
		return "the number of states that use it is unknown: " + err.Error()
	}
	if len(a.States)+a.Others+a.Loose+a.Bare == 0 && !a.Some && a.Complete {
		return ""
	}
	said := "used by " + a.CountUsers() + " that you may read"
	switch {
	case a.Others > 0:
		said += "; " + strconv.Itoa(a.Others) + " other states or instances use some version of it"
	case a.Some:
		said += "; a few other states or instances use some version of it"
	}
	if a.Loose > 0 {
		said += "; " + text.Plural(a.Loose, "state") + " may use it in a version that is not recorded"
	}
	if a.Bare > 0 {
		said += "; " + text.Plural(a.Bare, "state") + " without a record of modules and providers"
	}
	if !a.Complete {
		said += "; not all states are known"
	}
	return said + ": okara used-by " + address
}

func newStateUses(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws, format string
	var n int64
	cmd := &cobra.Command{
		Use:   "uses [REPOSITORY]",
		Short: "List the modules and providers that a state uses",
		Long: `List the modules and providers that a version of a state uses, as recorded by the program
that wrote it: okara tofu, okara terraform, okara exec and instances record what init
found, others at least the providers. Versions written by an older okara have no record.

--format prints a bill of materials, CycloneDX 1.6 or SPDX 2.3 in JSON, and fails without a
record.`,
		Example: `  okara state uses registry.example.com/state/shop -w prod
  okara state uses registry.example.com/state/shop --format cyclonedx >shop.cdx.json
  okara state uses registry.example.com/state/shop -w prod --version 41 --json`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if format != "" && !isBOM(format) {
			return cli.UsageError("--format %s: must be cyclonedx or spdx", format)
		}
		return nil
	}
	cmd.RunE = f.withStore(reg, 1, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
		found := n
		if found == 0 {
			v, err := s.Current(cmd.Context(), ws)
			if err != nil {
				return noState(err, args[0], ws)
			}
			found = v.N
		}
		b, err := statebackend.ReadUsage(cmd.Context(), s, ws, found)
		if err != nil {
			return noState(err, args[0], ws)
		}
		document, err := usage.Parse(b)
		if err != nil && format != "" {
			return fmt.Errorf("version %d of workspace %q has no record of the modules and providers that it uses, or it cannot be decrypted: %w", found, ws, oci.ErrNotFound)
		}
		if err != nil {
			reg.Note("version %d of workspace %s has no record of the modules and providers that it uses, or it cannot be decrypted", found, ws)
			return reg.PrintResult(map[string]string{"recorded": "not recorded"}, "")
		}
		if document.Recorded == usage.Partial {
			reg.Note("the record is partial")
		}
		if format != "" {
			out, err := bom{args[0] + ", workspace " + ws, found, time.Now(), document}.encode(format)
			if err != nil {
				return err
			}
			return reg.PrintExact(json.RawMessage(out), string(out))
		}
		return reg.PrintResult(document, usesText(document))
	})
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().Int64Var(&n, "version", 0, "`NUMBER` of the version; 0 is the current one")
	cmd.Flags().StringVar(&format, "format", "", "print a bill of materials as `FORMAT`: cyclonedx or spdx")
	return cmd
}

func usesText(d *usage.Document) string {
	rows := [][]string{{"KIND", "SOURCE", "VERSION", "SINCE", "WHERE"}}
	for _, m := range d.Modules {
		where := ""
		if len(m.Paths) > 0 {
			where = m.Paths[0]
		}
		if len(m.Paths) > 1 {
			where += ", and " + strconv.Itoa(len(m.Paths)-1) + " more"
		}
		rows = append(rows, []string{addr.KindModule, m.Source, cli.OrDash(m.Version), cli.Timestamp(m.Since), cli.OrDash(where)})
	}
	for _, p := range d.Providers {
		rows = append(rows, []string{addr.KindProvider, p.Source, cli.OrDash(p.Version), cli.Timestamp(p.Since), cli.OrDash(p.Constraints)})
	}
	return usesTable(rows)
}
