// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Options configures a depot.
type Options struct {
	Client           *oci.Client // of the host; the names of the layout are full names
	Layout           addr.Layout
	LayoutFromServer bool     // Layout was received from a server, see [trust.Subject]
	Progress         Progress // called from several goroutines
	TempDir          string   // for packed archives; "": the system default
}

// TagParts returns [oci.Options].TagParts as OKARA_TAG_PARTS of the environment says.
func TagParts(getenv func(string) string) (bool, error) {
	value := cmp.Or(getenv("OKARA_TAG_PARTS"), "false")
	tags, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("OKARA_TAG_PARTS is %q, must be true or false", text.Excerpt(value))
	}
	return tags, nil
}

// Depot publishes into one registry. It is safe for concurrent use.
type Depot struct {
	o Options

	mu    sync.Mutex // guards the fields below
	locks map[string]chan struct{}
	known map[string]time.Time // time at which the catalog entry of a repository was seen
}

// knownFor is how long a catalog entry is assumed to exist after it was seen.
const knownFor = 10 * time.Minute

// New returns a depot.
func New(o Options) *Depot {
	return &Depot{o: o, locks: map[string]chan struct{}{}, known: map[string]time.Time{}}
}

// Options returns the options of the depot.
func (d *Depot) Options() Options { return d.o }

// Published describes the version that a publication stored or found.
type Published struct {
	Repository    string   `json:"repository"` // host/name
	Tag           string   `json:"tag"`
	Digest        string   `json:"digest"`
	ContentDigest string   `json:"content_digest"`
	Existing      bool     `json:"existing"` // the same content existed before
	Warnings      []string `json:"warnings,omitempty"`

	// Of an existing version of a provider: platforms added, and wanted ones that the origin lacks.
	Added  []addr.Platform `json:"added,omitempty"`
	Absent []addr.Platform `json:"absent,omitempty"`

	Restored bool             `json:"-"` // what the registry had lost of an existing version was pushed again
	Size     int64            `json:"-"` // of the zip of a module that was published now; 0: it was not, or a check may have attached reports
	layers   []oci.Descriptor // of an existing module
}

// String returns repository:tag@digest.
func (p Published) String() string { return p.Repository + ":" + p.Tag + "@" + p.Digest }

// ConflictError means that a version has other content or a used number. It wraps oci.ErrExists.
type ConflictError struct {
	Repository, Tag string
	Stored, Offered string                // content digests; Stored is the manifest digest if no content digest is recorded, "" if the tag does not exist; of a provider that differs only in them its protocols
	Withdrawn       *evidence.StatusEvent // event that withdrew the version; nil: not withdrawn
	Duplicate       addr.Version          // version of a module that differs only after "+"; zero: none
	Next            addr.Version          // next free patch version, zero if unknown
	Grows           bool                  // of a provider: what is offered has the stored platforms unchanged, and more
}

func (e *ConflictError) Error() string {
	text := e.Repository + ":" + e.Tag + " is already published with other content"
	switch {
	case e.Duplicate != addr.Version{}:
		v, _ := addr.VersionFromTag(e.Tag)
		text = fmt.Sprintf("%s used the number for %s, which OpenTofu and Terraform treat as the same version as %s: they ignore what follows \"+\"", e.Repository, e.Duplicate, v)
	case e.Withdrawn == nil:
	case e.Stored == "":
		text = e.Repository + ":" + e.Tag + " was withdrawn" + e.Withdrawn.Because() + "; version numbers are not reused"
	default:
		text += ", and withdrawn" + e.Withdrawn.Because()
	}
	if e.Stored != "" {
		text += fmt.Sprintf(": stored %s, yours %s", e.Stored, e.Offered)
	}
	if e.Next != (addr.Version{}) {
		text += "; the next free version is " + e.Next.String()
	}
	return text
}

func (e *ConflictError) Unwrap() error { return oci.ErrExists }

// WithoutNext removes the next free version from a conflict: an origin chooses its numbers.
func WithoutNext(err error) error {
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		conflict.Next = addr.Version{}
	}
	return err
}

// lock serialises publishing into one repository.
func (d *Depot) lock(repository string) (unlock func()) {
	d.mu.Lock()
	l := d.locks[repository]
	if l == nil {
		l = make(chan struct{}, 1)
		d.locks[repository] = l
	}
	d.mu.Unlock()
	l <- struct{}{}
	return func() { <-l }
}

// Repo opens a repository of the layout.
func (d *Depot) Repo(name string) (*oci.Repo, error) {
	if err := addr.CheckRepository(d.o.Client.Host(), name); err != nil {
		return nil, err
	}
	return d.o.Client.Repo(name)
}

// ErrTaken means that a tag already names another manifest.
var ErrTaken = errors.New("tag points to another manifest")

// listInCatalog adds an item, unless its entry was seen recently. A failure is a warning.
func listInCatalog(ctx context.Context, d *Depot, it addr.Item, title string) []string {
	repository := it.Repository(d.o.Layout)
	d.mu.Lock()
	at := d.known[repository]
	d.mu.Unlock()
	if time.Since(at) < knownFor {
		return nil
	}
	if err := d.AddToCatalog(ctx, it, title); err != nil {
		return NotListed(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[repository] = time.Now()
	return nil
}

// NotListed returns the warning that a repository could not be added to the
// catalog, none if okara serve refused it: that adds what is pushed by itself.
func NotListed(err error) []string {
	if errors.Is(err, oci.ErrDenied) && strings.Contains(err.Error(), rights.Lacks) {
		return nil
	}
	return []string{fmt.Sprintf("not listed in the catalog: %v", err)}
}

// AddToCatalog adds an item; title is its address as written, or "".
func (d *Depot) AddToCatalog(ctx context.Context, it addr.Item, title string) error {
	r, err := d.Repo(d.o.Layout.CatalogRepo())
	if err != nil {
		return err
	}
	return artifact.AddCatalogEntry(ctx, r, artifact.CatalogEntry{Kind: it.Kind, Address: it.String(), Repository: it.Repository(d.o.Layout), Title: title})
}
