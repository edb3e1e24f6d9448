// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
)

// MaxIndex bounds a stored index, in bytes expanded.
const MaxIndex = 128 << 20

// storedIndex is the stored form: what many states use is in it once.
type storedIndex struct {
	SchemaVersion int           `json:"schemaVersion"`
	Items         []Item        `json:"items"`
	States        []storedEntry `json:"states"`
}

type storedEntry struct {
	State     string     `json:"state"`
	Workspace string     `json:"workspace"`
	N         int64      `json:"version"`
	Written   time.Time  `json:"written"`
	By        string     `json:"by,omitempty"`
	Recorded  string     `json:"recorded,omitempty"`
	Uses      [][2]int64 `json:"uses,omitempty"` // number of the item, Unix time since when
}

// EncodeIndex encodes an index.
func EncodeIndex(x *Index) ([]byte, error) {
	d := storedIndex{SchemaVersion: schemaVersion, Items: []Item{}, States: []storedEntry{}}
	number := map[*Item]int64{}
	for _, state := range x.States() {
		for _, e := range x.entries[state] {
			s := storedEntry{e.State, e.Workspace, e.N, e.Written, e.By, e.Recorded, nil}
			for _, u := range e.Uses {
				if _, ok := number[u.Item]; !ok {
					number[u.Item] = int64(len(d.Items))
					d.Items = append(d.Items, *u.Item)
				}
				s.Uses = append(s.Uses, [2]int64{number[u.Item], u.Since})
			}
			d.States = append(d.States, s)
		}
	}
	return json.Marshal(d)
}

// DecodeIndex decodes a stored index, within the bounds of a document.
func DecodeIndex(document []byte) (*Index, error) {
	var d storedIndex
	if len(document) > MaxIndex {
		return nil, fmt.Errorf("the index of uses has %d bytes, the limit is %d", len(document), MaxIndex)
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("the index of uses: %w", err)
	}
	if d.SchemaVersion != schemaVersion {
		return nil, fmt.Errorf("the index of uses has version %d, expected %d", d.SchemaVersion, schemaVersion)
	}
	x := NewIndex()
	items := make([]*Item, len(d.Items))
	for i, it := range d.Items {
		it.address = moduleAddress(it.Source)
		if it.Kind == addr.KindProvider {
			it.address = providerAddress(it.Source)
		}
		it.Source = cutText(it.Source, maxSource)
		it.Version = cutText(it.Version, maxText)
		it.Constraints = cutText(it.Constraints, maxSource)
		items[i] = x.internItem(it)
	}
	for _, s := range d.States {
		e := &Entry{State: s.State, Workspace: s.Workspace, N: s.N, Written: s.Written, By: cutText(s.By, maxSource), Recorded: s.Recorded}
		for _, u := range s.Uses[:min(len(s.Uses), 2*maxItems)] {
			if u[0] >= 0 && u[0] < int64(len(items)) {
				e.Uses = append(e.Uses, Use{items[u[0]], u[1]})
			}
		}
		x.storeEntry(e)
	}
	return x, nil
}
