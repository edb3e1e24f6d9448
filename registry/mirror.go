// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"strings"
)

type mirrorIndexDoc struct {
	Versions map[string]struct{} `json:"versions"`
}

// mirrorIndex lists the versions of a provider under the address of its
// origin. Own providers are here too, under the front-end's host name.
func (s *server) mirrorIndex(w http.ResponseWriter, r *http.Request) error {
	p, repository, g, err := s.providerOf(r)
	if err != nil {
		return err
	}
	l, err := s.providerList(r.Context(), p, repository)
	if err != nil {
		return missing(err, "provider %s", p)
	}
	a, err := l.get("mirror", l.known(), func() (any, error) {
		doc := mirrorIndexDoc{Versions: make(map[string]struct{}, len(l.versions))}
		for _, v := range l.versions {
			if pv, ok := s.store.knownProvider(repository, v, l); ok && pv.broken != nil {
				continue
			}
			doc.Versions[v.String()] = struct{}{}
		}
		return doc, nil
	})
	if err != nil {
		return err
	}
	a.write(w, r, cacheControl(g))
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
	p, repository, g, err := s.providerOf(r)
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
	pv, err := s.providerOr(r.Context(), repository, p, v)
	if err != nil {
		return missing(err, "provider %s %s", p, v)
	}
	exp := s.links.expiry()
	a, err := pv.get("mirror", exp, func() (any, error) {
		return s.mirrorDoc(repository, up(r.URL.Path), exp, pv), nil
	})
	if err != nil {
		return err
	}
	a.write(w, r, cacheControl(g))
	return nil
}

func (s *server) mirrorDoc(repository, root string, exp int64, pv *providerVersion) mirrorVersionDoc {
	doc := mirrorVersionDoc{Archives: make(map[string]mirrorArchive, len(pv.Platforms))}
	for _, t := range pv.Platforms {
		hashes := []string{"zh:" + t.Zh}
		if t.H1 != "" {
			hashes = []string{t.H1, "zh:" + t.Zh}
		}
		b := blobName{Repository: repository, Hex: t.Zh, File: t.Filename}
		doc.Archives[t.Platform.String()] = mirrorArchive{URL: root + s.links.path(b, exp), Hashes: hashes}
	}
	return doc
}
