// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/modulelock"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

const mirrorLong = `Copy providers and modules from their origins into the registry.

A provider is written [HOST/]NAMESPACE/TYPE, a module [HOST/]NAMESPACE/NAME/SYSTEM, each
with an optional @CONSTRAINT. Without a constraint the newest release is copied, with a
constraint every matching version. ADDRESS//DIR copies the whole package of a module,
which must contain the folder DIR; it is then used as HOST/ADDRESS//DIR.

SHA256SUMS and its signature are verified before anything is pushed, and stored unchanged,
so that clients can verify the author's signature. Existing versions are compared with the
origin: identical content is skipped, missing platforms of a provider are added if the
mirrored SHA256SUMS lists them, and different content is refused. Platforms of --platform
that the origin lacks are skipped with a warning; a version with none of them fails.

Each version is reported as new, extended, skipped, refused (a missing or wrong signature, wrong
bytes, a package that cannot be installed, or different content) or failed (it could not
be read or stored). A refused or failed version does not stop the others: the exit code is
then 6, or 4 if everything refused is different content.

` + internalHelp + `

` + sourceHelp

type mirrorOptions struct {
	from, defaultHost string
	platforms         []string
	lockFiles         []string
	trusted           []string
	jobs              int
	dryRun            bool
	provider          supply.ProviderEntry // the flags' settings for each entry
}

type mirrorResult struct {
	Address   string `json:"address"`
	Version   string `json:"version"`
	State     string `json:"state"` // new, extended, skipped, refused, failed, planned
	Reference string `json:"reference,omitempty"`
	Reason    string `json:"reason,omitempty"`

	Warnings []string `json:"warnings,omitempty"`

	arg string // on the command line
	err error  // error behind Reason
}

func newMirror(up *upstreams) *cobra.Command {
	o := mirrorOptions{from: "registry", defaultHost: "registry.opentofu.org", jobs: 4}
	cmd := &cobra.Command{
		Use:   "mirror ADDRESS[@CONSTRAINT]...",
		Short: "Copy providers and modules from their origins into the registry",
		Long:  mirrorLong,
		Example: `  okara mirror 'hashicorp/time@~> 0.14' --platform linux_amd64,darwin_arm64
  okara mirror --lockfile live/.terraform.lock.hcl
  okara mirror terraform-aws-modules/vpc/aws@5.1.0
  okara mirror hashicorp/time --from /media/mirror --allow-unsigned
  okara mirror hashicorp/time --openpgp-key hashicorp.pub.asc`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && len(o.lockFiles) == 0 {
				return cli.UsageError("specify a provider or a module, or a lock file with --lockfile")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return mirrorAll(cmd.Context(), up, args, o) },
	}
	f := cmd.Flags()
	addAllowInternal(f, &up.allowed)
	f.StringVar(&o.from, "from", o.from, "`SOURCE` of providers; for modules, a registry host or the https:// address of its module protocol")
	f.StringVar(&o.defaultHost, "default-host", o.defaultHost, "`HOST` of addresses without one")
	f.StringSliceVar(&o.platforms, "platform", nil, "`OS_ARCH` to copy, repeated or comma-separated (default all)")
	f.StringArrayVar(&o.lockFiles, "lockfile", nil, "copy the versions in this lock `FILE`, .terraform.lock.hcl or .okara.lock.hcl")
	f.IntVar(&o.jobs, "jobs", o.jobs, "versions copied at a time")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be copied")
	f.BoolVar(&o.provider.AllowUnsigned, "allow-unsigned", false, "accept providers whose origin publishes no signature")
	f.BoolVar(&o.provider.AllowExpired, "allow-expired-key", false, "accept a key that has expired since it signed")
	f.StringArrayVar(&o.trusted, "openpgp-key", nil, "armored OpenPGP public key `FILE` that must have signed the providers, regardless of the keys of the origin (repeatable)")
	return cmd
}

func mirrorAll(ctx context.Context, up *upstreams, args []string, o mirrorOptions) error {
	for _, s := range o.platforms {
		t, err := addr.ParsePlatform(s)
		if err != nil {
			return err
		}
		o.provider.Platforms = append(o.provider.Platforms, t)
	}
	var err error
	if o.provider.Trusted, err = readPublicKeys(o.trusted); err != nil {
		return err
	}
	src, err := up.providerSource(o.from, "")
	if err != nil {
		return err
	}
	d, done, err := openDepot(up.reg)
	if err != nil {
		return err
	}
	m := &mirrorer{up: up, o: o}
	if u, err := url.Parse(o.from); err == nil && (u.Scheme == "https" || u.Scheme == "http") && strings.Trim(u.Path, "/") != "" {
		m.base = u
	}
	results, err := m.mirrorAll(ctx, d, src, args)
	done()
	if err != nil {
		return err
	}
	return printMirrored(up.reg.App, results)
}

type mirrorer struct {
	up      *upstreams
	o       mirrorOptions
	base    *url.URL // of the module protocol, if --from is a URL
	set     supply.Set
	results []mirrorResult
}

func (m *mirrorer) mirrorAll(ctx context.Context, d *depot.Depot, src depot.Source, args []string) ([]mirrorResult, error) {
	for _, s := range args {
		if err := m.addArgument(s); err != nil {
			if hasType[*addr.SyntaxError](err) || hasType[*cli.ExitError](err) {
				return nil, err
			}
			m.failArgument(s, err)
		}
	}
	for _, name := range m.o.lockFiles {
		if err := m.addLockFile(name); err != nil {
			return nil, err
		}
	}
	s := supply.NewSyncer(d, supply.SyncOptions{Set: &m.set, Jobs: max(m.o.jobs, 1), Once: true, Origins: func(string) (supply.Origins, error) {
		from, err := m.up.newOrigins(supply.Auth{})
		from.Provider = func(string, addr.Provider) (depot.Source, error) { return src, nil }
		if discovered := from.Registry; m.base != nil && err == nil {
			from.Registry = func(host string, module addr.Module) (*upstream.ModuleRegistry, error) {
				r, err := discovered(host, module)
				if host == m.base.Host && err == nil {
					r.Base = m.base
				}
				return r, err
			}
		}
		return from, err
	}})
	p, err := s.Plan(ctx)
	if err != nil {
		return nil, err
	}
	var results []supply.Result
	if m.o.dryRun {
		for _, st := range p.Steps {
			results = append(results, supply.Result{Step: st})
		}
	} else if results, err = s.Apply(ctx, p, stepCounter(m.up.reg.App, p)); err != nil {
		return nil, err
	}
	for _, r := range results {
		m.recordStep(r)
	}
	noteLeftOut(m.up.reg.App, p)
	m.sortResults(slices.Concat(args, m.o.lockFiles))
	return m.results, nil
}

func (m *mirrorer) failArgument(arg string, err error) {
	m.results = append(m.results, mirrorResult{Address: arg, State: mirrorState(false, err), Reason: cli.PlainReason(err), arg: arg, err: err})
}

func (m *mirrorer) recordStep(r supply.Result) {
	if r.Version == "" {
		m.failArgument(r.Where, r.Err())
		return
	}
	_, address, _ := strings.Cut(r.Entry, " ")
	there := r.Published.Existing || r.Action == supply.ActionGone || m.o.dryRun && r.Action == supply.ActionPresent
	out := mirrorResult{Address: address, Version: r.Version, State: mirrorState(there, r.Err()), Warnings: r.Published.Warnings, arg: r.Where}
	switch {
	case r.Err() != nil:
		out.Reason = cli.PlainReason(r.Err())
		out.err = r.Err()
	case r.Action == supply.ActionGone:
		out.Reason = r.Reason
	case !m.o.dryRun:
		out.Reference = r.Published.String()
		if len(r.Published.Added) > 0 {
			out.State = "extended"
		}
	case out.State == "new":
		out.State = "planned"
	}
	if r.Err() == nil && m.o.dryRun && r.Action != supply.ActionPublish {
		out.Reason = r.Reason
	}
	if out.State == "skipped" {
		out.Reason = cmp.Or(out.Reason, "same content already published")
	}
	m.results = append(m.results, out)
}

// sortResults sorts the results like the arguments on the command line, those without a version
// first.
func (m *mirrorer) sortResults(args []string) {
	slices.SortStableFunc(m.results, func(a, b mirrorResult) int {
		if (a.Version == "") != (b.Version == "") {
			return cmp.Compare(min(1, len(a.Version)), min(1, len(b.Version)))
		}
		return cmp.Compare(slices.Index(args, a.arg), slices.Index(args, b.arg))
	})
}

func mirrorState(existing bool, err error) string {
	switch {
	case depot.Refused(err):
		return "refused"
	case err != nil:
		return "failed"
	case existing:
		return "skipped"
	}
	return "new"
}

func (m *mirrorer) addArgument(arg string) error {
	address, versions, _ := strings.Cut(arg, "@")
	e := supply.Entry{Where: arg}
	var err error
	if e.Versions, err = addr.ParseConstraint(versions); err != nil {
		return err
	}
	if versions == "" {
		e.Limit = 1
	}
	dir := ""
	if !strings.Contains(address, "://") {
		address, dir, _ = strings.Cut(address, "//")
	}
	first, rest, _ := strings.Cut(address, "/")
	isHost := strings.ContainsAny(first, ".:") || first == "localhost"
	parts := strings.Count(address, "/") + 1
	if isHost {
		parts--
	}
	if dir != "" && (parts != 3 || !filepath.IsLocal(dir)) {
		return cli.UsageError("//%s is not a folder of a module", dir)
	}
	if parts == 3 && len(m.o.provider.Trusted) > 0 {
		return fmt.Errorf("%w: modules have no OpenPGP signature", trust.ErrUntrusted)
	}
	if parts == 3 && !isHost && m.base == nil && strings.Contains(m.o.from, "/") {
		return cli.WithHint(cli.UsageError("%q is not a module registry", m.o.from), "for modules, set --from to the host of a registry, such as registry.terraform.io, or to https://HOST/PATH/ of its module protocol")
	}
	if parts == 3 {
		host := m.o.defaultHost
		if m.o.from != "registry" {
			host = m.o.from
		}
		if isHost {
			host, address = first, rest
		}
		if m.base != nil { // as for providers, --from counts
			host = m.base.Host
		}
		return m.addModule(e, host, address, dir)
	}
	p, err := addr.ParseProvider(address)
	if err != nil {
		return err
	}
	p.Hostname = cmp.Or(p.Hostname, m.o.defaultHost)
	return m.addProvider(e, p)
}

func (m *mirrorer) addProvider(e supply.Entry, p addr.Provider) error {
	if _, err := m.up.upstreamClient(p.Hostname); err != nil { // the user named it
		return err
	}
	entry := m.o.provider
	entry.Entry = e
	entry.Address = p
	m.set.Providers = append(m.set.Providers, entry)
	return nil
}

func (m *mirrorer) addModule(e supply.Entry, host, address, dir string) error {
	module, err := addr.ParseWritten(address)
	if err != nil {
		return err
	}
	if _, err := m.up.upstreamClient(host); err != nil { // the user named it
		return err
	}
	m.set.Modules = append(m.set.Modules, supply.ModuleEntry{
		Entry: e, Address: module.Fold(), Title: address, Folder: dir, Source: supply.ModuleSource{Kind: supply.SourceRegistry, Host: host, Address: module},
	})
	return nil
}

func (m *mirrorer) addLockFile(name string) error {
	if filepath.Base(name) == modulelock.Name {
		return m.addModuleLock(name)
	}
	l, err := readLockFile(name)
	if err != nil {
		return err
	}
	for _, p := range l.Providers {
		if err := m.addProvider(supply.Entry{Where: name, Exact: []addr.Version{p.Version}}, p.Address); err != nil {
			return err
		}
	}
	return nil
}

// addModuleLock adds the modules of registries in a lock of modules.
func (m *mirrorer) addModuleLock(name string) error {
	if len(m.o.provider.Trusted) > 0 {
		return fmt.Errorf("%s: %w: modules have no OpenPGP signature", name, trust.ErrUntrusted)
	}
	locked, err := modulelock.Read(filepath.Dir(name))
	if err == nil && locked == nil {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return err
	}
	for _, p := range locked.Packages {
		if !p.IsRegistry() {
			m.up.reg.Note("%s: %s is not in a registry", name, p.Source)
			continue
		}
		host, address, _ := strings.Cut(p.Source, "/")
		if m.base != nil {
			host = m.base.Host
		}
		version, err := addr.ParseVersion(p.Version)
		if err == nil {
			err = m.addModule(supply.Entry{Where: name, Exact: []addr.Version{version}}, host, address, "")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func printMirrored(a *cli.App, results []mirrorResult) error {
	count := map[string]int{}
	var failures []error
	var lines []string
	for _, r := range results {
		count[r.State]++
		if r.err != nil {
			failures = append(failures, r.err)
		}
		line := strings.TrimSpace(r.Address+" "+r.Version) + ": " + r.State
		if r.Reason != "" {
			line += ": " + r.Reason
		} else if r.Reference != "" {
			line += " " + r.Reference
		}
		lines = append(lines, line)
		for _, w := range r.Warnings {
			a.Note("warning: %s %s: %s", r.Address, r.Version, w)
		}
	}
	if err := a.PrintResult(results, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if count["planned"] > 0 {
		a.Note("%d planned, %d skipped, %d failed", count["planned"], count["skipped"], count["failed"])
	} else {
		extended := ""
		if n := count["extended"]; n > 0 {
			extended = fmt.Sprintf("%d extended, ", n)
		}
		a.Note("%d new, %s%d skipped, %d refused, %d failed", count["new"], extended, count["skipped"], count["refused"], count["failed"])
	}
	what := fmt.Sprintf("%d of %d versions were not mirrored", len(failures), len(results))
	if len(results) == 1 {
		what = "the version was not mirrored"
	}
	return unfinishedError(failures, what)
}

// unfinishedError returns nil, or an error that some versions differ from their origins, which what says. The exit
// code is that of a conflict if different content is the only kind of failure.
func unfinishedError(failures []error, what string) error {
	if len(failures) == 0 {
		return nil
	}
	if !slices.ContainsFunc(failures, func(err error) bool { return !hasType[*depot.ConflictError](err) }) {
		return cli.WithHint(&cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf("%s: different content exists, or the number was withdrawn", what)},
			"published versions never change, and numbers are not reused: the version stays as it was mirrored, even if the origin added platforms with a different SHA256SUMS")
	}
	for _, err := range failures {
		if errors.Is(err, oci.ErrUnavailable) { // likely the cause of all failures
			return cli.PartlyBecause(err, "%s", what)
		}
	}
	return cli.PartlyError("%s", what)
}

func hasType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

const sourceHelp = `Where providers come from:
  registry              the provider's own registry, found by its host name
  HOST                  another registry that serves the same addresses
  https://HOST/PATH/    a network mirror, or the provider protocol if PATH contains
                        v1/providers, as okara's /origin/HOSTNAME/v1/providers/
  DIR                   a filesystem mirror, as "tofu providers mirror" writes it
  oci://HOST[/PREFIX]   the mirror repositories of another OCI registry`
