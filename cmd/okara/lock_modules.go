// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/modulelock"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// lockDiffers gives the exit code of what is not as it was locked.
func lockDiffers(err error) error { return &cli.ExitError{Code: 4, Err: err} }

// lockModules writes or checks the lock of the modules that init has installed in dir.
func lockModules(ctx context.Context, up *upstreams, dir string, o lockOptions) error {
	a := up.reg.App
	name := filepath.Join(dir, modulelock.Name)
	locked, err := modulelock.Read(dir)
	if err != nil {
		return err
	}
	data := backendblock.DataDir(dir, a.Getenv)
	installed, err := modulelock.Installed(dir, data)
	var names []string
	for _, u := range o.upgrade {
		names = append(names, strings.TrimSpace(u))
	}
	forgets := len(names) > 0 && !o.check && !slices.Contains(names, "")
	if errors.Is(err, fs.ErrNotExist) && locked != nil && forgets { // init may fail, for a withdrawn version
		return forgetModules(a, locked, name, data, names)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return cli.WithHint(fmt.Errorf("no modules are installed in %s", dir), "run `tofu init` or `terraform init` there first")
	}
	if err != nil {
		return err
	}
	policy, err := o.policy.readPolicy()
	switch {
	case err != nil:
		return err
	case o.own != "":
		if err := o.checkPublished(ctx, up, installed, policy); err != nil {
			return err
		}
	case policy != nil:
		return cli.UsageError("with --modules, a policy requires --own-host: it applies to the modules of that host")
	}
	fresh := locked == nil
	if fresh {
		locked = &modulelock.File{}
	}
	missing := locked.ListMissing(dir, data)
	changes := locked.Compare(installed)
	pending := slices.ContainsFunc(changes, func(d modulelock.Difference) bool {
		return !slices.Contains(missing, d.Call) && (slices.Contains(names, d.Call) || slices.Contains(names, d.Package))
	})
	if forgets && !pending {
		return forgetModules(a, locked, name, data, names)
	}
	if !o.check && len(missing) > 0 { // what init did not get to stays locked
		return cli.WithHint(fmt.Errorf("nothing was written: init has not installed %s", strings.Join(missing, ", ")), "run init again until it succeeds")
	}
	refused := changes
	if !o.check {
		_, refused = locked.Upgrade(installed, names)
	}
	shown := changes
	if len(refused) > 0 {
		shown = refused
	}
	lines := make([]string, 0, len(shown))
	for _, d := range shown {
		line := d.String()
		if !o.check && len(refused) == 0 && d.Locked != "" && d.Found != "" {
			line = fmt.Sprintf("%s: %s -> %s", d.Call, d.Locked, d.Found)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 || fresh && !o.check {
		lines = []string{fmt.Sprintf("%s: %s, %s", name, text.Plural(len(installed.Calls), "call"), text.Plural(len(installed.Packages), "package"))}
	}
	if shown == nil {
		shown = []modulelock.Difference{}
	}
	if err := a.PrintResult(shown, strings.Join(lines, "\n")); err != nil {
		return err
	}
	switch {
	case len(refused) > 0 && o.check && fresh:
		return cli.WithHint(lockDiffers(fmt.Errorf("there is no %s", name)), "write it with `okara lock --modules %s`", dir)
	case len(refused) > 0 && o.check:
		return cli.WithHint(lockDiffers(fmt.Errorf("the installed modules do not match %s", name)), "to install them again, remove .terraform/modules and run init; to accept them, run `%s`", strings.TrimSuffix("okara lock --modules --upgrade "+text.ShellWord(dir), " ."))
	case len(refused) > 0:
		return cli.WithHint(lockDiffers(fmt.Errorf("%s has different packages for these calls", name)), "accept them with --upgrade")
	case o.check, fresh && len(installed.Calls) == 0:
		return nil
	}
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, installed.Bytes()) {
		return nil
	}
	if err := files.Replace(name, installed.Bytes(), 0o644); err != nil {
		return err
	}
	if len(changes) > 0 && !fresh {
		a.Note("accepted, and written to %s", name)
	}
	return nil
}

// checkPublished compares the installed modules of a host with what its registry has published, and adds
// the digests of their manifests. A version from before hashes were kept is downloaded.
func (o lockOptions) checkPublished(ctx context.Context, up *upstreams, installed *modulelock.File, policy *trust.Policy) error {
	client, layout, err := up.reg.Client()
	if err != nil {
		return err
	}
	d := depot.New(depot.Options{Client: client, Layout: layout})
	compared := false
	for i, p := range installed.Packages {
		host, of, _ := strings.Cut(p.Source, "/")
		if !p.IsRegistry() || !strings.EqualFold(host, o.own) {
			continue
		}
		compared = true
		m, err := addr.ParseModule(of)
		v, versionErr := addr.ParseVersion(p.Version)
		if err := errors.Join(err, versionErr); err != nil {
			return fmt.Errorf("%s %s cannot be compared: %w", p.Source, p.Version, err)
		}
		s, err := d.Subject(ctx, m.Item(), v)
		if err == nil {
			err = trust.Fulfils(ctx, s, policy)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", p.Source, v, err)
		}
		other, hash, err := findUnpublished(ctx, d, s, installed, p)
		if err != nil {
			return fmt.Errorf("%s %s: %w", p.Source, v, err)
		}
		if other != "" {
			return cli.WithHint(lockDiffers(fmt.Errorf("%s %s is installed as %s, the registry has %s", p.Source, v, other, hash)), "remove .terraform/modules and run init; if that changes nothing, find out why the server has different files")
		}
		if !slices.Contains(p.Hashes, hash) { // only copies without dot files are installed
			p.Hashes = append(p.Hashes, hash)
		}
		installed.Packages[i].Hashes = append(p.Hashes, modulelock.ManifestHash+s.Manifest.Digest.String())
	}
	if !compared {
		return cli.UsageError("no installed module is from the host %s", text.Line(o.own))
	}
	return nil
}

// findUnpublished returns the hash of a call with other files than the published ones, "" if there is
// none, and that of these. A version is downloaded if no hash was kept, or it is not that of a call.
func findUnpublished(ctx context.Context, d *depot.Depot, s trust.Subject, installed *modulelock.File, p modulelock.Package) (other, hash string, err error) {
	m, err := artifact.ParseModule(s.Manifest)
	if err != nil {
		return "", "", err
	}
	if other = installed.FindOther(p, m.H1); other == "" {
		return "", m.H1, nil
	}
	dir, remove, err := files.TempDir("")
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if _, err := d.Pull(ctx, s.Item, s.Version, filepath.Join(dir, "module"), depot.PullOptions{}); err != nil {
		return "", "", err
	}
	hashes, err := modulelock.HashFolder(filepath.Join(dir, "module"))
	return installed.FindOther(p, hashes...), hashes[0], err
}

// forgetModules unlocks the packages of some calls, so that the next init selects them anew.
func forgetModules(a *cli.App, locked *modulelock.File, name, data string, names []string) error {
	rest, err := locked.Forget(data, names)
	if err != nil {
		return err
	}
	if rest == nil {
		return cli.WithHint(&cli.ExitError{Code: cli.ExitNotFound, Err: fmt.Errorf("%s has no call or package %s", name, strings.Join(names, ", "))}, "specify a call by the label of its block in that file")
	}
	if err := files.Replace(name, rest.Bytes(), 0o644); err != nil {
		return err
	}
	if err := a.PrintResult(rest.Compare(locked), fmt.Sprintf("%s: unlocked %s", name, strings.Join(names, ", "))); err != nil {
		return err
	}
	a.Note("next: run init with `okara tofu` or `okara terraform`, then `okara lock --modules`")
	return nil
}
