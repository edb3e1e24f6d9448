// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

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
