// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

// PushBlob stores a blob with one POST and one PUT, or a small one with the POST alone if possible,
// see [Options].SinglePost. An upload that breaks starts again. A blob of another repository of the
// registry is mounted with one POST; if that is refused or ignored, it is sent.
func (r *Repo) PushBlob(ctx context.Context, b Blob) error {
	p := push{r.conn, b}
	if p.canMount() {
		err := p.mount(ctx)
		if err == nil {
			return nil
		}
		if _, own := errors.AsType[*contentError](err); own || ctx.Err() != nil {
			return fmt.Errorf("push blob %s to %s: %w", b.Digest, r, err)
		}
	}
	for attempt := 1; ; attempt++ {
		err := p.uploadBlob(ctx)
		if err == nil {
			r.conn.c.transport.recent.addPush(r.conn.name, b.Digest)
			return nil
		}
		pause, again := p.shouldRestart(ctx, err, attempt)
		if !again {
			return fmt.Errorf("push blob %s to %s: %w", b.Digest, r, err)
		}
		if cerr := text.Wait(ctx, pause); cerr != nil {
			return fmt.Errorf("push blob %s to %s: %w: %w", b.Digest, r, cerr, err)
		}
	}
}

type push struct {
	to conn
	b  Blob
}

// uploadBlob sends the blob with the POST, or in one piece in an upload session.
func (p push) uploadBlob(ctx context.Context) error {
	begin := request{method: http.MethodPost, path: "blobs/uploads/"}
	q := begin
	single := p.to.c.single.fitsPost(p.b.Size)
	if single {
		q.query = url.Values{"digest": {p.b.Digest.String()}}
		q.body = p.b.Open
		q.size = p.b.Size
		q.header = http.Header{"Content-Type": {"application/octet-stream"}}
	}
	resp, err := p.to.sendAndDiscard(ctx, q)
	if single && p.to.c.single.refusesPost(err) {
		single = false
		resp, err = p.to.sendAndDiscard(ctx, begin)
	}
	if err != nil {
		return err
	}
	if single && p.to.c.single.recordStatus(resp.StatusCode) {
		return nil
	}
	return p.uploadTo(ctx, resp)
}

// singlePost remembers whether a registry accepts a blob with the POST that otherwise opens an
// upload (OCI distribution specification 1.1, "Single POST"). The first such POST shows it: a
// registry without support answers 202 and gets the bytes again.
type singlePost struct{ state atomic.Int32 }

const (
	singleUnknown int32 = iota
	singleTaken
	singleRefused
)

const (
	// maxSinglePost bounds, in bytes, a blob that is sent with the POST, since a registry without
	// support gets it twice; maxFirstPost while that is unknown.
	maxSinglePost = 1 << 20
	maxFirstPost  = 64 << 10
)

func (p *singlePost) fitsPost(size int64) bool {
	switch p.state.Load() {
	case singleTaken:
		return size > 0 && size <= maxSinglePost
	case singleRefused:
		return false
	}
	return size > 0 && size <= maxFirstPost
}

// recordStatus records and reports whether the answer to such a POST means that the blob is stored.
func (p *singlePost) recordStatus(status int) bool {
	if status == http.StatusCreated {
		p.state.Store(singleTaken)
		return true
	}
	p.state.Store(singleRefused)
	return false
}

// refusesPost recognizes that a registry of unknown support answers such a POST with an error that
// is not about the sender or the request rate.
func (p *singlePost) refusesPost(err error) bool {
	e, ok := errors.AsType[*ResponseError](err)
	if !ok || p.state.Load() != singleUnknown {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusLengthRequired, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity,
		http.StatusInternalServerError, http.StatusNotImplemented:
		p.state.Store(singleRefused)
		return true
	}
	return false
}

// uploadTo sends a blob to the upload session that resp has opened.
func (p push) uploadTo(ctx context.Context, resp *http.Response) error {
	u, err := resolveLink(resp.Request.URL, resp.Header.Get("Location"))
	if err == nil && resp.Header.Get("Location") == "" {
		err = errors.New("none")
	}
	if err != nil {
		return fmt.Errorf("%w: Location of the upload: %w", ErrCorrupt, err)
	}
	// The session's own query must stay unchanged.
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += url.Values{"digest": {p.b.Digest.String()}}.Encode()
	resp, err = p.to.send(ctx, request{
		method: http.MethodPut, url: u, body: p.b.Open, size: p.b.Size,
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	if err != nil {
		return &uploadError{err}
	}
	discardBody(resp)
	return nil
}

// uploadError marks a failed PUT, which is not repeated: the session may hold a part of the bytes.
type uploadError struct{ error }

func (e *uploadError) Unwrap() error { return e.error }

func (p push) shouldRestart(ctx context.Context, err error, attempt int) (time.Duration, bool) {
	retry := p.to.c.o.Retry
	_, put := errors.AsType[*uploadError](err)
	_, own := errors.AsType[*contentError](err)
	passing := (Passing(err) || errors.Is(err, ErrNotFound)) && !own
	if !put || !passing || ctx.Err() != nil || attempt >= retry.MaxAttempts {
		return 0, false
	}
	pause := backoff(retry.InitialBackoff, retry.MaxBackoff, attempt)
	if e, ok := errors.AsType[*ResponseError](err); ok {
		if e.RetryAfter > retry.MaxBackoff || e.DiskFull() { // disk full: the next attempt would fill it again
			return 0, false
		}
		pause = max(pause, e.RetryAfter)
	}
	return pause, waitFits(ctx, pause)
}

// canMount reports whether a mount is worth trying: from the same registry, none refused yet.
func (p push) canMount() bool {
	from := p.b.From
	if from == nil || from.conn.name == p.to.name || apiHost(from.conn.c.host) != apiHost(p.to.c.host) {
		return false
	}
	p.to.s.mu.Lock()
	defer p.to.s.mu.Unlock()
	return !p.to.s.noMounts
}

// mount makes a blob of another repository of the registry available (OCI distribution
// specification 1.1, "Mounting a blob from another repository"). The registry decides by the
// credential for this repository. If it opens an upload instead (202), the blob is sent there.
// After any error the caller has to push the blob.
func (p push) mount(ctx context.Context) error {
	resp, err := p.askMount(ctx)
	if err != nil {
		// A refusal would be repeated for each blob; a missing blob says nothing about the next.
		if !Passing(err) && !errors.Is(err, ErrNotFound) && ctx.Err() == nil {
			p.to.s.mu.Lock()
			p.to.s.noMounts = true
			p.to.s.mu.Unlock()
		}
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		if err := p.uploadTo(ctx, resp); err != nil {
			return err
		}
	}
	p.to.c.transport.recent.addPush(p.to.name, p.b.Digest)
	return nil
}

// askMount asks for a mount. A refusal does not concern the credential for this repository.
func (p push) askMount(ctx context.Context) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	resp, err := p.to.sendOnce(ctx, request{
		method: http.MethodPost, path: "blobs/uploads/", reads: p.b.From.conn.name,
		query: url.Values{"mount": {p.b.Digest.String()}, "from": {p.b.From.conn.name}},
	})
	if err != nil {
		return nil, err
	}
	discardBody(resp)
	return resp, nil
}
