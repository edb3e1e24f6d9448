// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/modulelock"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/supply"
)

const depotLong = `Fill a registry from a depot file, which lists the modules and providers it must
contain, with their origins and versions.

A run publishes what is missing and removes what retention does not keep. Published
versions never change: a tag that an origin moved is reported as drift. The same file
can be run by okara serve --depot on an interval.`

type depotFlags struct {
	file   string
	given  bool // file is not the default
	usedBy []string
	repair bool
	jobs   int
}

func newDepot(up *upstreams) *cobra.Command {
	cmd := cli.Parent("depot", "artifacts", "Fill a registry from a depot file")
	cmd.Long = depotLong
	cmd.AddCommand(newDepotValidate(up), newDepotPlan(up), newDepotApply(up), newDepotStatus(up), newDepotImport(up))
	return cmd
}

func (f *depotFlags) addTo(up *upstreams, cmd *cobra.Command) {
	addAllowInternal(cmd.Flags(), &up.allowed)
	cmd.Flags().StringVarP(&f.file, "file", "f", "depot.hcl", "depot `FILE`, HCL or JSON, if not given as an argument")
	cmd.Flags().StringArrayVar(&f.usedBy, "used-by", nil, "lock `FILE` or folder of lock files whose versions retention keeps (repeatable)")
	cmd.Flags().IntVar(&f.jobs, "jobs", 4, "entries processed at a time")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if f.given = len(args) == 1 || cmd.Flags().Changed("file"); len(args) != 1 {
			return cobra.NoArgs(cmd, args)
		}
		if cmd.Flags().Changed("file") {
			return cli.UsageError("%s cannot be combined with --file %s: specify one depot file", args[0], f.file)
		}
		f.file = args[0]
		return nil
	}
}

const repairUsage = "check each part of every version in the registry, and restore what it has lost"

func readSet(file string) (*supply.Set, error) {
	set, err := supply.ReadSet(file)
	if err != nil {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	return set, nil
}

// openSyncer returns the syncer of a depot file and its registry. done ends the progress
// bars.
func openSyncer(up *upstreams, f depotFlags) (s *supply.Syncer, done func(), err error) {
	set, err := readSet(f.file)
	if err != nil {
		return nil, nil, err
	}
	if up.reg.Registry == "" && set.Registry != "" {
		up.reg.Registry = set.Registry
	}
	d, done, err := openDepot(up.reg)
	if err != nil {
		return nil, nil, err
	}
	s, err = newSyncer(up, set, d, f, nil)
	return s, done, err
}

// usedVersions reads lock files and the module lists of "init", and returns which versions
// are in use.
func usedVersions(names []string) (func(entry string, v addr.Version) bool, error) {
	used := map[string]bool{}
	locks, installed, err := projectFiles(names)
	if err != nil {
		return nil, err
	}
	for _, name := range locks {
		l, err := readLockFile(name)
		if err != nil {
			return nil, err
		}
		for _, p := range l.Providers {
			used[addr.KindMirror+" "+p.Address.String()+" "+p.Version.String()] = true
		}
	}
	for _, name := range installed {
		modules, err := installedModules(name)
		if err != nil {
			return nil, err
		}
		for _, m := range modules {
			used[addr.KindModule+" "+m.Module.String()+" "+m.Version.String()] = true
		}
	}
	return func(entry string, v addr.Version) bool { return used[entry+" "+v.String()] }, nil
}

// installedModules reads the list of installed modules that tofu and terraform keep, or a lock of modules; modules
// that did not come from a registry have no version.
func installedModules(name string) ([]addr.ModuleVersion, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	type module struct{ Source, Version string }
	var doc struct{ Modules []module }
	if filepath.Base(name) == modulelock.Name {
		lock, err := modulelock.Parse(name, b)
		if err != nil {
			return nil, err
		}
		for _, p := range lock.Packages {
			doc.Modules = append(doc.Modules, module{p.Source, p.Version})
		}
	} else if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []addr.ModuleVersion
	for _, m := range doc.Modules {
		parts := strings.Split(m.Source, "/") // HOST/NAMESPACE/NAME/SYSTEM, perhaps //DIR
		if len(parts) < 4 {
			continue
		}
		module, err := addr.ParseModule(strings.Join(parts[1:4], "/"))
		v, verr := addr.ParseVersion(m.Version)
		if err == nil && verr == nil {
			out = append(out, addr.ModuleVersion{Module: module, Version: v})
		}
	}
	return out, nil
}

// newSyncer returns a syncer. uses is the index of a server; nil: the states of the registry are read,
// if an entry asks for them.
func newSyncer(up *upstreams, set *supply.Set, d *depot.Depot, f depotFlags, uses *states.Uses) (*supply.Syncer, error) {
	used, err := usedVersions(f.usedBy)
	if err != nil {
		return nil, err
	}
	if _, err := up.upstreamClient(namedBy(set)...); err != nil {
		return nil, err
	}
	origins := func(name string) (supply.Origins, error) {
		from, err := up.origins(set.Auth[name])
		if err != nil {
			return from, fmt.Errorf("auth %q: %w", name, err)
		}
		return from, nil
	}
	return supply.NewSyncer(d, supply.SyncOptions{Set: set, Origins: origins, Used: used, InUse: keepUsed(up.reg, uses), Jobs: f.jobs, Repair: f.repair}), nil
}

func namedBy(set *supply.Set) []string {
	var hosts []string
	for _, e := range set.Modules {
		hosts = append(hosts, e.Source.Host)
		if u := e.Source.Location.URL; u != nil {
			hosts = append(hosts, netaddr.HostPort(u))
		}
	}
	for _, e := range set.Providers {
		hosts = append(hosts, e.Address.Hostname)
	}
	return hosts
}

func stepCounter(a *cli.App, p *supply.Plan) func(supply.Result) {
	step := a.Steps("versions", len(p.Steps))
	return func(supply.Result) { step() }
}

func noteLeftOut(a *cli.App, p *supply.Plan) {
	for _, d := range p.LeftOut {
		a.Note("warning: %s: version %s of the origin is left out: %s", d.Entry, d.Version, d.Reason)
	}
}
