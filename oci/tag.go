// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

const (
	// maxTagPage bounds one page of a tag list, in bytes: registries that
	// ignore paging send all tags at once, about 100 bytes each for the longest
	// names.
	maxTagPage = 64 << 20
	// maxSnapshotTags and maxSnapshotSize (bytes) bound a list that is kept in
	// memory.
	maxSnapshotTags = 200_000
	maxSnapshotSize = 64 << 20
	// maxTagPages bounds the pages of one list.
	maxTagPages = 100_000
)

// TagList is the list of tags from one sequence of requests.
type TagList struct {
	Tags   []string  // without duplicates, in the registry's order
	Date   time.Time // the Date header of the first page; zero if none
	Pages  int
	Cached bool // some page had an Age header, so a cache answered
}

// Tags lists all tags, in the registry's order, each once. If the repository
// does not exist, the error is ErrNotFound.
func (r *Repo) Tags(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := map[string]bool{}
		for p, err := range (tagPages{r}).all(ctx) {
			if err != nil {
				yield("", err)
				return
			}
			for _, t := range p.tags {
				if !seen[t] {
					seen[t] = true
					if !yield(t, nil) {
						return
					}
				}
			}
		}
	}
}

// Snapshot lists all tags together with the details needed to judge the list.
func (r *Repo) Snapshot(ctx context.Context) (TagList, error) {
	var l TagList
	size := 0
	seen := map[string]bool{}
	for p, err := range (tagPages{r}).all(ctx) {
		if err != nil {
			return TagList{}, err
		}
		if l.Pages++; l.Pages == 1 {
			l.Date = p.date
		}
		l.Cached = l.Cached || p.cached
		for _, t := range p.tags {
			if !seen[t] {
				seen[t] = true
				size += len(t)
				l.Tags = append(l.Tags, t)
			}
		}
		if len(l.Tags) > maxSnapshotTags || size > maxSnapshotSize {
			return TagList{}, fmt.Errorf("list tags of %s: more than %d, or %d MiB of them: %w", r, maxSnapshotTags, maxSnapshotSize>>20, ErrTooLarge)
		}
	}
	return l, nil
}

type tagPage struct {
	tags   []string
	date   time.Time
	cached bool
	next   string // the Link header
	url    *url.URL
}

// tagPages reads the tag list of a repository page by page.
type tagPages struct{ *Repo }

// all follows the Link headers to the last page. The first request has no
// parameter n, because registries treat it differently. A repeated link ends
// the list, because some registries repeat their last link for ever.
func (r tagPages) all(ctx context.Context) iter.Seq2[tagPage, error] {
	return func(yield func(tagPage, error) bool) {
		q := request{method: http.MethodGet, path: "tags/list", header: http.Header{"Cache-Control": {"no-cache"}, "Accept": {"application/json"}}}
		seen := map[string]bool{}
		for range maxTagPages {
			p, err := r.page(ctx, q)
			if err != nil || !yield(p, nil) {
				if err != nil {
					yield(tagPage{}, err)
				}
				return
			}
			u, err := nextPage(p.url, p.next)
			if err != nil {
				yield(tagPage{}, fmt.Errorf("list tags of %s: %w: %w", r, ErrCorrupt, err))
				return
			}
			if u == nil || seen[u.String()] {
				return
			}
			seen[u.String()] = true
			q.url = u
		}
		yield(tagPage{}, fmt.Errorf("list tags of %s: %w: more than %d pages", r, ErrTooLarge, maxTagPages))
	}
}

// page reads one page, and reads it again if the answer is cut off.
func (r tagPages) page(ctx context.Context, q request) (tagPage, error) {
	for attempt := 1; ; attempt++ {
		p, err := r.read(ctx, q)
		if !errors.Is(err, errCut) || attempt >= r.c.o.Retry.MaxAttempts || ctx.Err() != nil {
			return p, err
		}
		if err := text.Wait(ctx, backoff(r.c.o.Retry.InitialBackoff, r.c.o.Retry.MaxBackoff, attempt)); err != nil {
			return tagPage{}, fmt.Errorf("list tags of %s: %w", r, err)
		}
	}
}

// errCut marks a small body that was cut off, which is read again.
var errCut = errors.New("the answer broke off")

func (r tagPages) read(ctx context.Context, q request) (tagPage, error) {
	resp, cancel, err := r.quick(ctx, q)
	if err != nil {
		return tagPage{}, err
	}
	defer cancel()
	defer resp.Body.Close()
	if isHTML(resp.Header) {
		return tagPage{}, notRegistry(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTagPage+1))
	if err != nil {
		return tagPage{}, fmt.Errorf("list tags of %s: %w: %w: %w", r, ErrUnavailable, errCut, err)
	}
	if len(body) > maxTagPage {
		return tagPage{}, fmt.Errorf("list tags of %s: %w: more than %d bytes", r, ErrTooLarge, maxTagPage)
	}
	var doc struct {
		Tags []string `json:"tags"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return tagPage{}, fmt.Errorf("list tags of %s: %w: %s answered with something else than a tag list: %w", r, ErrCorrupt, r.c.host, err)
	}
	p := tagPage{tags: doc.Tags, cached: resp.Header.Get("Age") != "", next: strings.Join(resp.Header.Values("Link"), ", "), url: resp.Request.URL}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		p.date = t
	}
	return p, nil
}

// nextPage returns the URL of rel="next" in a Link header, nil if there is
// none.
func nextPage(base *url.URL, link string) (*url.URL, error) {
	target := nextLink(link)
	if target == "" {
		return nil, nil
	}
	u, err := follow(base, target)
	if err != nil {
		return nil, fmt.Errorf("link %q: %w", target, err)
	}
	if u.Host != base.Host {
		return nil, fmt.Errorf("link to another host %q", u.Host)
	}
	return u, nil
}

// nextLink parses RFC 8288: <target>; param; param, <target>...
func nextLink(h string) string {
	for {
		open := strings.IndexByte(h, '<')
		if open < 0 {
			return ""
		}
		h = h[open+1:]
		end := strings.IndexByte(h, '>')
		if end < 0 {
			return ""
		}
		target := h[:end]
		h = h[end+1:]
		params := h
		if i := strings.IndexByte(h, '<'); i >= 0 {
			params = h[:i]
			h = h[i:]
		}
		for p := range strings.SplitSeq(strings.TrimRight(params, ", \t"), ";") {
			k, v, _ := strings.Cut(strings.TrimSpace(p), "=")
			if !strings.EqualFold(strings.TrimSpace(k), "rel") {
				continue
			}
			for rel := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(v), `"`)) {
				if strings.EqualFold(rel, "next") {
					return target
				}
			}
		}
	}
}

// PutTag points a tag at a manifest with exactly one PUT. Only a PUT that
// certainly had no effect is sent again: after a refused token was renewed, or
// after waiting for a blob that is being pushed. If the answer is lost, the
// error is ErrUncertain: read the tag before anything else.
func (r *Repo) PutTag(ctx context.Context, tag string, m Manifest) error {
	if !tagRE().MatchString(tag) {
		return fmt.Errorf("tag %q of %s: want 1 to 128 letters, digits, '_', '.' or '-', not starting with '.' or '-'", tag, r)
	}
	return r.put(ctx, tag, m)
}

// Untag removes a tag with one DELETE and keeps the manifest. Many registries
// do not support this: ErrUnsupported. If the answer is lost, the error is
// ErrUncertain.
func (r *Repo) Untag(ctx context.Context, tag string) error {
	if !tagRE().MatchString(tag) { // a digest does not match either: deleting it would remove the manifest
		return fmt.Errorf("tag %q of %s: %w: no tag can have this name", tag, r, ErrNotFound)
	}
	return r.delete(ctx, tag)
}

func (r *Repo) delete(ctx context.Context, ref string) error {
	_, err := r.done(ctx, request{method: http.MethodDelete, path: "manifests/" + ref})
	return err
}
