// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// maxLost bounds the versions that are recorded as lost.
const maxLost = 1000

// lostVersions are listed and not there: no manifest, or another artifact's, or no archive. Lists
// leave them out until they are back: one that cannot be installed hides the one before. Of
// providers only the lost platforms are left out, if others are there.
type lostVersions struct {
	blobs  *Blobs
	log    *slog.Logger
	server bool // lists are read again

	mu     sync.Mutex                           // guards the fields below
	of     map[string]map[addr.Version][]string // by repository: SHA-256 of archives, "" for a dangling tag, the digest of another artifact
	n      int
	logged map[string]bool // dangling tags that were logged, as repository:tag
}

// addLost records lost content of a version, and reports whether it was not recorded before.
func (m *lostVersions) addLost(repository string, v addr.Version, sha256hex string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.of[repository][v], sha256hex) || m.n >= maxLost {
		return false
	}
	if m.of == nil {
		m.of = map[string]map[addr.Version][]string{}
	}
	if m.of[repository] == nil {
		m.of[repository] = map[addr.Version][]string{}
	}
	m.of[repository][v] = append(slices.Clip(m.of[repository][v]), sha256hex)
	m.n++
	return true
}

// addDangling is addLost, logged, for no manifest or another artifact's.
func (m *lostVersions) addDangling(repository string, v addr.Version, other digest.Digest) bool {
	added := m.addLost(repository, v, other.String())
	switch {
	case added && other == "":
		m.warn(repository, v.Tag())
	case added && m.shouldLog(repository+":"+v.Tag()):
		m.log.Warn("tag of another artifact, not a version", "repository", repository, "tag", v.Tag())
	}
	return added
}

// warnListed logs tags of a list that are skipped. A server waits until it sees them for the second time:
// registries list a tag a moment before they have it.
func (m *lostVersions) warnListed(repository string, tags []string) {
	for _, tag := range tags {
		if !m.server || !m.shouldLog("listed "+repository+":"+tag) {
			m.warn(repository, tag)
		}
	}
}

// warn logs once for each tag that it is skipped.
func (m *lostVersions) warn(repository, tag string) {
	if m.shouldLog(repository + ":" + tag) {
		m.log.Warn("the registry lists a tag but returns 404 for it; the tag is skipped", "repository", repository, "tag", tag)
	}
}

// shouldLog reports whether a tag is to be logged, once per tag.
func (m *lostVersions) shouldLog(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logged[name] || len(m.logged) >= maxLost {
		return false
	}
	if m.logged == nil {
		m.logged = map[string]bool{}
	}
	m.logged[name] = true
	return true
}

func (m *lostVersions) removeLost(repository string, v addr.Version, sha256hex string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(m.of[repository][v]), func(lost string) bool { return lost == sha256hex })
	m.n -= len(m.of[repository][v]) - len(left)
	if m.of[repository][v] = left; len(left) == 0 {
		delete(m.of[repository], v)
	}
}

func (m *lostVersions) lostIn(repository string) map[addr.Version][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.of[repository])
}

// dropLost removes lost versions from a list, and reports whether some are back.
func dropLost(ctx context.Context, c *Catalog, r *oci.Repo, repository string, l *Versions) (back bool) {
	for v, all := range c.lost.lostIn(repository) {
		for _, lost := range all {
			if err := checkStillLost(ctx, r, l, v, lost); err == nil {
				back = true
				c.lost.removeLost(repository, v, lost)
				c.lost.blobs.ForgetSize(repository, lost)
			} else if !errors.Is(err, oci.ErrNotFound) {
				c.lost.log.Warn("searching for a lost version failed", "repository", repository, "tag", v.Tag(), "error", err)
			}
		}
		lost := c.lost.lostIn(repository)[v]
		pv, ok := c.manifests.providers.Peek(providerKey(repository, v, l))
		if len(lost) == 0 || ok && len(pv.without(lost).Platforms) > 0 {
			continue
		}
		if len(lost[0]) == digest.SHA256.Size()*2 {
			l.refuse(v, newRefused("version %s: archive missing from the registry", v))
		}
		l.Listed = slices.DeleteFunc(slices.Clone(l.Listed), func(other addr.Version) bool { return other == v })
	}
	return back
}

// checkStillLost returns nil for a version that is back, or not listed any more.
func checkStillLost(ctx context.Context, r *oci.Repo, l *Versions, v addr.Version, sha256hex string) error {
	if !slices.Contains(l.Listing.Versions, v) {
		return nil
	}
	if len(sha256hex) != digest.SHA256.Size()*2 {
		d, err := r.Resolve(ctx, v.Tag())
		if err == nil && d.Digest.String() == sha256hex {
			err = fmt.Errorf("%s still belongs to another artifact: %w", v.Tag(), oci.ErrNotFound)
		}
		return err
	}
	_, err := r.Stat(ctx, digest.NewDigestFromEncoded(digest.SHA256, sha256hex))
	return err
}

// Lose removes a version without archive from the list; false: not there, or recorded.
func (c *Catalog) Lose(ctx context.Context, it addr.Item, v addr.Version, sha256hex string) bool {
	repository := it.Repository(c.layout)
	l, err := c.Versions(ctx, it)
	if err != nil || !slices.Contains(l.Listed, v) || !c.lost.addLost(repository, v, sha256hex) {
		return false
	}
	c.lists.Forget(repository)
	return true
}
