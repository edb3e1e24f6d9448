// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Bounds of scan reports that pages show.
const (
	maxFindings = 500
	maxScan     = 16 << 20 // bytes of a report; users download a larger one
)

// Evidence has the signatures of a version, and its attestations and reports.
type Evidence struct {
	Signatures []trust.Signature
	evidence.Referred

	under string // the result of vouchedBy when it was read
}

// Scan returns the newest report of a scanner, false if there is none.
func (e *Evidence) Scan() (evidence.Report, bool) {
	for _, r := range e.Reports {
		if r.Scan != nil {
			return r, true
		}
	}
	return evidence.Report{}, false
}

func (e *Evidence) size() int { return 512 * (1 + len(e.Signatures) + len(e.Reports)) }

// Findings are the findings of one scan report.
type Findings struct {
	All    []scan.Finding // worst first, at most 500
	Counts scan.Counts    // of all findings in the report
}

func (f *Findings) size() int { return 512 * (1 + len(f.All)) }

// evidenceCache keeps evidence and findings.
type evidenceCache struct {
	of    *cache.Cache[*Evidence] // repository@digest
	brief *cache.Cache[*Evidence] // the same, with the newest report only
	found *cache.Cache[*Findings] // repository@digest of a report
}

func newEvidence(now func() time.Time, looked func(kind, result string)) *evidenceCache {
	return &evidenceCache{
		of:    cache.New("evidence", blobBytes, (*Evidence).size, now, looked),
		brief: cache.New("evidence", blobBytes, (*Evidence).size, now, looked),
		found: cache.New("findings", blobBytes, (*Findings).size, now, looked),
	}
}

// Evidence returns the signatures and attestations of a version. One with a tag, or by an event,
// counts once the list has it; one only in the list of referrers, or changed under its tag, after
// ten minutes, read in the background. Keys are trusted if the server's policy names them.
func (c *Catalog) Evidence(ctx context.Context, it addr.Item, v addr.Version, manifest oci.Descriptor, l *Versions) (*Evidence, error) {
	return c.cachedEvidence(ctx, c.evidence.of, evidence.ReadReferred, it, v, manifest, l)
}

// Brief is Evidence with the newest scan report alone, for a page's head: three requests.
func (c *Catalog) Brief(ctx context.Context, it addr.Item, v addr.Version, manifest oci.Descriptor, l *Versions) (*Evidence, error) {
	return c.cachedEvidence(ctx, c.evidence.brief, evidence.ReadNewest, it, v, manifest, l)
}

func (c *Catalog) cachedEvidence(ctx context.Context, kept *cache.Cache[*Evidence], read func(context.Context, *evidence.Referrers) (evidence.Referred, error),
	it addr.Item, v addr.Version, manifest oci.Descriptor, l *Versions,
) (*Evidence, error) {
	repository := it.Repository(c.layout)
	p := cache.Policy{Fresh: verdictFresh, Grace: cache.Forever, Stale: cache.Forever}
	key := verdictKey(repository, manifest)
	under := l.vouchedBy(v, manifest)
	if e, ok := kept.Peek(key); ok && e.under != under {
		kept.Forget(key)
	}
	return kept.Get(ctx, key, p, func(ctx context.Context, _ *Evidence, _ bool) (*Evidence, error) {
		r, err := c.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		m := oci.Manifest{Descriptor: manifest}
		if it.Kind != addr.KindModule { // the index of a provider has the signature of its checksums
			if m, err = r.Fetch(ctx, manifest.Digest.String()); err != nil {
				return nil, err
			}
		}
		policy := c.policy.require[it.Kind]
		policy.Now = c.policy.now()
		s := trust.Subject{Repository: r, Item: it, Name: c.layout.Below(repository), Version: v, Manifest: m, Events: l.Listing.Events}
		s.Referrers = &evidence.Referrers{Repo: r, Subject: manifest}
		e := &Evidence{under: under}
		if e.Signatures, err = trust.Signatures(ctx, s, policy); err != nil {
			return nil, err
		}
		e.Referred, err = read(ctx, s.Referrers)
		return e, err
	})
}

// maxAttached bounds the tags of vouchedBy; of further tags only the number is included.
const maxAttached = 50

// vouchedBy identifies a version's evidence in a list: resigning event and referring tags.
func (l *Versions) vouchedBy(v addr.Version, manifest oci.Descriptor) string {
	prefix := strings.Replace(manifest.Digest.String(), ":", "-", 1)
	first, _ := slices.BinarySearch(l.Listing.Tags, prefix)
	rest := l.Listing.Tags[first:]
	if end := slices.IndexFunc(rest, func(tag string) bool { return !strings.HasPrefix(tag, prefix) }); end >= 0 {
		rest = rest[:end]
	}
	return fmt.Sprint(l.lastResign(v), len(rest), rest[:min(len(rest), maxAttached)])
}

// Findings reads a scan report. [oci.ErrTooLarge] and [oci.ErrCorrupt]: a user has to look at it.
func (c *Catalog) Findings(ctx context.Context, repository string, report evidence.Report) (*Findings, error) {
	return c.evidence.found.Get(ctx, repository+"@"+report.Document.Digest.String(), alwaysFresh(), func(ctx context.Context, _ *Findings, _ bool) (*Findings, error) {
		r, err := c.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		b, err := r.ReadBlob(ctx, report.Document, maxScan)
		if err != nil {
			return nil, err
		}
		f := &Findings{}
		if f.All, f.Counts, err = scan.Findings(b, maxFindings); err != nil {
			return nil, fmt.Errorf("%w: %w", err, oci.ErrCorrupt)
		}
		return f, nil
	})
}

// forgetEvidence drops a digest's evidence for a reference to it.
func (e *evidenceCache) forgetEvidence(repository, reference string) {
	if hex, ok := strings.CutPrefix(strings.Replace(reference, ":", "-", 1), "sha256-"); ok && len(hex) >= 64 {
		e.of.Forget(repository + "@sha256:" + hex[:64])
		e.brief.Forget(repository + "@sha256:" + hex[:64])
	}
}
