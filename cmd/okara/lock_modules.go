// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/modulelock"
	"github.com/seed-141914ff/okara/internal/text"
)

// lockDiffers gives the exit code of what is not as it was locked.
func lockDiffers(err error) error { return &cli.ExitError{Code: 4, Err: err} }

// lockModules writes or checks the lock of the modules that init has installed in dir.
func lockModules(a *cli.App, dir string, o lockOptions) error {
	name := filepath.Join(dir, modulelock.Name)
	locked, err := modulelock.Read(dir)
	if err != nil {
		return err
	}
	data := backendblock.DataDir(dir, a.Getenv)
	installed, err := modulelock.Installed(dir, data)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.WithHint(fmt.Errorf("no modules are installed in %s", dir), "run `tofu init` or `terraform init` there first")
	}
	if err != nil {
		return err
	}
	fresh := locked == nil
	if fresh {
		locked = &modulelock.File{}
	}
	changes := locked.Compare(installed)
	var names []string
	for _, u := range o.upgrade {
		names = append(names, strings.TrimSpace(u))
	}
	pending := slices.ContainsFunc(changes, func(d modulelock.Difference) bool {
		return slices.Contains(names, d.Call) || slices.Contains(names, d.Package)
	})
	if len(names) > 0 && !pending && !o.check && !slices.Contains(names, "") {
		return forgetModules(a, locked, name, data, names)
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
		lines = append(lines, d.String())
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
	case len(refused) > 0 && o.check:
		return cli.WithHint(lockDiffers(fmt.Errorf("the installed modules are not those of %s", name)), "to install them again, remove .terraform/modules and run init; to accept them, run `okara lock --modules --upgrade %s`", dir)
	case len(refused) > 0:
		return cli.WithHint(lockDiffers(fmt.Errorf("%s has different packages for these calls", name)), "accept them with --upgrade")
	case o.check || len(changes) == 0 && !fresh:
		return nil
	}
	return files.Replace(name, installed.Bytes(), 0o644)
}

// forgetModules unlocks the packages of some calls, so that the next init selects them anew.
func forgetModules(a *cli.App, locked *modulelock.File, name, data string, names []string) error {
	rest, err := locked.Forget(data, names)
	if err != nil {
		return err
	}
	if rest == nil {
		return cli.WithHint(fmt.Errorf("%s has no call or package %s", name, strings.Join(names, ", ")), "the calls are the labels of its blocks")
	}
	if err := files.Replace(name, rest.Bytes(), 0o644); err != nil {
		return err
	}
	gone := slices.DeleteFunc(rest.Compare(locked), func(d modulelock.Difference) bool { return d.Locked != "" })
	if err := a.PrintResult(gone, fmt.Sprintf("%s: unlocked %s", name, strings.Join(names, ", "))); err != nil {
		return err
	}
	a.Note("next: run init with `okara tofu` or `okara terraform`, then `okara lock --modules`")
	return nil
}
