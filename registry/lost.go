// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// maxLost bounds the versions that are remembered as lost.
const maxLost = 1000

// lostVersions are those that the registry lists but has no archive of, with
// the SHA-256 of a missing one. They are left out of lists, since a version that
// nobody can install hides the one before it, until the archive is back.
type lostVersions struct {
	mu sync.Mutex // guards of and n
	of map[string]map[addr.Version]string
	n  int
}

// add reports whether the version was not known to be lost.
func (m *lostVersions) add(repository string, v addr.Version, sha256hex string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.of[repository][v]; ok || m.n >= maxLost {
		return false
	}
	if m.of == nil {
		m.of = map[string]map[addr.Version]string{}
	}
	if m.of[repository] == nil {
		m.of[repository] = map[addr.Version]string{}
	}
	m.of[repository][v] = sha256hex
	m.n++
	return true
}

func (m *lostVersions) remove(repository string, v addr.Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.of[repository][v]; ok {
		delete(m.of[repository], v)
		m.n--
	}
}

func (m *lostVersions) in(repository string) map[addr.Version]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.of[repository])
}

// noArchive is the answer where there is no archive, or none can be had.
func (s *server) noArchive(r *http.Request, b blobName, err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		s.lose(r, b)
	}
	return missing(err, "archive %s", b.File)
}

// lose takes a version out of the list whose archive is not there. Only a link
// that was signed here proves that there was one.
func (s *server) lose(r *http.Request, b blobName) {
	if !signed(r) {
		return
	}
	_, text, _ := s.named(b)
	v, ok := addr.VersionFromTag(strings.ReplaceAll(text, "+", "_"))
	if !ok {
		return
	}
	l, err := s.store.list(r.Context(), b.Repository)
	if err != nil || !slices.Contains(l.versions, v) || !s.store.lost.add(b.Repository, v, b.Hex) {
		return
	}
	s.store.lists.Forget(b.Repository)
	s.log.Error("the registry has no archive of a version that it lists; the version is not listed any more",
		"repository", b.Repository, "tag", v.Tag(), "digest", "sha256:"+b.Hex, "file", b.File)
}

// dropLost takes the lost versions out of a list, but for those whose archive
// is back.
func (s *store) dropLost(ctx context.Context, r *oci.Repo, repository string, l *listing) {
	for v, sha256hex := range s.lost.in(repository) {
		_, err := r.Stat(ctx, digest.NewDigestFromEncoded(digest.SHA256, sha256hex))
		if err == nil {
			s.lost.remove(repository, v)
			s.sizes.Forget(repository + "@" + sha256hex)
			continue
		}
		if !errors.Is(err, oci.ErrNotFound) {
			s.log.Warn("a lost archive was not looked for", "repository", repository, "tag", v.Tag(), "error", err)
		}
		if l.refused == nil {
			l.refused = map[addr.Version]error{}
		}
		l.refused[v] = notFound("version %s: the registry has lost its archive", v)
		l.versions = slices.DeleteFunc(slices.Clone(l.versions), func(other addr.Version) bool { return other == v })
	}
}
