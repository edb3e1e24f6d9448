// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// Progress receives how far uploads and downloads are. One that is nil hears
// nothing.
type Progress func(Event)

// Event is a step of an upload, or of a download for a mirror.
type Event struct {
	Item  string // name of the file; a download says so behind it
	Bytes int64  // moved since the last event of this item; negative when a repeated upload starts over
	Total int64
	Count bool // Bytes and Total are a number of things
}

// Of returns what counts the bytes of one item.
func (p Progress) Of(item string, total int64) func(int64) {
	if p == nil {
		return func(int64) {}
	}
	return func(n int64) { p(Event{Item: item, Bytes: n, Total: total}) }
}

// Watch returns r, which reports what is read.
func Watch(r io.ReadCloser, report func(int64)) io.ReadCloser {
	return &watchedReader{ReadCloser: r, report: report}
}

// upload reports how far the upload of b is. Opened again it starts over, also after all
// of it was sent: one attempt comes after the other.
func (p Progress) upload(b oci.Blob, item string) oci.Blob {
	if p == nil {
		return b
	}
	open := b.Open
	report := p.Of(item, b.Size)
	var sent atomic.Int64
	b.Open = func() (io.ReadCloser, error) {
		f, err := open()
		if err != nil {
			return nil, err
		}
		if n := sent.Swap(0); n != 0 {
			report(-n)
		}
		return Watch(f, func(n int64) {
			sent.Add(n)
			report(n)
		}), nil
	}
	return b
}

// download reports how far the download of k is, if the origin says how much
// there is.
func (p Progress) download(k upstream.Package) upstream.Package {
	open := k.Open
	k.Open = func(ctx context.Context) (io.ReadCloser, error) {
		body, err := open(ctx)
		sized, ok := body.(interface{ Length() int64 })
		if err != nil || !ok || sized.Length() <= 0 {
			return body, err
		}
		return Watch(body, p.Of(k.Filename+" (download)", sized.Length())), nil
	}
	return k
}

// save copies a verified blob.
func (p Progress) save(ctx context.Context, r *oci.Repo, blob oci.Descriptor, to io.Writer, item string) error {
	in, err := r.Open(ctx, blob)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(to, Watch(in, p.Of(item, blob.Size)))
	return err
}

type watchedReader struct {
	io.ReadCloser
	report func(int64)
	n      int64
	ended  bool
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.n += int64(n)
		r.report(int64(n))
	}
	r.ended = r.ended || err == io.EOF
	return n, err
}

// Close takes back what an upload sent that did not reach its end.
func (r *watchedReader) Close() error {
	if !r.ended && r.n > 0 {
		r.report(-r.n)
		r.n = 0
	}
	return r.ReadCloser.Close()
}
