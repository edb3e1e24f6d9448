// SPDX-License-Identifier: Apache-2.0

package lockfile

import (
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/importer"
)

// DepotEntries returns a depot entry for each provider, with the versions in use.
func DepotEntries(files []*File) []importer.Entry {
	versions := map[addr.Provider][]addr.Version{}
	for _, f := range files {
		for _, p := range f.Providers {
			if !slices.Contains(versions[p.Address], p.Version) {
				versions[p.Address] = append(versions[p.Address], p.Version)
			}
		}
	}
	var out []importer.Entry
	for p, list := range versions {
		slices.SortFunc(list, func(a, b addr.Version) int { return b.Compare(a) })
		e := importer.Entry{Kind: addr.KindMirror, Address: p.String(), Versions: list[0].String()}
		for _, v := range list[1:] {
			e.Pin = append(e.Pin, v.String())
		}
		out = append(out, e)
	}
	return out
}
