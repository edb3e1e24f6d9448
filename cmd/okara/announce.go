// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

type announced struct {
	Action  string `json:"action"`
	Address string `json:"address"`
	Version string `json:"version"`
	Tag     string `json:"tag"` // of the event
}

func newDeprecate(reg *cli.Registries) *cobra.Command {
	return newAnnounce(reg, evidence.ActionDeprecate, evidence.ActionUndeprecate, "Warn the users of a version",
		`Warn the users of a version, or of all current versions with @*. The version stays
listed and installable. tofu and terraform show the message for providers; their module
protocol has no field for it, so for modules okara show and okara list do. --undo
removes the warning.`)
}

func newYank(reg *cli.Registries) *cobra.Command {
	return newAnnounce(reg, evidence.ActionYank, evidence.ActionUnyank, "Withdraw a version",
		`Withdraw a version, or with @* all current versions: a server
neither lists nor serves it, so exact pins and lock files that name it fail too.
Nothing is deleted. Direct access by oci:// still works, unless --delete-tag
removes the tag, which not every registry allows.

--undo restores the version, and with @* only those that an earlier @* withdrew. A tag
removed by the yank or by okara admin prune is restored too, as long as the registry has
the content.`)
}

type announceFlags struct {
	an        depot.Announcement
	server    cli.ServerFlags
	undo, yes bool
}

func newAnnounce(reg *cli.Registries, action, opposite, short, long string) *cobra.Command {
	f := announceFlags{an: depot.Announcement{Action: action}}
	cmd := &cobra.Command{
		Use:   action + " ADDRESS@VERSION",
		Short: short,
		Long: long + `

The change is recorded as a separate entry under a new tag; nothing is moved or deleted.
With --server it goes through an okara server, which requires a token, as for okara
publish.

Exit codes: 0 done, 2 usage, 3 version not found, 5 denied.`,
		Example: "  okara " + action + " net/vpc/aws@1.4.0" + exampleMessage(action) + "\n  okara " + action + " net/vpc/aws@1.4.0 --undo",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.undo && (f.an.Replacement != "" || f.an.DeleteTag) {
				return cli.UsageError("--replacement and --delete-tag cannot be used with okara %s --undo", action)
			}
			if f.undo {
				f.an.Action = opposite
			}
			return f.runAnnounce(cmd.Context(), reg, args[0])
		},
	}
	f.addTo(cmd, action)
	return cmd
}

func (f *announceFlags) addTo(cmd *cobra.Command, action string) {
	fl := cmd.Flags()
	f.server.Add(fl)
	fl.BoolVar(&f.undo, "undo", false, "undo the change")
	fl.StringVarP(&f.an.Message, "message", "m", "", "`TEXT` shown to users, up to 300 bytes")
	fl.StringVar(&f.an.Actor, "actor", "", "record `WHO` as the author of the change")
	fl.StringVar(&f.an.Replacement, "replacement", "", "`VERSION` or address to use instead")
	if action == evidence.ActionYank {
		cli.AddYes(fl, &f.yes)
		fl.BoolVar(&f.an.DeleteTag, "delete-tag", false, "also remove the tag, if the registry allows it")
	}
}

func (f *announceFlags) runAnnounce(ctx context.Context, reg *cli.Registries, arg string) error {
	it, address, version, err := announcedVersion(arg)
	if err != nil {
		return err
	}
	an := f.an
	an.Version = version
	if _, _, wrong := addr.ParseItemVersion(cmp.Or(an.Replacement, "a/b") + "@1.0.0"); wrong != nil {
		if _, err := addr.ParseVersion(an.Replacement); err != nil {
			return cli.UsageError("--replacement %q is neither a version such as 2.0.0 nor an address", an.Replacement)
		}
	}
	if v, err := addr.ParseVersion(an.Replacement); err == nil && v.String() == version {
		return cli.UsageError("--replacement %s is this version itself", an.Replacement)
	}
	if an.DeleteTag && version == evidence.AllVersions {
		return cli.UsageError("--delete-tag removes the tag of one version, and cannot be used with @*")
	}
	front, err := cli.OpenFrontEnd(reg, f.server, nil)
	if err != nil {
		return err
	}
	was, missing := readStatus(ctx, reg, front, it, an)
	if an.Action == evidence.ActionYank {
		ask, what := reg.ConfirmOverwrite, address+"@"+version
		if version == evidence.AllVersions {
			ask, what = reg.Confirm, "every version of "+address
		}
		if users := warnUsers(ctx, reg, front, it, version); users != "" && missing == nil {
			reg.Note("%s", users)
		}
		if err := ask(f.yes, "withdraw "+what); err != nil {
			return err
		}
	}
	tag, err := announceItem(ctx, reg, front, it, an)
	if missing != nil && errors.Is(err, oci.ErrNotFound) {
		if front == nil {
			missing = err // says more
		}
		return cli.WithHint(missing, "`okara list %s` shows the versions", it)
	}
	if err != nil {
		return err
	}
	return reg.PrintResult(announced{an.Action, address, version, tag}, announcedText(an, was, address+"@"+version))
}

// readStatus returns the status of a version, nil if it is not known, and an error if it is not listed.
func readStatus(ctx context.Context, reg *cli.Registries, front *client.Client, it addr.Item, an depot.Announcement) (*evidence.Status, error) {
	v, err := addr.ParseVersion(an.Version)
	if err != nil { // all versions
		return nil, nil
	}
	var l *depot.Listing
	if front != nil {
		l, err = front.Versions(ctx, it)
	} else if client, layout, wrong := reg.Client(); wrong == nil {
		l, err = depot.New(depot.Options{Client: client, Layout: layout}).Versions(ctx, it)
	} else {
		err = wrong
	}
	if err != nil || len(l.Versions) == 0 { // the change itself says what is wrong
		return nil, nil
	}
	s := l.Status(v)
	if s.Yanked == nil && !slices.Contains(l.Versions, v) {
		return nil, fmt.Errorf("%s has no version %s, the newest is %s: %w", it, v, l.Versions[0], oci.ErrNotFound)
	}
	return &s, nil
}

// announcedText says what changed from a known status.
func announcedText(an depot.Announcement, was *evidence.Status, what string) string {
	said := map[string]string{evidence.ActionYank: "withdrew ", evidence.ActionUnyank: "restored ", evidence.ActionDeprecate: "deprecated ", evidence.ActionUndeprecate: "removed the warning of "}[an.Action] + what
	if was == nil {
		return said
	}
	before, again := was.Deprecated, " was deprecated already"
	if an.Action == evidence.ActionYank || an.Action == evidence.ActionUnyank {
		before, again = was.Yanked, " was withdrawn already"
	}
	switch undo := strings.HasPrefix(an.Action, "un"); {
	case undo && before == nil && an.Action == evidence.ActionUnyank:
		return what + " is not withdrawn, nothing to undo"
	case undo && before == nil:
		return what + " has no warning, nothing to undo"
	case !undo && before != nil && an.Message+an.Replacement != "" && (before.Message != an.Message || before.Replacement != an.Replacement):
		return what + again + "; its message was replaced"
	case !undo && before != nil:
		return what + again
	}
	return said
}

func announcedVersion(arg string) (it addr.Item, address, version string, err error) {
	address, version, ok := strings.Cut(arg, "@")
	if !ok {
		return it, "", "", cli.UsageError("%q has no version: expected ADDRESS@VERSION, or ADDRESS@* for all", arg)
	}
	if it, err = addr.ParseItem(address); err == nil && version != evidence.AllVersions {
		var v addr.Version
		v, err = addr.ParseVersion(version)
		version = v.String()
	}
	if err != nil {
		err = cli.UsageError("%w", err)
	}
	return it, address, version, err
}

// announceItem announces through a front-end, or in the registry if that is nil.
func announceItem(ctx context.Context, reg *cli.Registries, front *client.Client, it addr.Item, an depot.Announcement) (tag string, err error) {
	if front != nil {
		path, err := frontPath(it)
		switch {
		case err != nil:
			return "", err
		case an.Version == evidence.AllVersions, an.Actor != "", an.DeleteTag:
			return "", cli.UsageError("--server changes one version at a time, and cannot be used with --actor or --delete-tag")
		}
		tag, err := front.Announce(ctx, path, an)
		return tag, cli.ServerHint(err)
	}
	client, layout, err := reg.Client()
	if err != nil {
		return "", err
	}
	e, warnings, err := depot.New(depot.Options{Client: client, Layout: layout}).Announce(ctx, it, an)
	for _, w := range warnings {
		reg.Note("warning: %s", w)
	}
	return e.Tag, err
}

func exampleMessage(action string) string {
	switch action {
	case evidence.ActionDeprecate:
		return ` -m "has no IPv6" --replacement 2.0.0`
	case evidence.ActionYank:
		return ` -m "deletes the wrong subnet"`
	}
	return ""
}
