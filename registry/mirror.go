// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/catalog"
)

type mirrorIndexDoc struct {
	Versions map[string]struct{} `json:"versions"`
}

// mirrorIndex lists the versions of a provider under the address of its
// origin. Own providers are here too, under the front-end's host name.
func (s *server) mirrorIndex(w http.ResponseWriter, r *http.Request) error {
	p, g, err := s.providerOf(r)
	if err != nil {
		return err
	}
	l, err := s.providerList(r.Context(), p)
	if err != nil {
		return missing(err, "provider %s", p)
	}
	a, err := encodedOnce(&l.Derived, "mirror", l.Revision(), func() (any, error) {
		doc := mirrorIndexDoc{Versions: make(map[string]struct{}, len(l.Listed))}
		for _, v := range l.Listed {
			if pv, ok := s.catalog.KnownProvider(p, v, l); ok && pv.Broken != nil {
				continue
			}
			doc.Versions[v.String()] = struct{}{}
		}
		return doc, nil
	})
	if err != nil {
		return err
	}
	a.Write(w, r, cacheControl(g))
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
func (s *server) mirrorVersion(w http.ResponseWriter, r *http.Request) error {
	p, g, err := s.providerOf(r)
	if err != nil {
		return err
	}
	name, ok := strings.CutSuffix(r.PathValue("file"), ".json")
	if !ok {
		return notFound("a network mirror has index.json and VERSION.json here")
	}
	v, err := version(name)
	if err != nil {
		return err
	}
	pv, err := s.providerOr(r.Context(), p, v)
	if err != nil {
		return missing(err, "provider %s %s", p, v)
	}
	exp := s.links.expiry()
	a, err := encodedOnce(&pv.Derived, "mirror", exp, func() (any, error) {
		return s.mirrorDoc(up(r.URL.Path), exp, pv), nil
	})
	if err != nil {
		return err
	}
	a.Write(w, r, cacheControl(g))
	return nil
}

func (s *server) mirrorDoc(root string, exp int64, pv *catalog.ProviderVersion) mirrorVersionDoc {
	doc := mirrorVersionDoc{Archives: make(map[string]mirrorArchive, len(pv.Platforms))}
	for _, t := range pv.Platforms {
		hashes := []string{"zh:" + t.Zh}
		if t.H1 != "" {
			hashes = []string{t.H1, "zh:" + t.Zh}
		}
		b := blobName{Repository: pv.Repository, Hex: t.Zh, File: t.Filename}
		doc.Archives[t.Platform.String()] = mirrorArchive{URL: root + s.links.path(b, exp), Hashes: hashes}
	}
	return doc
}
