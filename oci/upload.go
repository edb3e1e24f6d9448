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

// PushBlob stores a blob: one POST, one PUT; a small one with the POST alone where the
// registry takes that, which the first one tells, see [Options].SinglePost. An upload that breaks starts again from its beginning. A
// blob that another repository of the registry has is mounted with one POST; where
// that is refused or ignored it is sent.
func (r *Repo) PushBlob(ctx context.Context, b Blob) error {
	p := push{r, b}
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
		err := p.upload(ctx)
		if err == nil {
			r.c.transport.recent.add(r.name, b.Digest)
			return nil
		}
		pause, again := p.again(ctx, err, attempt)
		if !again {
			return fmt.Errorf("push blob %s to %s: %w", b.Digest, r, err)
		}
		if cerr := text.Wait(ctx, pause); cerr != nil {
			return fmt.Errorf("push blob %s to %s: %w: %w", b.Digest, r, cerr, err)
		}
	}
}

// push is a blob on its way to a repository.
type push struct {
	*Repo
	b Blob
}

// upload sends the blob with the POST, or opens an upload session and sends it there in
// one piece.
func (p push) upload(ctx context.Context) error {
	begin := request{method: http.MethodPost, path: "blobs/uploads/"}
	q := begin
	single := p.c.single.fits(p.b.Size)
	if single {
		q.query = url.Values{"digest": {p.b.Digest.String()}}
		q.body = p.b.Open
		q.size = p.b.Size
		q.header = http.Header{"Content-Type": {"application/octet-stream"}}
	}
	resp, err := p.done(ctx, q)
	if single && p.c.single.refused(err) {
		single = false
		resp, err = p.done(ctx, begin)
	}
	if err != nil {
		return err
	}
	if single && p.c.single.took(resp.StatusCode) {
		return nil
	}
	return p.uploadTo(ctx, resp)
}

// singlePost remembers of a registry whether it takes a blob with the POST that else
// asks for an upload (OCI distribution specification 1.1, "Single POST"). Nothing tells
// it but the first such POST: one that does not answers 202, and gets the bytes again.
type singlePost struct{ state atomic.Int32 }

const (
	singleUnknown int32 = iota
	singleTaken
	singleRefused
)

const (
	// maxSinglePost bounds what is sent with the POST, since a registry that does not
	// take it gets it twice, in bytes; maxFirstPost does so while that is not known.
	maxSinglePost = 1 << 20
	maxFirstPost  = 64 << 10
)

func (p *singlePost) fits(size int64) bool {
	switch p.state.Load() {
	case singleTaken:
		return size > 0 && size <= maxSinglePost
	case singleRefused:
		return false
	}
	return size > 0 && size <= maxFirstPost
}

// took reports whether the answer to such a POST says that the blob is there.
func (p *singlePost) took(status int) bool {
	if status == http.StatusCreated {
		p.state.Store(singleTaken)
		return true
	}
	p.state.Store(singleRefused)
	return false
}

// refused recognizes a registry, of which nothing was known, that answers such a POST with
// an error which is not about who sends it or how often.
func (p *singlePost) refused(err error) bool {
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

// uploadTo sends a blob to the session that an answer has opened.
func (p push) uploadTo(ctx context.Context, resp *http.Response) error {
	u, err := follow(resp.Request.URL, resp.Header.Get("Location"))
	if err == nil && resp.Header.Get("Location") == "" {
		err = errors.New("none")
	}
	if err != nil {
		return fmt.Errorf("%w: Location of the upload: %w", ErrCorrupt, err)
	}
	// The session's own query must stay as it is, only the digest is added.
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += url.Values{"digest": {p.b.Digest.String()}}.Encode()
	resp, err = p.send(ctx, request{
		method: http.MethodPut, url: u, body: p.b.Open, size: p.b.Size,
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	if err != nil {
		return &uploadError{err}
	}
	discard(resp)
	return nil
}

// uploadError marks a failure of the PUT, which the transport does not repeat
// because the session may hold a part of the bytes.
type uploadError struct{ error }

func (e *uploadError) Unwrap() error { return e.error }

// again reports whether the upload is to be begun again after err, and after which pause.
func (p push) again(ctx context.Context, err error, attempt int) (time.Duration, bool) {
	retry := p.c.o.Retry
	_, put := errors.AsType[*uploadError](err)
	_, own := errors.AsType[*contentError](err)
	passing := (Passing(err) || errors.Is(err, ErrNotFound)) && !own
	if !put || !passing || ctx.Err() != nil || attempt >= retry.MaxAttempts {
		return 0, false
	}
	pause := backoff(retry.InitialBackoff, retry.MaxBackoff, attempt)
	if e, ok := errors.AsType[*ResponseError](err); ok {
		if e.RetryAfter > retry.MaxBackoff || e.DiskFull() { // a full disk: the next try would fill it again
			return 0, false
		}
		pause = max(pause, e.RetryAfter)
	}
	return pause, waitFits(ctx, pause)
}

// canMount reports whether it is worth asking for a mount from another repository:
// it is at the same registry, and no mount into this one was refused yet.
func (p push) canMount() bool {
	from := p.b.From
	if from == nil || from.name == p.name || apiHost(from.c.host) != apiHost(p.c.host) {
		return false
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return !p.s.noMounts
}

// mount makes a blob of another repository of the registry one of this one (OCI
// distribution specification 1.1, "Mounting a blob from another repository").
// The registry decides, by the credential for this repository, whether the other
// one may be read. Where it opens an upload instead (202) the blob is sent there.
// After any error the blob is to be pushed.
func (p push) mount(ctx context.Context) error {
	resp, err := p.askMount(ctx)
	if err != nil {
		// Each further blob would cost a refusal, too. That one blob is not there,
		// or that nobody answers, says nothing about the next.
		if !Passing(err) && !errors.Is(err, ErrNotFound) && ctx.Err() == nil {
			p.s.mu.Lock()
			p.s.noMounts = true
			p.s.mu.Unlock()
		}
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		if err := p.uploadTo(ctx, resp); err != nil {
			return err
		}
	}
	p.c.transport.recent.add(p.name, p.b.Digest)
	return nil
}

// askMount sends the request. A refusal says nothing about the credential for
// this repository alone, so that nothing is done about it.
func (p push) askMount(ctx context.Context) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	resp, err := p.sendOnce(ctx, request{
		method: http.MethodPost, path: "blobs/uploads/", reads: p.b.From.name,
		query: url.Values{"mount": {p.b.Digest.String()}, "from": {p.b.From.name}},
	})
	if err != nil {
		return nil, err
	}
	discard(resp)
	return resp, nil
}
