// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/service"
)

// moduleOf parses the address in the path and checks that the caller may read
// it. A name that cannot be stored is 404, not 400: the clients then try their
// next source.
func (s *server) moduleOf(r *http.Request) (addr.Module, access.Grant, error) {
	m := addr.Module{Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), System: r.PathValue("system")}
	g, err := s.access.Allow(r, access.Right{Action: access.Read, Kind: addr.KindModule, Address: m.String()})
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
	l, err := s.catalog.Module(r.Context(), m)
	if err != nil {
		return missing(err, "module %s", m)
	}
	a, err := encodedOnce(&l.Derived, "module", 0, func() (any, error) {
		list := moduleVersionList{Versions: make([]moduleVersionEntry, 0, len(l.Listed))}
		for _, v := range l.Listed {
			list.Versions = append(list.Versions, moduleVersionEntry{v})
		}
		return moduleVersionsDoc{Modules: []moduleVersionList{list}}, nil
	})
	if err != nil {
		return err
	}
	a.Write(w, r, cacheControl(g))
	return nil
}

// Modules says how module downloads are answered.
type Modules struct {
	// Answer is "portable" (default), "oci" or "direct". Portable suits every
	// client. The others are for newer OpenTofu, recognised by its User-Agent:
	// oci sends it to the registry itself, for which it needs https and
	// credentials of its own; direct makes it send its token with the archive.
	// All other clients get the portable answer.
	Answer string
	// Registry is HOST[:PORT] under which clients reach the registry, for oci.
	Registry string
}

func (m Modules) validate() error {
	switch m.Answer {
	case "", "portable", "direct":
		return nil
	case "oci":
		if m.Registry == "" {
			return errors.New("modules: the answer oci needs the host name of the registry")
		}
		return nil
	}
	return fmt.Errorf("modules: the answer %q is not portable, oci or direct", m.Answer)
}

// moduleDownload says where the archive is: in a header, without a body. This
// form is the one that OpenTofu and Terraform of every version read; a 200
// without JSON, which some registries send, fails in OpenTofu.
func (s *server) moduleDownload(w http.ResponseWriter, r *http.Request) error {
	m, g, err := s.moduleOf(r)
	if err != nil {
		return err
	}
	v, err := version(r.PathValue("version"))
	if err != nil {
		return err
	}
	mv, err := s.catalog.ModuleVersion(r.Context(), m, v)
	if err != nil {
		return missing(err, "module %s %s", m, v)
	}
	b := blobName{
		Repository: mv.Repository,
		Hex:        mv.Zip.Digest.Encoded(),
		File:       moduleFile(m, v),
	}
	h := w.Header()
	root := up(r.URL.Path)
	h.Set("X-Terraform-Get", root+s.moduleLink(mv, b))
	h.Set("Cache-Control", cacheControl(g))
	if s.o.Modules.Answer == "" || s.o.Modules.Answer == "portable" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	h.Set("Vary", "Authorization, User-Agent")
	doc := s.moduleLocation(r.UserAgent(), root, b, mv)
	if doc == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

// madeLink is a link that was signed before.
type madeLink struct {
	path string
	exp  int64
}

// moduleLink is the path of the zip, signed again only when the end of links
// moves.
func (s *server) moduleLink(mv *catalog.ModuleVersion, b blobName) string {
	exp := s.links.expiry()
	if kept, ok := mv.Derived.Load(madeLink{}); ok && kept.(*madeLink).exp == exp {
		return kept.(*madeLink).path
	}
	made := &madeLink{path: s.links.path(b, exp), exp: exp}
	mv.Derived.Store(madeLink{}, made)
	return made.path
}

type moduleLocationDoc struct {
	Location       string `json:"location"`
	UseCredentials bool   `json:"use_registry_credentials,omitempty"`
}

// moduleLocation is the answer for a client that understands more than the
// portable form, or nil.
func (s *server) moduleLocation(agent, root string, b blobName, mv *catalog.ModuleVersion) *moduleLocationDoc {
	major, minor, ok := openTofu(agent)
	newer := func(want int) bool { return ok && (major > 1 || major == 1 && minor >= want) }
	switch {
	case s.o.Modules.Answer == "oci" && newer(10):
		return &moduleLocationDoc{Location: "oci://" + s.o.Modules.Registry + "/" + b.Repository + "?digest=" + mv.Manifest.Digest.String()}
	case s.o.Modules.Answer == "direct" && newer(12):
		return &moduleLocationDoc{Location: root + linkPath(authToken, b), UseCredentials: true}
	}
	return nil
}

// openTofu reads the version out of "OpenTofu/1.12.6".
func openTofu(agent string) (major, minor int, ok bool) {
	rest, ok := strings.CutPrefix(agent, "OpenTofu/")
	if !ok {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(rest, "%d.%d.", &major, &minor)
	return major, minor, err == nil && n == 2
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
