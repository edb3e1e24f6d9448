// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"

	"github.com/seed-141914ff/okara/internal/addr"
)

// moduleOf parses the address in the path and checks that the caller may read
// it. A name that cannot be stored is 404, not 400: the clients then try their
// next source.
func (s *server) moduleOf(r *http.Request) (addr.Module, grant, error) {
	m := addr.Module{Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), System: r.PathValue("system")}
	g, err := s.allow(r, "read", "module", m.String())
	if err != nil {
		return m, g, err
	}
	if err := m.Validate(); err != nil {
		return m, g, notFound("%v", err)
	}
	return m, g, nil
}

type moduleVersionsDoc struct {
	Modules []moduleVersionList `json:"modules"`
}

type moduleVersionList struct {
	Versions []moduleVersionEntry `json:"versions"`
}

type moduleVersionEntry struct {
	Version addr.Version `json:"version"`
}

// moduleVersions lists every version, editions included: clients select a
// pre-release only by an exact constraint, so an edition hides nothing.
func (s *server) moduleVersions(w http.ResponseWriter, r *http.Request) error {
	m, g, err := s.moduleOf(r)
	if err != nil {
		return err
	}
	l, err := s.store.list(r.Context(), s.o.Layout.Module(m))
	if err != nil {
		return missing(err, "module %s", m)
	}
	a, err := l.get("module", 0, func() (any, error) {
		list := moduleVersionList{Versions: make([]moduleVersionEntry, 0, len(l.versions))}
		for _, v := range l.versions {
			list.Versions = append(list.Versions, moduleVersionEntry{v})
		}
		return moduleVersionsDoc{Modules: []moduleVersionList{list}}, nil
	})
	if err != nil {
		return err
	}
	a.write(w, r, g.cacheControl())
	return nil
}

// moduleDownload names the archive in a header and has no body: this form is
// the one both OpenTofu and Terraform of every version read. A 200 without
// JSON, which some registries send, fails in OpenTofu.
func (s *server) moduleDownload(w http.ResponseWriter, r *http.Request) error {
	m, g, err := s.moduleOf(r)
	if err != nil {
		return err
	}
	v, err := version(r.PathValue("version"))
	if err != nil {
		return err
	}
	repository := s.o.Layout.Module(m)
	mv, err := s.store.module(r.Context(), repository, v)
	if err != nil {
		return missing(err, "module %s %s", m, v)
	}
	b := blobName{
		Repository: repository,
		Hex:        mv.Zip.Digest.Encoded(),
		File:       m.Namespace + "-" + m.Name + "-" + m.System + "-" + v.Tag() + ".zip",
	}
	w.Header().Set("X-Terraform-Get", up(r.URL.Path)+s.links.path(b, s.links.expiry()))
	w.Header().Set("Cache-Control", g.cacheControl())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// version parses a version of a path. One that is not exact is 404: it cannot
// have been listed.
func version(segment string) (addr.Version, error) {
	v, err := addr.ParseVersion(segment)
	if err != nil {
		return v, notFound("%v", err)
	}
	return v, nil
}
