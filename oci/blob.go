// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	_ "crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
)

// Descriptor names content by media type, digest and size.
type Descriptor = ocispec.Descriptor

// Blob is content to push. Open is called once per attempt.
type Blob struct {
	Descriptor
	Open func() (io.ReadCloser, error)
	// From is a repository that should have the blob, or nil. At the same registry it is mounted
	// from there if possible, without bytes: see [Repo.PushBlob].
	From *Repo
}

// BytesBlob returns a blob of bytes, which must not change afterwards.
func BytesBlob(mediaType string, b []byte) Blob {
	return Blob{
		Descriptor: Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil },
	}
}

// FileBlob returns a file as a blob. It reads the file once for the digest; if that changes before
// the push, the registry refuses it.
func FileBlob(mediaType, path string) (Blob, error) {
	f, err := os.Open(path)
	if err != nil {
		return Blob{}, err
	}
	defer f.Close()
	h := digest.SHA256.Digester()
	n, err := io.CopyBuffer(h.Hash(), struct{ io.Reader }{f}, make([]byte, copyBuffer))
	if err != nil {
		return Blob{}, fmt.Errorf("read %s: %w", path, err)
	}
	return Blob{
		Descriptor: Descriptor{MediaType: mediaType, Digest: h.Digest(), Size: n},
		Open:       func() (io.ReadCloser, error) { return os.Open(path) },
	}, nil
}

// EmptyBlob returns the two bytes "{}" that stand for "no config" (OCI image specification 1.1,
// "Guidance for an Empty Descriptor").
func EmptyBlob() Blob {
	b := BytesBlob(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	b.Data = []byte("{}")
	return b
}

const copyBuffer = 256 << 10

// Open streams a blob. Size and digest are verified before its end: a mismatch gives ErrCorrupt
// instead of io.EOF. A broken connection is resumed. The caller must close the reader.
func (r *Repo) Open(ctx context.Context, d Descriptor) (io.ReadCloser, error) {
	if err := d.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("blob %q of %s: %w: %w", d.Digest, r, ErrCorrupt, err)
	}
	body, err := r.OpenAt(ctx, d, 0)
	if err != nil {
		return nil, err
	}
	return &verified{
		body: body, hash: d.Digest.Algorithm().Hash(), d: d, repo: r.String(), left: r.conn.c.o.Retry.MaxAttempts - 1,
		resume: func(at int64) (io.ReadCloser, error) { return r.OpenAt(ctx, d, at) },
	}, nil
}

// verified reads a blob, resumes after a broken connection and checks the digest at the end.
type verified struct {
	body   io.ReadCloser
	hash   hash.Hash
	n      int64
	d      Descriptor
	repo   string
	left   int // remaining resumptions
	resume func(at int64) (io.ReadCloser, error)
	err    error
}

func (v *verified) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.body.Read(p)
	v.hash.Write(p[:n])
	v.n += int64(n)
	switch {
	case v.n > v.d.Size:
		v.err = v.corruptBlob("exceeds its size of %d bytes", v.d.Size)
		return 0, v.err
	case err == io.EOF && v.n == v.d.Size:
		v.err = v.verdict()
	case err != nil:
		v.err = v.reopen(err)
	}
	return n, v.err
}

// WriteTo serves io.Copy with a buffer that makes reading cheap compared with hashing.
func (v *verified) WriteTo(w io.Writer) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{v}, make([]byte, copyBuffer))
}

func (v *verified) verdict() error {
	if got := digest.NewDigest(v.d.Digest.Algorithm(), v.hash); got != v.d.Digest {
		return v.corruptBlob("has digest %s", got)
	}
	return io.EOF
}

// reopen continues a body that ended early; it returns nil on success.
func (v *verified) reopen(cause error) error {
	if cause == io.EOF {
		cause = io.ErrUnexpectedEOF
	}
	if v.left <= 0 || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("read blob %s of %s: %w: %w", v.d.Digest, v.repo, ErrUnavailable, cause)
	}
	v.left--
	v.body.Close()
	body, err := v.resume(v.n)
	if err != nil {
		v.body = http.NoBody
		return err
	}
	v.body = body
	return nil
}

func (v *verified) corruptBlob(format string, args ...any) error {
	return fmt.Errorf("blob %s of %s: %w: %s", v.d.Digest, v.repo, ErrCorrupt, fmt.Sprintf(format, args...))
}

func (v *verified) Close() error { return v.body.Close() }

// OpenAt streams a blob from offset on, unverified. If the registry ignores ranges, it drops the
// bytes before. A size of 0 means unknown. The caller must close the reader.
func (r *Repo) OpenAt(ctx context.Context, d Descriptor, offset int64) (io.ReadCloser, error) {
	body, _, err := r.openBlob(ctx, d, offset, false)
	return body, err
}

// OpenOrRedirect is OpenAt for a server that may pass a redirect on: if the registry redirects to
// another host over https, it returns that URL, often a secret for some minutes, and no body.
func (r *Repo) OpenOrRedirect(ctx context.Context, d Descriptor, offset int64) (io.ReadCloser, *url.URL, error) {
	return r.openBlob(ctx, d, offset, true)
}

func (r *Repo) openBlob(ctx context.Context, d Descriptor, offset int64, stay bool) (io.ReadCloser, *url.URL, error) {
	if offset < 0 || d.Size > 0 && offset > d.Size {
		return nil, nil, fmt.Errorf("blob %s of %s: offset %d is outside its %d bytes", d.Digest, r, offset, d.Size)
	}
	if offset == d.Size && offset > 0 {
		return http.NoBody, nil, nil
	}
	// identity: some servers label a gzip layer as Content-Encoding, and net/http would decode it.
	q := request{method: http.MethodGet, path: "blobs/" + d.Digest.String(), stay: stay, header: http.Header{"Accept-Encoding": {"identity"}}}
	if offset > 0 {
		q.header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	resp, err := r.conn.send(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode/100 == 3 {
		u, err := resp.Location()
		resp.Body.Close()
		if err == nil && u.Scheme == "https" && u.Host != resp.Request.URL.Host {
			return nil, u, nil
		}
		return r.openBlob(ctx, d, offset, false)
	}
	body, err := checkPosition(r, resp, d, offset)
	return body, nil, err
}

// checkPosition checks that the answer is the blob and starts at offset.
func checkPosition(r *Repo, resp *http.Response, d Descriptor, offset int64) (io.ReadCloser, error) {
	if isHTML(resp.Header) && resp.Header.Get("Docker-Content-Digest") == "" && resp.ContentLength != d.Size {
		resp.Body.Close()
		return nil, notRegistry(resp)
	}
	want := d.Size
	if resp.StatusCode == http.StatusPartialContent {
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(offset, 10)+"-") {
			resp.Body.Close()
			return nil, fmt.Errorf("blob %s of %s: %w: requested bytes from %d, got %q", d.Digest, r, ErrCorrupt, offset, text.Excerpt(resp.Header.Get("Content-Range")))
		}
		want -= offset
		offset = 0
	}
	if n := resp.ContentLength; n >= 0 && n != want && d.Size > 0 {
		resp.Body.Close()
		return nil, fmt.Errorf("blob %s of %s: %w: the registry announced %d bytes, expected %d", d.Digest, r, ErrCorrupt, n, want)
	}
	if offset > 0 {
		if _, err := io.CopyN(io.Discard, resp.Body, offset); err != nil {
			resp.Body.Close()
			return nil, fmt.Errorf("read blob %s of %s: %w: %w", d.Digest, r, ErrUnavailable, err)
		}
	}
	return resp.Body, nil
}

// notRegistry returns the error for an HTML page where data was expected.
func notRegistry(resp *http.Response) error {
	return fmt.Errorf("%s %s: %w: %s returned HTML, is this an OCI registry?",
		resp.Request.Method, safeURL(resp.Request.URL), ErrUnavailable, resp.Request.URL.Host)
}

// ReadBlob returns a verified blob of at most limit bytes, without a request from d.Data.
func (r *Repo) ReadBlob(ctx context.Context, d Descriptor, limit int64) ([]byte, error) {
	if d.Size > limit {
		return nil, fmt.Errorf("blob %s of %s: %w: %d bytes, the limit is %d", d.Digest, r, ErrTooLarge, d.Size, limit)
	}
	if d.Size < 0 {
		return nil, fmt.Errorf("blob %s of %s: %w: size %d", d.Digest, r, ErrCorrupt, d.Size)
	}
	if d.Data != nil && int64(len(d.Data)) == d.Size && d.Digest.Validate() == nil && d.Digest.Algorithm().FromBytes(d.Data) == d.Digest {
		return bytes.Clone(d.Data), nil
	}
	body, err := r.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var buf bytes.Buffer
	buf.Grow(int(min(d.Size, 64<<20)) + bytes.MinRead) // the size is unverified until the bytes are read
	if _, err := buf.ReadFrom(body); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// Stat returns the descriptor, with size, of a blob of that digest. ErrNotFound: it is not there.
func (r *Repo) Stat(ctx context.Context, d digest.Digest) (Descriptor, error) {
	if err := d.Validate(); err != nil {
		return Descriptor{}, fmt.Errorf("blob %q of %s: %w: %w", d, r, ErrNotFound, err)
	}
	q := request{method: http.MethodHead, path: "blobs/" + d.String(), header: http.Header{"Accept-Encoding": {"identity"}}}
	resp, err := r.conn.sendAndDiscard(ctx, q)
	if err != nil {
		return Descriptor{}, err
	}
	if resp.ContentLength < 0 {
		return Descriptor{}, fmt.Errorf("blob %s of %s: %w: the registry did not return its size", d, r, ErrUnsupported)
	}
	return Descriptor{MediaType: "application/octet-stream", Digest: d, Size: resp.ContentLength}, nil
}

// HasBlob reports whether the repository has the blob, with one HEAD.
func (r *Repo) HasBlob(ctx context.Context, d Descriptor) (bool, error) {
	_, err := r.conn.sendAndDiscard(ctx, request{method: http.MethodHead, path: "blobs/" + d.Digest.String()})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// EnsureBlob pushes the blob unless the repository has it.
func (r *Repo) EnsureBlob(ctx context.Context, b Blob) (pushed bool, err error) {
	has, err := r.HasBlob(ctx, b.Descriptor)
	if errors.Is(err, ErrDenied) { // the answer to a HEAD has no reason, and a caller without the right to read may have the right to write
		err = nil
	}
	if has || err != nil {
		return false, err
	}
	return true, r.PushBlob(ctx, b)
}

// Interruptible returns r, whose reads end when the context is done.
func Interruptible(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context // of the call that reads
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
