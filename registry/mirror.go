// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
)

type mirrorIndexDoc struct {
	Versions map[string]struct{} `json:"versions"`
}

// mirrorIndex lists the versions of a provider under the address of its
// origin. Own providers are here too, under the front-end's host name.
func (p *providers) mirrorIndex(w http.ResponseWriter, r call[addr.Provider]) error {
	l, err := r.versions(r.Context(), r.at)
	if err != nil {
		return missing(err, "provider %s", r.at)
	}
	a, err := encodedOnce(&l.Derived, "mirror", l.Revision(), func() (any, error) {
		doc := mirrorIndexDoc{Versions: make(map[string]struct{}, len(l.Listed))}
		for _, v := range l.Listed {
			if pv, ok := r.catalog.KnownProvider(r.at, v, l); ok && pv.Broken != nil {
				continue
			}
			doc.Versions[v.String()] = struct{}{}
		}
		return doc, nil
	})
	if err != nil {
		return err
	}
	a.Write(w, r.Request, cacheControl(r.grant))
	return nil
}

type mirrorVersionDoc struct {
	Archives map[string]mirrorArchive `json:"archives"`
}

type mirrorArchive struct {
	URL    string   `json:"url"`
	Hashes []string `json:"hashes"`
}

// mirrorVersion names the archives of one version with their hashes. Without
// hashes the clients would install whatever the archive holds.
func (p *providers) mirrorVersion(w http.ResponseWriter, r call[providerVersion]) error {
	pv, err := r.version(r.Context(), r.at.Provider, r.at.version)
	if err != nil {
		return missing(err, "provider %s %s", r.at.Provider, r.at.version)
	}
	exp := r.links.expiry()
	root := r.links.root(r.Request)
	a, err := encodedOnce(&pv.Derived, "mirror "+root, exp, func() (any, error) {
		return newMirrorDoc(r.links, root, exp, pv), nil
	})
	if err != nil {
		return err
	}
	a.Write(w, r.Request, cacheControl(r.grant))
	return nil
}

func newMirrorDoc(l *links, root string, exp int64, pv *catalog.ProviderVersion) mirrorVersionDoc {
	doc := mirrorVersionDoc{Archives: make(map[string]mirrorArchive, len(pv.Platforms))}
	for _, t := range pv.Platforms {
		hashes := []string{"zh:" + t.Zh}
		if t.H1 != "" {
			hashes = []string{t.H1, "zh:" + t.Zh}
		}
		b := blobName{Repository: pv.Repository, Hex: t.Zh, File: t.Filename}
		doc.Archives[t.Platform.String()] = mirrorArchive{URL: root + l.path(b, exp), Hashes: hashes}
	}
	return doc
}
