// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	// tagMark names the repository in which a ledger continues.
	tagMark      = "current"
	artifactMark = "application/vnd.okara.ledger.v1"
	// maxNumber bounds the number of a ledger's repository: 5,000 commits each.
	maxNumber = 1_000_000
)

// mark is the JSON of the manifest of tagMark.
type mark struct {
	Number int `json:"number"` // from 2 on
}

// parseMark returns the number of the repository that a manifest names.
func parseMark(m oci.Manifest) (int, error) {
	var l mark
	if err := format.ParseMark(m, artifactMark, &l); err != nil {
		return 0, err
	}
	if l.Number < 2 || l.Number > maxNumber {
		return 0, fmt.Errorf("manifest %s: ledger number %d: %w", m.Digest, l.Number, oci.ErrCorrupt)
	}
	return l.Number, nil
}
