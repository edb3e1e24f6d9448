// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/oci"
)

// artifactCatalog is the type of a catalog entry: one tag per repository with an artifact, written
// once. Few registries can list repositories. It can be lost without losing data.
const artifactCatalog = "application/vnd.okara.catalog.v1"

const catalogTagPrefix = "r-"

// CatalogEntry describes one repository in the catalog.
type CatalogEntry struct {
	Kind       string // addr.KindModule, addr.KindProvider or addr.KindMirror
	Address    string
	Repository string // without host
	Title      string // the address as the first publisher wrote it; "": as in Address
}

// CatalogTag returns the tag of a repository's entry.
func CatalogTag(repository string) string {
	sum := sha256.Sum256([]byte(repository))
	return catalogTagPrefix + hex.EncodeToString(sum[:16])
}

// IsCatalogTag reports whether tag is the tag of a catalog entry.
func IsCatalogTag(tag string) bool {
	rest, ok := strings.CutPrefix(tag, catalogTagPrefix)
	return ok && len(rest) == 32 && strings.Trim(rest, "0123456789abcdef") == ""
}

// AddCatalogEntry writes the entry into the catalog r unless it is there.
func AddCatalogEntry(ctx context.Context, r *oci.Repo, e CatalogEntry) error {
	return addEntry(ctx, r, CatalogTag(e.Repository), e)
}

// addEntry writes the entry unless the tag exists. Of two concurrent writers one entry stays.
func addEntry(ctx context.Context, r *oci.Repo, tag string, e CatalogEntry) error {
	if _, err := r.Resolve(ctx, tag); err == nil || !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	if _, err := r.EnsureBlob(ctx, oci.EmptyBlob()); err != nil {
		return err
	}
	return PutEntry(ctx, r, tag, e)
}

// PutEntry writes an entry that probably does not exist, and the empty blob if that is missing.
func PutEntry(ctx context.Context, r *oci.Repo, tag string, e CatalogEntry) error {
	annotations := map[string]string{AnnKind: e.Kind, annAddress: e.Address, annCatalogRepository: e.Repository}
	if e.Title != "" && e.Title != e.Address {
		annotations[AnnTitle] = e.Title
	}
	m, err := NewBare(artifactCatalog, annotations)
	if err != nil {
		return err
	}
	if err = PutBare(ctx, r, tag, m); errors.Is(err, oci.ErrExists) { // the tags are immutable
		return nil
	}
	return err
}

const annCatalogRepository = "vnd.okara.catalog.repository"

// ReadCatalogEntry reads the entry under tag.
func ReadCatalogEntry(ctx context.Context, r *oci.Repo, tag string) (CatalogEntry, error) {
	m, err := r.Fetch(ctx, tag)
	if err != nil {
		return CatalogEntry{}, err
	}
	image, err := m.Image()
	if err != nil {
		return CatalogEntry{}, err
	}
	if image.ArtifactType != artifactCatalog {
		return CatalogEntry{}, fmt.Errorf("%s:%s is not a catalog entry: %w", r, tag, oci.ErrCorrupt)
	}
	of := image.Annotations
	return CatalogEntry{Kind: of[AnnKind], Address: of[annAddress], Repository: of[annCatalogRepository], Title: of[AnnTitle]}, nil
}
