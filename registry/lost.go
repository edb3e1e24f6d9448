// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// missing is the answer where there is no archive, or none can be had.
func (a *archives) missing(r delivery, err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		a.lose(r)
	}
	return missing(err, "archive %s", r.blob.File)
}

// lose takes a version out of the list whose archive is not there. Only a link
// that was signed here proves that there was one.
func (a *archives) lose(r delivery) {
	if !r.signed {
		return
	}
	item, text, _ := r.blob.names(a.layout)
	v, ok := addr.VersionFromTag(strings.ReplaceAll(text, "+", "_"))
	if !ok || !r.catalog.Lose(r.Context(), item, v, r.blob.Hex) {
		return
	}
	a.log.Error("the registry has no archive of a version that it lists; the version is not listed any more",
		"repository", r.blob.Repository, "tag", v.Tag(), "digest", "sha256:"+r.blob.Hex, "file", r.blob.File)
}
