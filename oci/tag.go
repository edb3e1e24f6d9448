// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"
)

const (
	// maxTagPage bounds one page of a tag list, in bytes: registries that ignore paging send all
	// tags at once, about 100 bytes each for the longest names.
	maxTagPage = 64 << 20
	// maxSnapshotTags and maxSnapshotSize (bytes) bound a list that is kept in memory.
	maxSnapshotTags = 200_000
	maxSnapshotSize = 64 << 20
)

// TagList is the list of tags from one sequence of requests.
type TagList struct {
	Tags   []string  // without duplicates, in the registry's order
	Date   time.Time // the Date header of the first page; zero if none
	Pages  int
	Cached bool // some page had an Age header, so a cache answered
}

// Tags lists all tags, in the registry's order, each once; ErrNotFound without the repository.
func (r *Repo) Tags(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		stopped := errors.New("stopped")
		err := r.listTags(ctx, func(_ *http.Response, tags []string) error {
			for _, t := range tags {
				if !yield(t, nil) {
					return stopped
				}
			}
			return nil
		})
		if err != nil && err != stopped {
			yield("", err)
		}
	}
}

// Snapshot lists all tags together with the details needed to judge the list.
func (r *Repo) Snapshot(ctx context.Context) (TagList, error) {
	var l TagList
	size := 0
	err := r.listTags(ctx, func(resp *http.Response, tags []string) error {
		if l.Pages++; l.Pages == 1 {
			l.Date = dateOf(resp)
		}
		l.Cached = l.Cached || resp.Header.Get("Age") != ""
		l.Tags = append(l.Tags, tags...)
		for _, t := range tags {
			size += len(t)
		}
		if len(l.Tags) > maxSnapshotTags || size > maxSnapshotSize {
			return fmt.Errorf("list tags of %s: more than %d tags or %d MiB: %w", r, maxSnapshotTags, maxSnapshotSize>>20, ErrTooLarge)
		}
		return nil
	})
	if err != nil {
		return TagList{}, err
	}
	return l, nil
}

// listTags calls use for each page, with the tags of no earlier one. The first request has no
// parameter n: registries would treat it differently.
func (r *Repo) listTags(ctx context.Context, use func(resp *http.Response, tags []string) error) error {
	q := request{method: http.MethodGet, path: "tags/list", header: http.Header{"Cache-Control": {"no-cache"}, "Accept": {"application/json"}}}
	seen := map[string]bool{}
	return r.conn.readPages(ctx, q, maxTagPage, func(resp *http.Response, body []byte) error {
		var page struct {
			Tags []string `json:"tags"`
		}
		if err := decodePage(resp, body, &page); err != nil {
			return err
		}
		return use(resp, slices.DeleteFunc(page.Tags, func(t string) bool {
			known := seen[t]
			seen[t] = true
			return known
		}))
	})
}

// PutTag points a tag at a manifest with exactly one PUT. Only one that certainly had no effect is
// sent again: after a refused token was renewed, or after waiting for a blob that is being pushed.
// If the answer is lost, the error is ErrUncertain: read the tag before anything else.
func (r *Repo) PutTag(ctx context.Context, tag string, m Manifest) error {
	if !isTag(tag) {
		return fmt.Errorf("tag %q of %s: must be 1 to 128 letters, digits, '_', '.' or '-', not starting with '.' or '-'", tag, r)
	}
	_, err := r.putManifest(ctx, tag, m)
	return err
}

// Untag removes a tag with one DELETE and keeps the manifest: ErrUnsupported at many registries,
// ErrUncertain if the answer is lost.
func (r *Repo) Untag(ctx context.Context, tag string) error {
	if !isTag(tag) { // a digest does not match either: deleting it would remove the manifest
		return fmt.Errorf("tag %q of %s: %w: not a valid tag name", tag, r, ErrNotFound)
	}
	return r.delete(ctx, tag)
}

func (r *Repo) delete(ctx context.Context, ref string) error {
	_, err := r.conn.sendAndDiscard(ctx, request{method: http.MethodDelete, path: "manifests/" + ref})
	return err
}
