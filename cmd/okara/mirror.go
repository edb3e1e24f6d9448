// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

const mirrorLong = `Copy providers and modules from their origins into the registry.

A provider is written [HOST/]NAMESPACE/TYPE, a module [HOST/]NAMESPACE/NAME/SYSTEM,
each with an optional @CONSTRAINT. Without a constraint the newest release is taken, with one every
version that it allows.

SHA256SUMS and its signature are verified before anything is pushed and stored
unchanged, so that clients verify the author's signature. What is there already
is skipped; an interrupted run goes on where it stopped.

Each version ends as new, skipped, refused or failed. Refused is what was not
accepted: a missing or wrong signature, other bytes than announced, a package that
cannot be installed, other content for a version that is there. Failed is what
could not be read or stored. Neither stops the others: the exit code is then 6.

` + internalHelp + `

` + sourceHelp

// mirrorOptions are the flags of okara mirror.
type mirrorOptions struct {
	from, defaultHost string
	platforms         []string
	lockFiles         []string
	trusted           []string
	jobs              int
	dryRun            bool
	depot             depot.MirrorOptions
}

// mirrorResult is what happened to one version.
type mirrorResult struct {
	Address   string `json:"address"`
	Version   string `json:"version"`
	State     string `json:"state"` // new, skipped, refused, failed, planned
	Reference string `json:"reference,omitempty"`
	Reason    string `json:"reason,omitempty"`

	Warnings []string `json:"warnings,omitempty"`
}

func newMirror(a *app) *cobra.Command {
	o := mirrorOptions{from: "registry", defaultHost: "registry.opentofu.org", jobs: 4}
	cmd := &cobra.Command{
		Use:   "mirror ADDRESS[@CONSTRAINT]...",
		Short: "Copy providers and modules from their origins into the registry",
		Long:  mirrorLong,
		Example: `  okara mirror 'hashicorp/time@~> 0.14' --platform linux_amd64,darwin_arm64
  okara mirror --lockfile infra/.terraform.lock.hcl
  okara mirror terraform-aws-modules/vpc/aws@5.1.0
  okara mirror hashicorp/time --from /media/mirror --allow-unsigned
  okara mirror hashicorp/time --openpgp-key hashicorp.pub.asc`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && len(o.lockFiles) == 0 {
				return usageError("name a provider or a module, or a lock file with --lockfile")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.mirror(cmd.Context(), args, o) },
	}
	f := cmd.Flags()
	addAllowInternal(f, &a.origins.allowed)
	f.StringVar(&o.from, "from", o.from, "`SOURCE` to read providers from, or registry host of modules")
	f.StringVar(&o.defaultHost, "default-host", o.defaultHost, "`HOST` of addresses that name none")
	f.StringSliceVar(&o.platforms, "platform", nil, "`OS_ARCH` to copy, repeated or separated by commas; all without this flag")
	f.StringArrayVar(&o.lockFiles, "lockfile", nil, "copy exactly what this lock `FILE` uses")
	f.IntVar(&o.jobs, "jobs", o.jobs, "versions copied at a time")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be copied")
	f.BoolVar(&o.depot.AllowUnsigned, "allow-unsigned", false, "take providers whose origin publishes no signature")
	f.BoolVar(&o.depot.AllowExpired, "allow-expired-key", false, "accept a key that has expired since it signed")
	f.StringArrayVar(&o.trusted, "openpgp-key", nil, "armored OpenPGP public key `FILE` that must have signed the providers, whatever keys the origin names (repeatable)")
	return cmd
}

// mirrorJob copies one version.
type mirrorJob struct {
	address string
	version addr.Version
	has     func(ctx context.Context) (bool, error) // whether it was copied before
	run     func(ctx context.Context) (depot.Published, error)
}

func (a *app) mirror(ctx context.Context, args []string, o mirrorOptions) error {
	for _, s := range o.platforms {
		t, err := addr.ParsePlatform(s)
		if err != nil {
			return err
		}
		o.depot.Platforms = append(o.depot.Platforms, t)
	}
	var err error
	if o.depot.Trusted, err = readPublicKeys(o.trusted); err != nil {
		return err
	}
	src, err := a.providerSource(o.from, "")
	if err != nil {
		return err
	}
	d, done, err := a.depot()
	if err != nil {
		return err
	}
	m := &mirrorer{a: a, o: o, src: src, depot: d}
	results, err := m.all(ctx, args)
	done()
	if err != nil {
		return err
	}
	return a.printMirrored(results)
}

type mirrorer struct {
	a     *app
	o     mirrorOptions
	src   depot.Source
	depot *depot.Depot
}

// all plans every item first, then copies the versions in parallel.
func (m *mirrorer) all(ctx context.Context, args []string) ([]mirrorResult, error) {
	var jobs []mirrorJob
	var results []mirrorResult
	for _, s := range args {
		found, err := m.plan(ctx, s)
		if err != nil {
			if _, ok := errors.AsType[*addr.SyntaxError](err); ok || ctx.Err() != nil {
				return nil, err
			}
			results = append(results, mirrorResult{Address: s, State: mirrorState(false, err), Reason: err.Error()})
		}
		jobs = append(jobs, found...)
	}
	for _, name := range m.o.lockFiles {
		found, err := m.lockFile(name)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, found...)
	}
	return append(results, m.run(ctx, jobs)...), ctx.Err()
}

func (m *mirrorer) run(ctx context.Context, jobs []mirrorJob) []mirrorResult {
	results := make([]mirrorResult, len(jobs))
	var g errgroup.Group
	g.SetLimit(max(m.o.jobs, 1))
	for i, job := range jobs {
		g.Go(func() error {
			results[i] = m.one(ctx, job)
			return nil
		})
	}
	_ = g.Wait() // a job puts its error into its result
	return results
}

func (m *mirrorer) one(ctx context.Context, job mirrorJob) mirrorResult {
	var published depot.Published
	var err error
	if m.o.dryRun {
		published.Existing, err = job.has(ctx)
	} else {
		published, err = job.run(ctx)
	}
	r := mirrorResult{Address: job.address, Version: job.version.String(), State: mirrorState(published.Existing, err), Warnings: published.Warnings}
	switch {
	case err != nil:
		r.Reason = err.Error()
	case !m.o.dryRun:
		r.Reference = published.String()
	case r.State == "new":
		r.State = "planned"
	}
	return r
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

// plan returns the jobs of one argument.
func (m *mirrorer) plan(ctx context.Context, s string) ([]mirrorJob, error) {
	address, versions, _ := strings.Cut(s, "@")
	allow, err := addr.ParseConstraint(versions)
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(address, "/")
	isHost := strings.ContainsAny(first, ".:") || first == "localhost"
	parts := strings.Count(address, "/") + 1
	if isHost {
		parts--
	}
	if parts == 3 && len(m.o.trusted) > 0 {
		return nil, fmt.Errorf("%w: a module has no OpenPGP signature", depot.ErrUntrusted)
	}
	if parts == 3 {
		return m.planModule(ctx, address, isHost, versions, allow)
	}
	p, err := addr.ParseProvider(address)
	if err != nil {
		return nil, err
	}
	if p.Hostname == "" {
		p.Hostname = m.o.defaultHost
	}
	if _, err := m.a.upstreamClient(p.Hostname); err != nil {
		return nil, err
	}
	have, err := m.src.Versions(ctx, p)
	if err != nil {
		return nil, err
	}
	var jobs []mirrorJob
	for _, v := range selectVersions(have, versions, allow) {
		jobs = append(jobs, m.provider(p, v))
	}
	return jobs, noneSelected(jobs, address, versions)
}

// selectVersions returns the newest release without a constraint, else all that
// it allows. have is sorted, highest first.
func selectVersions(have []addr.Version, versions string, allow addr.Constraint) []addr.Version {
	var out []addr.Version
	for _, v := range have {
		if !allow.Allows(v) {
			continue
		}
		out = append(out, v)
		if versions == "" {
			break
		}
	}
	return out
}

func noneSelected(jobs []mirrorJob, address, versions string) error {
	if len(jobs) > 0 {
		return nil
	}
	return fmt.Errorf("no version of %s matches %q: %w", address, versions, oci.ErrNotFound)
}

func (m *mirrorer) provider(p addr.Provider, v addr.Version) mirrorJob {
	return mirrorJob{
		address: p.String(), version: v,
		has: func(ctx context.Context) (bool, error) { return m.depot.HasProvider(ctx, p, v) },
		run: func(ctx context.Context) (depot.Published, error) {
			return m.depot.MirrorProvider(ctx, m.src, p, v, m.o.depot)
		},
	}
}

func (m *mirrorer) planModule(ctx context.Context, address string, hasHost bool, versions string, allow addr.Constraint) ([]mirrorJob, error) {
	host, rest := m.o.defaultHost, address
	if m.o.from != "registry" {
		host = m.o.from
	}
	if hasHost {
		host, rest, _ = strings.Cut(address, "/")
	}
	module, err := addr.ParseModule(rest)
	if err != nil {
		return nil, err
	}
	client, err := m.a.upstreamClient(host)
	if err != nil {
		return nil, err
	}
	src := &upstream.ModuleRegistry{Client: client, Host: host}
	have, err := src.Versions(ctx, module)
	if err != nil {
		return nil, err
	}
	fetcher := depot.Fetcher{Client: client, Git: m.a.git(m.a.hostToken), Open: m.a.openOrigin}
	var jobs []mirrorJob
	for _, v := range selectVersions(have, versions, allow) {
		mv := addr.ModuleVersion{Module: module, Version: v}
		has := func(ctx context.Context) (bool, error) { return m.depot.HasModule(ctx, mv) }
		jobs = append(jobs, mirrorJob{address: module.String(), version: v, has: has, run: func(ctx context.Context) (depot.Published, error) {
			fetch := func(ctx context.Context, dir string) (fs.FS, map[string]string, error) {
				l, err := src.Location(ctx, module, v)
				if err != nil {
					return nil, nil, err
				}
				return fetcher.Fetch(ctx, l, dir)
			}
			return m.depot.MirrorModule(ctx, mv, fetch, depot.ModuleOptions{})
		}})
	}
	return jobs, noneSelected(jobs, address, versions)
}

// lockFile returns a job for each entry of a lock file.
func (m *mirrorer) lockFile(name string) ([]mirrorJob, error) {
	l, err := readLockFile(name)
	if err != nil {
		return nil, err
	}
	var jobs []mirrorJob
	for _, p := range l.Providers {
		if _, err := m.a.upstreamClient(p.Address.Hostname); err != nil { // the user's own file names it
			return nil, err
		}
		jobs = append(jobs, m.provider(p.Address, p.Version))
	}
	return jobs, nil
}

// printMirrored prints one line per version and a summary.
func (a *app) printMirrored(results []mirrorResult) error {
	count := map[string]int{}
	var lines []string
	for _, r := range results {
		count[r.State]++
		line := fmt.Sprintf("%s %s: %s", r.Address, r.Version, r.State)
		if r.Reason != "" {
			line += ": " + r.Reason
		} else if r.Reference != "" {
			line += " " + r.Reference
		}
		lines = append(lines, line)
		for _, w := range r.Warnings {
			a.note("warning: %s %s: %s", r.Address, r.Version, w)
		}
	}
	if err := a.printResult(results, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if count["planned"] > 0 {
		a.note("%d planned, %d skipped, %d failed", count["planned"], count["skipped"], count["failed"])
	} else {
		a.note("%d new, %d skipped, %d refused, %d failed", count["new"], count["skipped"], count["refused"], count["failed"])
	}
	if bad := count["refused"] + count["failed"]; bad > 0 {
		return partlyError("%d of %d versions were not mirrored", bad, len(results))
	}
	return nil
}

const sourceHelp = `Where providers come from:
  registry              the provider's own registry, found by its host name
  HOST                  another registry that serves the same addresses
  https://HOST/PATH/    a network mirror, or the provider protocol if PATH ends
                        in v1/providers, as okara's /origin/HOSTNAME/v1/providers/
  DIR                   a filesystem mirror, as "tofu providers mirror" writes it
  oci://HOST[/PREFIX]   the mirror repositories of another OCI registry`

// providerSource returns the source that the text names, see sourceHelp. own is
// the host name under which the registry's own providers are addressed.
func (a *app) providerSource(from, own string) (depot.Source, error) {
	src, err := depot.OpenSource(from, depot.SourceOptions{Upstream: a.upstreamClient, Registry: a.clientOf, Own: own})
	if e, ok := errors.AsType[*depot.SourceError](err); ok {
		err = usageError("%w", err)
		if !e.URL {
			err = withHint(err, "run the command with --help for the forms it takes")
		}
	}
	return src, err
}
