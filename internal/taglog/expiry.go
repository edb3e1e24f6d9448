// SPDX-License-Identifier: Apache-2.0

package taglog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/seed-141914ff/okara/oci"
)

// Expiry deletes expired tags of a repository. Only one call may run at a time.
type Expiry struct {
	repo    *oci.Repo
	log     *slog.Logger
	records string
	refused bool
}

// New returns the expiry of a repository. The records are named as in "old
// counts of downloads", for the log.
func New(repo *oci.Repo, log *slog.Logger, records string) *Expiry {
	return &Expiry{repo: repo, log: log, records: records}
}

// Refused reports whether the registry has refused to delete a tag.
func (e *Expiry) Refused() bool { return e.refused }

// Expire deletes tags in order, until the first error or refusal. A tag that
// does not exist is no error, since another replica may be faster.
func (e *Expiry) Expire(ctx context.Context, tags ...string) error {
	for _, tag := range tags {
		if e.refused {
			return nil
		}
		err := e.repo.Untag(ctx, tag)
		switch {
		case errors.Is(err, oci.ErrUnsupported), errors.Is(err, oci.ErrDenied):
			e.log.Info("the registry deletes no tags, so it keeps "+e.records, "reason", err)
			e.refused = true
		case err != nil && !errors.Is(err, oci.ErrNotFound):
			return fmt.Errorf("delete %s: %w", tag, err)
		}
	}
	return nil
}
