// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

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
	item, text, _ := s.named(b)
	v, ok := addr.VersionFromTag(strings.ReplaceAll(text, "+", "_"))
	if !ok || !s.catalog.Lose(r.Context(), item, v, b.Hex) {
		return
	}
	s.log.Error("the registry has no archive of a version that it lists; the version is not listed any more",
		"repository", b.Repository, "tag", v.Tag(), "digest", "sha256:"+b.Hex, "file", b.File)
}
