// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"errors"
	"log/slog"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// Move moves what decides about the runs of organizations to the repositories beside their states:
// versions up to commit 6129cd06 kept it where whoever may write states may write it. It is for one
// time only, since what is pushed in the old form afterwards must decide nothing; after an error it
// may be repeated. A dry run only logs what it finds, in the undecided organizations.
//
// What cannot be read is logged and stays: it may be forged, and must not stop the rest.
func Move(ctx context.Context, o Options, organizations []string, dry bool, log *slog.Logger) (undecided []string, err error) {
	for _, name := range organizations {
		store, err := o.Open(ctx, name)
		if errors.Is(err, oci.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found, err := moveRecords(ctx, o, store, dry, log.With("organization", name))
		if err != nil {
			return nil, err
		}
		if found && dry {
			undecided = append(undecided, name)
		}
	}
	return undecided, nil
}

func moveRecords(ctx context.Context, o Options, store *statebackend.Store, dry bool, log *slog.Logger) (found bool, err error) {
	book, err := variables.Open(store.Repo(), o.Sealer, o.Now, nil)
	if err != nil {
		return false, err
	}
	list, err := book.List(ctx)
	if err != nil {
		return false, err
	}
	records, left, err := list.Take(ctx, book.Former(), dry)
	if err != nil {
		return false, err
	}
	l, err := store.List(ctx)
	if err != nil {
		return false, err
	}
	all, err := l.Workspaces(ctx)
	switch {
	case errors.Is(err, oci.ErrCorrupt):
		log.WarnContext(ctx, "settings of workspaces were not moved: a record cannot be read", "error", err)
	case err != nil:
		return false, err
	}
	known, err := list.Settings(ctx, "")
	if err != nil {
		return false, err
	}
	var settings []string
	for _, w := range all {
		r := w.Live()
		if _, has := known[w.Name]; has || r == nil || !hasDecisions(runDecisions(*r)) {
			continue
		}
		if !dry {
			if err := list.PutSettings(ctx, runDecisions(*r), r.By); err != nil {
				return false, err
			}
		}
		settings = append(settings, w.Name)
	}
	if len(left) > 0 {
		log.WarnContext(ctx, "variables were not moved: they cannot be read", "tags", left)
	}
	if found = records > 0 || len(settings) > 0; found {
		message := "settings and variables of runs were moved to " + book.Repo.String() + "; until now, anyone with write access to the states could change them, so review them"
		if dry {
			message = "settings and variables of runs are among the states, where anyone with write access to the states could write them"
		}
		log.WarnContext(ctx, message, "variables_and_sets", records, "settings_of_workspaces", settings)
	}
	return found, nil
}
