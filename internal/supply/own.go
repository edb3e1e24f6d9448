// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"fmt"
	"maps"

	"github.com/seed-141914ff/okara/internal/depot"
)

// OwnRecord is for who runs entries one by one: each has a record of its own, so that
// thousands of them do not rewrite one document. What the common record knows of an
// entry goes into its own at its first run.
type OwnRecord struct {
	Owner    string // whose the entry is; a run of another owner is refused
	TakeOver bool   // the entry becomes Owner's, whoever had it
}

// OwnerError says that the versions at an address are another owner's.
type OwnerError struct {
	Entry string
	Owner string // who has it
}

func (e *OwnerError) Error() string { return fmt.Sprintf("%s belongs to another owner", e.Entry) }

// ownRecord reads the record of one entry and sees whose it is.
func ownRecord(ctx context.Context, d *depot.Depot, o OwnRecord, entry string) (*Record, error) {
	rec, err := ReadEntryRecord(ctx, d, entry)
	if err != nil {
		return nil, err
	}
	if rec.Owner != "" && rec.Owner != o.Owner && !o.TakeOver {
		return nil, &OwnerError{Entry: entry, Owner: rec.Owner}
	}
	rec.claimed = rec.Owner != o.Owner || rec.read == nil
	rec.Owner = o.Owner
	if rec.read != nil {
		return rec, nil
	}
	common, err := ReadRecord(ctx, d)
	if err != nil {
		return nil, err
	}
	if known := common.Entries[entry]; known != nil {
		rec.Entries[entry] = maps.Clone(known)
	}
	return rec, nil
}

// Known is what is known of the versions of an entry: after Apply with what came of it.
func (p *Plan) Known(entry string) map[string]VersionRecord {
	rec := p.records[entry]
	if rec == nil {
		return nil
	}
	return maps.Clone(rec.Entries[entry])
}

// Listing is what the registry lists of an entry, as Plan read it; nil where it could not
// be read, and after Apply where that changed something.
func (p *Plan) Listing(entry string) *depot.Listing { return p.listings[entry] }
