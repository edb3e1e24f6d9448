// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
)

// stallTimeout ends a download whose client accepts no byte for that long; there is no other limit.
const stallTimeout = 60 * time.Second

// Archives configures how archives are linked and delivered.
type Archives struct {
	TTL       time.Duration  // lifetime of a link; 0: 4 h
	Redirect  string         // "auto" (default): to the registry's storage if the registry redirects there; "never"
	StreamFor []netip.Prefix // clients that cannot reach the registry's storage
}

func (a Archives) withDefaults() Archives {
	a.TTL = cmp.Or(a.TTL, 4*time.Hour)
	return a
}

func (a Archives) validate() error {
	switch a.Redirect {
	case "", "auto", "never":
		return nil
	}
	return fmt.Errorf("archives: invalid redirect %q: must be auto or never", a.Redirect)
}

// archives delivers blobs: module and provider archives as well as checksums and signatures.
type archives struct {
	o       Archives
	layout  addr.Layout
	kit     *service.Kit
	views   *views
	local   func(repository, sha256hex string) (*os.File, error) // nil: the registry's files are not on this machine
	files   *cache.Blobs                                         // nil: no blob cache
	limiter *service.ClientLimiter                               // one per running download
	stall   time.Duration                                        // ends a download whose client accepts no byte for that long
	counts  *downloads.Counter
	metrics *Metrics
	log     *slog.Logger
	now     func() time.Time
}

// delivery is an authorized request for a blob.
type delivery struct {
	*http.Request
	*view
	blob   blobName
	signed bool // the link proves that the blob is in the repository
	public bool // shared caches may store the answer
	checks bool // the bytes are only checked, and are no download
}

// serveBlob delivers one blob. Clients send no credentials, so the path itself proves the right.
func (a *archives) serveBlob(w http.ResponseWriter, r *http.Request) error {
	b, ok := parseBlobName(r.PathValue("rest"))
	if !ok {
		return notFound("not an archive link: expected /archives/TOKEN/REPOSITORY/SHA256/FILE")
	}
	d, cacheControl, err := a.admitLink(r, b)
	if err != nil {
		return err
	}
	return d.reportedError(a.sendBlob(w, d, cacheControl))
}

func (a *archives) sendBlob(w http.ResponseWriter, r delivery, cacheControl string) error {
	var coming *pulled
	d, err := a.describeBlob(r)
	if err != nil && r.isAbsent(err) {
		d, coming, err = r.pull.findArchive(r.Context(), a.kit.Client(r.Request), r.blob)
	}
	if err != nil {
		return a.missingArchive(r, err)
	}
	h := w.Header()
	h.Set("Cache-Control", cacheControl)
	h.Set("Etag", `"`+d.Digest.String()+`"`)
	h.Set("Content-Type", contentType(r.blob.File))
	h.Set("Content-Disposition", "attachment")
	h.Set("Referrer-Policy", "no-referrer")
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // several ranges: send the whole
	}
	if err := a.deliver(w, r, d, coming); err != nil {
		service.Reset(h)
		return err
	}
	return nil
}

// describeBlob describes a blob. A signed link proves that it is there: the cache may do.
func (a *archives) describeBlob(r delivery) (oci.Descriptor, error) {
	if r.signed && a.files != nil && !r.callerCredential {
		if size, ok := a.files.Size(r.blob.cacheKey()); ok {
			return oci.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, r.blob.Hex), Size: size}, nil
		}
	}
	return r.catalog.Blobs.Blob(r.Context(), r.blob.Repository, r.blob.Hex)
}

// parseBlobName splits "repository/hex/file"; the repository contains slashes.
func parseBlobName(rest string) (blobName, bool) {
	rest, file, ok := cutLast(rest)
	if !ok {
		return blobName{}, false
	}
	repository, sum, ok := cutLast(rest)
	if !ok || len(sum) != 64 || file == "" || strings.ToLower(sum) != sum {
		return blobName{}, false
	}
	if _, err := hex.DecodeString(sum); err != nil {
		return blobName{}, false
	}
	return blobName{Repository: repository, Hex: sum, File: file}, true
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// admitLink checks the token of a link, which also determines the view and the answer's caching.
func (a *archives) admitLink(r *http.Request, b blobName) (_ delivery, cacheControl string, err error) {
	token := r.PathValue("token")
	if token == publicToken || token == authToken {
		return a.admitWord(r, b)
	}
	end, err := a.views.own.links.verify(token, b)
	if err != nil {
		return delivery{}, "", err
	}
	_, sealed := cutSealed(token)
	v, err := a.views.viewOfLink(sealed)
	if err != nil {
		return delivery{}, "", err
	}
	rest := int64(end.Sub(a.now()) / time.Second)
	return delivery{Request: r, view: v, blob: b, signed: true}, "private, max-age=" + strconv.FormatInt(rest, 10) + ", immutable", nil
}

// deliver answers with the blob or a part of it, even while it is being fetched, or redirects to
// the registry's own storage; never a HEAD, which addresses signed for GET refuse.
func (a *archives) deliver(w http.ResponseWriter, r delivery, d oci.Descriptor, coming *pulled) error {
	release, ok := a.limiter.Acquire(a.kit.Client(r.Request), 1)
	if !ok {
		return service.TooMany("downloads")
	}
	a.metrics.streams.Inc()
	defer func() { release(); a.metrics.streams.Dec() }()
	repo, err := r.client.Repo(r.blob.Repository)
	if err != nil {
		return err
	}
	src := &source{ctx: r.Context(), repo: repo, d: d, raw: a.isVerifiedByClient(r)}
	defer func() { _ = src.Close() }() // only read
	if r.Method == http.MethodGet && !notModified(r.Request, d) {
		to, err := a.locate(r, src, coming)
		if r.isAbsent(err) && coming == nil { // its size was known before the registry lost it
			r.catalog.Blobs.ForgetSize(r.blob.Repository, r.blob.Hex)
			if _, again, pulled := r.pull.findArchive(r.Context(), a.kit.Client(r.Request), r.blob); pulled == nil {
				to, err = a.locate(r, src, again)
			}
		}
		if err != nil {
			return a.missingArchive(r, err)
		}
		if to != nil {
			a.countDownload(r)
			a.metrics.bytes.WithLabelValues("redirect").Add(float64(d.Size))
			redirectTo(w, to)
			return nil
		}
	}
	a.countDownload(r)
	mode := "stream"
	if src.file != nil {
		mode = "file"
	}
	out := newSender(w, r.Request, a.stall)
	http.ServeContent(out, r.Request, "", time.Time{}, src)
	a.metrics.bytes.WithLabelValues(mode).Add(float64(out.sent))
	if src.err != nil {
		return fmt.Errorf("%w: %w", errAborted, src.err)
	}
	return nil
}

// isVerifiedByClient reports whether the client checks the digest itself, as OpenTofu and Terraform
// do for a provider's zip with the hashes in earlier answers, and OpenTofu for a module's with the
// checksum of its link (Terraform too, but it does not identify itself then). A client that falsely
// claims to be one of them gets unverified content, but no cache that serves others.
func (a *archives) isVerifiedByClient(r delivery) bool {
	if r.public || !strings.HasSuffix(r.blob.File, ".zip") {
		return false
	}
	item, ok := a.layout.Parse(r.blob.Repository)
	if !ok {
		return false
	}
	switch tool := downloads.Tool(r.UserAgent()); item.Kind {
	case addr.KindModule:
		return r.signed && tool == downloads.ToolOpenTofu
	case addr.KindProvider, addr.KindMirror:
		return tool == downloads.ToolOpenTofu || tool == downloads.ToolTerraform
	}
	return false
}

func notModified(r *http.Request, d oci.Descriptor) bool {
	inm := r.Header.Get("If-None-Match")
	return inm != "" && service.Matches(inm, `"`+d.Digest.String()+`"`)
}

// locate opens the blob at the nearest location: memory, the files of a registry in this process,
// the blob cache, the registry. Each is asked for this repository's blob: a manifest that names the
// digest does not prove who has it. A client to be redirected gets an address instead.
func (a *archives) locate(r delivery, src *source, coming *pulled) (to *url.URL, err error) {
	if small, ok := r.catalog.Blobs.KnownBytes(r.blob.Repository, r.blob.Hex); ok {
		src.small = small
		return nil, nil
	}
	if coming != nil && coming.spool != nil {
		if src.file, err = coming.spool.Open(); err == nil {
			src.spool = coming.spool
			return nil, nil
		}
	}
	if a.local != nil && !r.callerCredential { // local files bypass the registry's access check
		if src.file, err = a.local(r.blob.Repository, r.blob.Hex); err == nil {
			return nil, nil
		}
	}
	start := rangeStart(r.Header.Get("Range"), src.d.Size)
	redirect := a.mayRedirect(r.Request)
	if a.files != nil && !r.callerCredential { // other callers filled the cache
		src.file, src.spool, to, err = a.files.Open(r.Context(), r.blob.cacheKey(), src.d.Size, start, func(ctx context.Context) (io.ReadCloser, *url.URL, error) {
			shared := &source{ctx: ctx, repo: src.repo, d: src.d, raw: true}
			to, err := shared.openAt(0, redirect)
			return shared, to, err
		})
		if err != nil || src.file != nil || to != nil && redirect {
			return to, err
		}
	}
	return src.openAt(start, redirect)
}

// countDownload counts the download of an archive of a module or provider from its first byte. Only
// a signed link authenticates the file name; else clients could create any number of series.
func (a *archives) countDownload(r delivery) {
	if !r.signed || r.checks || r.Method != http.MethodGet || !strings.HasSuffix(r.blob.File, ".zip") || rangeStart(r.Header.Get("Range"), math.MaxInt64) > 0 {
		return
	}
	item, version, ok := r.blob.itemOfLink(a.layout)
	if !ok {
		return
	}
	if v, ok := addr.VersionFromTag(version); ok {
		version = v.String()
	}
	what := a.counts.Add(downloads.Counted{Kind: item.Kind, Address: item.String(), Version: version, Tool: downloads.Tool(r.UserAgent())})
	a.metrics.downloads.WithLabelValues(what.Kind, what.Address, what.Version).Inc()
}

func (b blobName) itemOfLink(l addr.Layout) (item addr.Item, version string, ok bool) {
	if item, ok = l.Parse(b.Repository); !ok {
		return item, "", false
	}
	version = b.File
	if item.Kind == addr.KindModule {
		version = strings.TrimPrefix(b.File, strings.ReplaceAll(item.Module.String(), "/", "-")+"-")
	} else if part := strings.Split(strings.TrimPrefix(b.File, "terraform-provider-"+item.Provider.Type), "_"); len(part) >= 3 {
		version = part[1]
	}
	return item, strings.TrimSuffix(version, ".zip"), true
}

func redirectTo(w http.ResponseWriter, to *url.URL) {
	h := w.Header()
	service.Reset(h)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", to.String())
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func (a *archives) mayRedirect(r *http.Request) bool {
	if a.o.Redirect == "never" {
		return false
	}
	ip, err := netip.ParseAddr(a.kit.Guard.ClientIP(r))
	return err != nil || !slices.ContainsFunc(a.o.StreamFor, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}

// rangeStart returns where a single range starts, for opening the blob there. 0 is always correct;
// [http.ServeContent] evaluates the range.
func rangeStart(header string, size int64) int64 {
	spec, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return 0
	}
	first, last, _ := strings.Cut(strings.TrimSpace(spec), "-")
	if first == "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n > size {
			return 0
		}
		return size - n
	}
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil || n < 0 || n >= size {
		return 0
	}
	return n
}

func contentType(file string) string {
	switch {
	case strings.HasSuffix(file, ".zip"):
		return "application/zip"
	case strings.HasSuffix(file, "_SHA256SUMS"):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

func (a *archives) missingArchive(r delivery, err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		a.dropLost(r)
	}
	return orNotFound(err, "archive %s", r.blob.File)
}

// dropLost unlists a version without its archive. Only a signed link proves that there was one.
func (a *archives) dropLost(r delivery) {
	if !r.signed {
		return
	}
	item, text, _ := r.blob.itemOfLink(a.layout)
	v, ok := addr.VersionFromTag(strings.ReplaceAll(text, "+", "_"))
	if !ok || !r.catalog.Lose(r.Context(), item, v, r.blob.Hex) {
		return
	}
	a.log.Error("the archive of a listed version was not found in the registry; the version is no longer listed",
		"repository", r.blob.Repository, "tag", v.Tag(), "digest", "sha256:"+r.blob.Hex, "file", r.blob.File)
	r.pull.restore(r.Context(), item.Provider, v)
}

// sender is a paced response that counts the bytes sent.
type sender struct {
	*service.Response
	kernel bool // the kernel can send a file directly to the connection
	sent   int64
}

func newSender(w http.ResponseWriter, r *http.Request, stall time.Duration) *sender {
	return &sender{Response: service.NewPaced(w, stall), kernel: r.TLS == nil && r.ProtoMajor == 1}
}

func (s *sender) Write(p []byte) (int, error) {
	n, err := s.Response.Write(p)
	s.sent += int64(n)
	return n, err
}

// ReadFrom is called by [io.Copy]. The kernel sends what is in a file, the rest takes one buffer.
func (s *sender) ReadFrom(r io.Reader) (total int64, err error) {
	if limited, ok := r.(*io.LimitedReader); ok && s.kernel {
		total, err = s.sendFile(limited)
		if err != nil || limited.N == 0 {
			return total, err
		}
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{r}, make([]byte, service.PieceSize))
	return total + n, err
}

// sendFile sends the part of a [source] that is in a file.
func (s *sender) sendFile(limited *io.LimitedReader) (total int64, err error) {
	if _, ok := s.ResponseWriter.(io.ReaderFrom); !ok {
		return 0, nil
	}
	src, ok := limited.R.(*source)
	for ok && limited.N > 0 {
		f, n := src.chunk()
		if f == nil {
			break
		}
		n, err = s.Response.ReadFrom(io.LimitReader(f, min(n, limited.N, service.PieceSize)))
		src.at += n
		limited.N -= n
		s.sent += n
		total += n
		if n == 0 && err == nil {
			src.leaveFile(io.ErrUnexpectedEOF) // the file is shorter than the blob
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
