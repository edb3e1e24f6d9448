// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"fmt"
	"maps"

	"github.com/seed-141914ff/okara/internal/depot"
)

// OwnRecord gives each entry its own record, for callers that run entries one by one: thousands do
// not rewrite one document. An entry's first run copies its part of the common record.
type OwnRecord struct {
	Owner    string                  // owner of the entry; a run with another owner is refused
	TakeOver func(owner string) bool // reports whether Owner takes the entry over from another one; nil: never
}

// OwnerError means that the versions at an address belong to another owner.
type OwnerError struct {
	Entry string
	Owner string // the current owner
}

func (e *OwnerError) Error() string { return fmt.Sprintf("%s belongs to another owner", e.Entry) }

// ownRecord reads the record of one entry and checks its owner.
func ownRecord(ctx context.Context, d *depot.Depot, o OwnRecord, entry string) (*Record, error) {
	rec, err := ReadEntryRecord(ctx, d, entry)
	if err != nil {
		return nil, err
	}
	if rec.Owner != "" && rec.Owner != o.Owner && (o.TakeOver == nil || !o.TakeOver(rec.Owner)) {
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

// Known returns the recorded versions of an entry; after Apply, including its results.
func (p *Plan) Known(entry string) map[string]VersionRecord {
	rec := p.records[entry]
	if rec == nil {
		return nil
	}
	return maps.Clone(rec.Entries[entry])
}

// Listing returns an entry's list as Plan read it; nil if it could not, or if Apply changed it.
func (p *Plan) Listing(entry string) *depot.Listing { return p.listings[entry] }
