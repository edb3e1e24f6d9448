// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Options say where a depot is.
type Options struct {
	Client   *oci.Client // of the host; the layout's names are full names
	Layout   addr.Layout
	Progress func(Event) // nil: none; called from several goroutines
	TempDir  string      // for packed archives; "": the system's
}

// Event is a step of an upload, or of a download for a mirror.
type Event struct {
	Item  string // name of the file; a download says so behind it
	Bytes int64  // moved since the last event of this item; negative when a repeated upload starts over
	Total int64
}

// Depot publishes into one registry. It is safe for concurrent use.
type Depot struct {
	o Options

	mu    sync.Mutex // guards locks
	locks map[string]*sync.Mutex
}

// New returns a depot.
func New(o Options) *Depot { return &Depot{o: o, locks: map[string]*sync.Mutex{}} }

// Published says what a publish stored, or found.
type Published struct {
	Repository    string   `json:"repository"` // host/name
	Tag           string   `json:"tag"`
	Digest        string   `json:"digest"`
	ContentDigest string   `json:"contentDigest"`
	Existing      bool     `json:"existing"` // the same content was there before
	Warnings      []string `json:"warnings,omitempty"`
}

// String returns repository:tag@digest.
func (p Published) String() string { return p.Repository + ":" + p.Tag + "@" + p.Digest }

// ConflictError says that a version exists with other content. It is an
// oci.ErrExists.
type ConflictError struct {
	Repository, Tag string
	Stored, Offered string       // content digests; Stored is the manifest's where the content's is not recorded
	Next            addr.Version // next free patch version, zero if unknown
}

func (e *ConflictError) Error() string {
	text := fmt.Sprintf("%s:%s is already published with other content: stored %s, yours %s", e.Repository, e.Tag, e.Stored, e.Offered)
	if e.Next != (addr.Version{}) {
		text += "; the next free version is " + e.Next.String()
	}
	return text
}

func (e *ConflictError) Unwrap() error { return oci.ErrExists }

// lock serialises publishing into one repository.
func (d *Depot) lock(repository string) (unlock func()) {
	d.mu.Lock()
	l := d.locks[repository]
	if l == nil {
		l = &sync.Mutex{}
		d.locks[repository] = l
	}
	d.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// repo opens a repository of the layout.
func (d *Depot) repo(name string) (*oci.Repo, error) {
	if err := addr.CheckRepository(d.o.Client.Host(), name); err != nil {
		return nil, err
	}
	return d.o.Client.Repo(name)
}

// below returns the name of a repository without the prefix of the layout, which
// is what stays the same when artifacts move to another registry.
func (d *Depot) below(repository string) string {
	return strings.TrimPrefix(repository, d.o.Layout.Prefix+"/")
}

// errTaken says that a tag holds another manifest.
var errTaken = errors.New("tag holds another manifest")

// putVersion writes a tag that must not move. Another manifest under it gives
// errTaken; the window in which that goes unseen is described in doc.go.
func putVersion(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest) error {
	switch have, err := r.Resolve(ctx, tag); {
	case err == nil && have.Digest == m.Digest:
		return nil
	case err == nil:
		return errTaken
	case !errors.Is(err, oci.ErrNotFound):
		return err
	}
	putErr := r.PutTag(ctx, tag, m)
	have, err := r.Resolve(ctx, tag)
	switch {
	case err == nil && have.Digest == m.Digest:
		return nil // also when the answer to the PUT was lost
	case err == nil:
		return errTaken // a rule for immutable tags refuses with several codes
	case putErr != nil:
		return putErr
	}
	return err
}

// nextFree returns the first patch version after v that has no tag.
func nextFree(ctx context.Context, r *oci.Repo, v addr.Version) addr.Version {
	tags := map[string]bool{}
	for tag, err := range r.Tags(ctx) {
		if err != nil {
			return addr.Version{} // only decorates a message
		}
		tags[tag] = true
	}
	for v = v.NextPatch(); tags[v.Tag()]; {
		v = v.NextPatch()
	}
	return v
}

// addToCatalogue records the repository, so that it can be listed. Nothing
// depends on it: a failure is a warning.
func (d *Depot) addToCatalogue(ctx context.Context, e artifact.CatalogEntry) []string {
	r, err := d.repo(d.o.Layout.CatalogRepo())
	if err == nil {
		err = artifact.AddCatalogEntry(ctx, r, e)
	}
	if errors.Is(err, oci.ErrDenied) {
		return []string{fmt.Sprintf("not listed in the catalogue, unless the registry is okara serve, which does so itself: %v", err)}
	}
	if err != nil {
		return []string{fmt.Sprintf("not listed in the catalogue: %v", err)}
	}
	return nil
}

// AddToCatalogue lists a repository of modules or providers; one of anything
// else is passed over.
func (d *Depot) AddToCatalogue(ctx context.Context, repository string) error {
	entry, ok := catalogEntry(d.o.Layout, repository)
	if !ok {
		return nil
	}
	r, err := d.repo(d.o.Layout.CatalogRepo())
	if err != nil {
		return err
	}
	return artifact.AddCatalogEntry(ctx, r, entry)
}

// watched reports how far the upload of b is.
func (d *Depot) watched(b oci.Blob, item string) oci.Blob {
	if d.o.Progress == nil {
		return b
	}
	open := b.Open
	b.Open = func() (io.ReadCloser, error) {
		f, err := open()
		if err != nil {
			return nil, err
		}
		return Watch(f, d.o.Progress, item, b.Size), nil
	}
	return b
}

// Watch returns r, which reports to progress what is read of total bytes. A nil
// progress is allowed.
func Watch(r io.ReadCloser, progress func(Event), item string, total int64) io.ReadCloser {
	if progress == nil {
		return r
	}
	return &watchedReader{ReadCloser: r, report: func(n int64) { progress(Event{Item: item, Bytes: n, Total: total}) }}
}

// watchedPackage reports how far the download of k is, if the origin says how much
// there is.
func (d *Depot) watchedPackage(k upstream.Package) upstream.Package {
	if d.o.Progress == nil {
		return k
	}
	open := k.Open
	k.Open = func(ctx context.Context) (io.ReadCloser, error) {
		body, err := open(ctx)
		sized, ok := body.(interface{ Length() int64 })
		if err != nil || !ok || sized.Length() <= 0 {
			return body, err
		}
		return &watchedReader{ReadCloser: body, report: func(n int64) {
			d.o.Progress(Event{Item: k.Filename + " (download)", Bytes: n, Total: sized.Length()})
		}}, nil
	}
	return k
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
