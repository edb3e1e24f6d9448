// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// State is the state of one version in a record.
type State string

// The states of a version in a record.
const (
	StatePublished State = "published"
	StateWaiting   State = "waiting" // for approval; it has a candidate tag
	StateBlocked   State = "blocked" // by a scan; it has a candidate tag
	StateDrift     State = "drift"   // the origin or the registry has other content than recorded
	StateParked    State = "parked"  // the origin sent too much; the next attempt waits
)

// Record is a depot's state: what it published and from where. It is stored in the registry, so
// that any replica can run, and changes only when a version does; see [OwnRecord] for one an entry.
type Record struct {
	SchemaVersion int                                 `json:"schemaVersion"`
	Owner         string                              `json:"owner,omitempty"` // owner of the entry, see [OwnRecord]
	Entries       map[string]map[string]VersionRecord `json:"entries"`         // "module net/vpc/aws" -> version

	tag     string // tag under which it is stored
	read    []byte // bytes as they were read
	claimed bool   // the owner has changed
}

// VersionRecord is the recorded state of one version.
type VersionRecord struct {
	State   State     `json:"state"`
	Digest  string    `json:"digest"`           // of the manifest or index
	Origin  string    `json:"origin,omitempty"` // commit, if the origin names one
	Since   time.Time `json:"since"`            // first seen
	Scanned time.Time `json:"scanned,omitzero"`
	Drifted time.Time `json:"drifted,omitzero"` // when a drift was first seen; zero: none, or seen before this field existed
	Reason  string    `json:"reason,omitempty"` // why it waits, is blocked, has drifted or is parked
	Tries   int       `json:"tries,omitempty"`  // consecutive failures of a parked version
	Retry   time.Time `json:"retry,omitzero"`   // when a parked version is tried again
	Lost    int       `json:"lost,omitempty"`   // parts that the registry did not have at the last look

	// Of a provider: the platforms that were asked for, "*" for all, and those
	// of them that the origin does not have. Neither exists in older records.
	Platforms []string `json:"platforms,omitempty"`
	Absent    []string `json:"absent,omitempty"`

	// Of a module: its directory in the repository; nil in older records.
	Subdir *string `json:"subdir,omitempty"`

	published depot.Published // result of this run
}

// Problem returns what is to be said about a version in any state, "" for nothing.
func (vr VersionRecord) Problem() string {
	if vr.Reason == "" && vr.Lost > 0 {
		return lostText(vr.Lost)
	}
	return vr.Reason
}

func newRecord(tag string) *Record {
	return &Record{SchemaVersion: 1, Entries: map[string]map[string]VersionRecord{}, tag: tag}
}

// ReadRecord reads the common record of a depot; it is empty before the first run.
func ReadRecord(ctx context.Context, d *depot.Depot) (*Record, error) {
	return readRecord(ctx, d, recordTag)
}

// ReadEntryRecord reads the record of one entry; it is empty before the first run.
func ReadEntryRecord(ctx context.Context, d *depot.Depot, entry string) (*Record, error) {
	return readEntryRecord(ctx, d, entryRecordTag(entry), entry)
}

// readEntryRecord refuses a record with other entries; entry is "" if only the tag is known.
func readEntryRecord(ctx context.Context, d *depot.Depot, tag, entry string) (*Record, error) {
	rec, err := readRecord(ctx, d, tag)
	if err != nil {
		return nil, err
	}
	for name := range rec.Entries {
		if name != entry && entry != "" || entryRecordTag(name) != tag {
			return nil, fmt.Errorf("the depot's record %s is about %s: %w", tag, name, oci.ErrCorrupt)
		}
	}
	return rec, nil
}

func readRecord(ctx context.Context, d *depot.Depot, tag string) (*Record, error) {
	b, err := readDocument(ctx, d, tag)
	if err != nil {
		return nil, fmt.Errorf("reading the depot's record: %w", err)
	}
	rec := newRecord(tag)
	rec.read = b
	if b == nil {
		return rec, nil
	}
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("reading the depot's record: %w: %w", err, oci.ErrCorrupt)
	}
	if rec.SchemaVersion != 1 {
		return nil, oci.Unsupported("the depot's record has version %d, expected 1", rec.SchemaVersion)
	}
	if rec.Entries == nil {
		rec.Entries = map[string]map[string]VersionRecord{}
	}
	return rec, nil
}

// recordReads is how many records are read concurrently.
const recordReads = 8

// ReadRecords reads the common record and those of single entries.
func ReadRecords(ctx context.Context, d *depot.Depot) (common *Record, own []*Record, err error) {
	r, err := d.Repo(d.Options().Layout.CatalogRepo())
	if err == nil {
		common, err = ReadRecord(ctx, d)
	}
	if err != nil {
		return nil, nil, err
	}
	var tags []string
	for tag, err := range r.Tags(ctx) {
		if errors.Is(err, oci.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("listing the depot's records: %w", err)
		}
		if isEntryRecordTag(tag) {
			tags = append(tags, tag)
		}
	}
	own = make([]*Record, len(tags))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(recordReads)
	for i, tag := range tags {
		g.Go(func() (err error) {
			own[i], err = readEntryRecord(gctx, d, tag, "")
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(own, func(a, b *Record) int { return slices.Compare(a.Names(), b.Names()) })
	return common, own, nil
}

// save writes the record if it has changed since it was read.
func (rec *Record) save(ctx context.Context, d *depot.Depot) error {
	b, err := json.Marshal(rec)
	if err != nil || bytes.Equal(b, rec.read) {
		return err
	}
	r, err := d.Repo(d.Options().Layout.CatalogRepo())
	if err == nil {
		blob := artifact.Inlined(oci.BytesBlob(mediaRecord, b), b)
		err = artifact.PutDocument(ctx, r, rec.tag, artifactRecord, blob, nil)
	}
	if err == nil {
		rec.read = b
		rec.claimed = false
	}
	return err
}

// Names returns the entries in order.
func (rec *Record) Names() []string { return slices.Sorted(maps.Keys(rec.Entries)) }

// Versions returns the versions of an entry, highest first.
func (rec *Record) Versions(entry string) []string {
	versions := slices.Collect(maps.Keys(rec.Entries[entry]))
	slices.SortFunc(versions, func(a, b string) int {
		va, _ := addr.ParseVersion(a)
		vb, _ := addr.ParseVersion(b)
		return vb.Compare(va)
	})
	return versions
}

func (rec *Record) get(entry string, v addr.Version) (VersionRecord, bool) {
	vr, ok := rec.Entries[entry][v.String()]
	return vr, ok
}

func (rec *Record) set(entry string, v addr.Version, vr VersionRecord) {
	if rec.Entries[entry] == nil {
		rec.Entries[entry] = map[string]VersionRecord{}
	}
	rec.Entries[entry][v.String()] = vr
}

func (rec *Record) remove(entry string, v addr.Version) { delete(rec.Entries[entry], v.String()) }

// ErrOutdated means that the record has changed since the caller's view of it.
var ErrOutdated = errors.New("the depot's record has changed")

// Waits returns the record of a version that waits with this digest. If it does not, the error
// wraps ErrOutdated and says why.
func (rec *Record) Waits(entry string, v addr.Version, digest string) (VersionRecord, error) {
	vr, ok := rec.get(entry, v)
	switch {
	case !ok:
		return vr, fmt.Errorf("%s no longer has version %s: %w", entry, v, ErrOutdated)
	case vr.Digest != digest:
		return vr, fmt.Errorf("version %s is %s now: %w", v, vr.Digest, ErrOutdated)
	case vr.State != StateWaiting:
		return vr, fmt.Errorf("version %s is %s now: %w", v, vr.State, ErrOutdated)
	}
	return vr, nil
}

// Approved records a person's approval of what waits. The caller must ensure that no run is active.
func (rec *Record) Approved(ctx context.Context, d *depot.Depot, entry string, v addr.Version, digest string) error {
	vr, err := rec.Waits(entry, v, digest)
	if err != nil {
		return err
	}
	vr.State = StatePublished
	vr.Reason = ""
	rec.set(entry, v, vr)
	return rec.save(ctx, d)
}

// HeldReason returns why the records hold a version back, "" if they do not have it.
func HeldReason(ctx context.Context, d *depot.Depot, it addr.Item, v addr.Version) (string, error) {
	entry := it.Kind + " " + it.String()
	own, err := ReadEntryRecord(ctx, d, entry)
	if err != nil {
		return "", err
	}
	common, err := ReadRecord(ctx, d)
	if err != nil {
		return "", err
	}
	for _, rec := range []*Record{own, common} {
		if vr, ok := rec.get(entry, v); ok && vr.Reason != "" {
			return string(vr.State) + ": " + vr.Reason, nil
		}
	}
	return "", nil
}

// artifactRecord is the type of a depot's record of what it published, from where, and what waits.
// Its only layer is JSON of mediaRecord, repeated in the manifest if small: polling is one request.
const (
	artifactRecord = "application/vnd.okara.depot.v1"
	mediaRecord    = "application/vnd.okara.depot.v1+json"
)

// recordTag is the common record's tag in the catalog repository. One runner at a time moves it.
const recordTag = "okara-depot"

const entryRecordPrefix = "depot-"

// entryRecordTag returns the tag of an entry's own record, which moves as [recordTag] does.
func entryRecordTag(entry string) string {
	sum := sha256.Sum256([]byte(entry))
	return entryRecordPrefix + hex.EncodeToString(sum[:16])
}

func isEntryRecordTag(tag string) bool {
	rest, ok := strings.CutPrefix(tag, entryRecordPrefix)
	return ok && len(rest) == 32 && strings.Trim(rest, "0123456789abcdef") == ""
}

// maxRecord bounds a record in bytes: a quarter of a million versions of 250 bytes.
const maxRecord = 64 << 20

// readDocument reads a record of the depot; nil if there is none yet.
func readDocument(ctx context.Context, d *depot.Depot, tag string) ([]byte, error) {
	r, err := d.Repo(d.Options().Layout.CatalogRepo())
	if err != nil {
		return nil, err
	}
	m, err := r.Fetch(ctx, tag)
	if err != nil {
		return nil, oci.IgnoreNotFound(err)
	}
	layer, err := artifact.DocumentLayer(m, artifactRecord)
	if err != nil {
		return nil, fmt.Errorf("tag %s of %s is not a depot record: %w", tag, r, err)
	}
	return r.ReadBlob(ctx, layer, maxRecord)
}

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
