// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// Progress receives uploads' and downloads' progress; nil is ignored.
type Progress func(Event)

// Event is a step of an upload, or of a download for a mirror.
type Event struct {
	Item  string // name of the file; a suffix marks a download
	Bytes int64  // moved since the last event of this item; negative when a repeated upload starts over
	Total int64
	Count bool // Bytes and Total count items instead of bytes
}

// Of returns a function that counts the bytes of one item.
func (p Progress) Of(item string, total int64) func(int64) {
	if p == nil {
		return func(int64) {}
	}
	return func(n int64) { p(Event{Item: item, Bytes: n, Total: total}) }
}

// Watch returns a reader that reads r and reports the bytes read.
func Watch(r io.ReadCloser, report func(int64)) io.ReadCloser {
	return &watchedReader{ReadCloser: r, report: report}
}

// watchUpload reports b's upload. Opened again the count starts over: attempts do not overlap.
func (p Progress) watchUpload(b oci.Blob, item string) oci.Blob {
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

// download reports k's download if the origin announces the size.
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

// Close subtracts the progress of an upload that did not reach its end.
func (r *watchedReader) Close() error {
	if !r.ended && r.n > 0 {
		r.report(-r.n)
		r.n = 0
	}
	return r.ReadCloser.Close()
}
