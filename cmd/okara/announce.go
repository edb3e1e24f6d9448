// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// announced is the result of deprecate, yank and their opposites.
type announced struct {
	Action  string `json:"action"`
	Address string `json:"address"`
	Version string `json:"version"`
	Tag     string `json:"tag"` // of the event
}

func newDeprecate(reg *cli.Registries) *cobra.Command {
	return newAnnounce(reg, artifact.ActionDeprecate, "Warn the users of a version",
		`Warn the users of a version, or with @* of all versions. The version stays
listed and installable. tofu and terraform show the message for providers; their
module protocol has no place for one, so for modules okara show and okara list do.`)
}

func newUndeprecate(reg *cli.Registries) *cobra.Command {
	return newAnnounce(reg, artifact.ActionUndeprecate, "Take back a deprecation", `Take back a deprecation.`)
}

func newYank(reg *cli.Registries) *cobra.Command {
	return newAnnounce(reg, artifact.ActionYank, "Withdraw a version",
		`Withdraw a version: the front-end neither lists nor serves it, so that exact pins
and lock files on it fail too. Nothing is deleted, and okara unyank takes it back.
Direct access by oci:// still works, unless --delete-tag removes the tag, which not
every registry allows.`)
}

func newUnyank(reg *cli.Registries) *cobra.Command {
	return newAnnounce(reg, artifact.ActionUnyank, "Take back a yank", `Take back a yank. Where the yank, or okara prune, removed the tag, it is put back,
as long as the registry still has what it named.`)
}

func newAnnounce(reg *cli.Registries, action, short, long string) *cobra.Command {
	an := depot.Announcement{Action: action}
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   action + " ADDRESS@VERSION",
		Short: short,
		Long: long + `

The change is recorded as an entry of its own under a new tag; nothing moves and
nothing is deleted. With --server it goes through a front-end (okara serve), which
needs a token there as okara publish does.

Exit codes: 0 done, 2 usage, 3 there is no such version, 5 denied.`,
		Example: "  okara " + action + " net/vpc/aws@1.4.0" + exampleMessage(action),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, version, ok := strings.Cut(args[0], "@")
			if !ok {
				return cli.UsageError("%q names no version: ADDRESS@VERSION, or ADDRESS@* for all", args[0])
			}
			it, err := addr.ParseItem(address)
			if err != nil {
				return cli.UsageError("%w", err)
			}
			if version != artifact.AllVersions {
				v, err := addr.ParseVersion(version)
				if err != nil {
					return cli.UsageError("%w", err)
				}
				version = v.String()
			}
			an.Version = version
			tag, err := announceItem(cmd.Context(), reg, server, it, an)
			if err != nil {
				return err
			}
			return reg.PrintResult(announced{action, address, version, tag}, action+" "+address+"@"+version)
		},
	}
	f := cmd.Flags()
	server.Add(f)
	f.StringVarP(&an.Message, "message", "m", "", "`TEXT` for the users, up to 300 bytes")
	f.StringVar(&an.Actor, "actor", "", "`WHO` does this, for the record")
	switch action {
	case artifact.ActionDeprecate, artifact.ActionYank:
		f.StringVar(&an.Replacement, "replacement", "", "`VERSION` or address to use instead")
	}
	if action == artifact.ActionYank {
		f.BoolVar(&an.DeleteTag, "delete-tag", false, "also remove the tag, where the registry can")
	}
	return cmd
}

// announceItem records the announcement and returns the tag of the event.
func announceItem(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, it addr.Item, an depot.Announcement) (tag string, err error) {
	front, err := cli.OpenFrontEnd(reg, s, nil)
	if err != nil {
		return "", err
	}
	if front != nil {
		path, err := frontPath(it)
		switch {
		case err != nil:
			return "", err
		case an.Version == artifact.AllVersions, an.Actor != "", an.DeleteTag:
			return "", cli.UsageError("through --server it is one version, the actor is who the token is for, and tags stay")
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
	if err == nil {
		cli.NoteDelay(reg.App)
	}
	return e.Tag, err
}

func exampleMessage(action string) string {
	switch action {
	case artifact.ActionDeprecate:
		return ` -m "has no IPv6" --replacement 2.0.0`
	case artifact.ActionYank:
		return ` -m "deletes the wrong subnet"`
	}
	return ""
}
