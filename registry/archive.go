// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// stallTimeout ends a download whose client takes no byte for so long. There
// is no limit for the whole.
const stallTimeout = 60 * time.Second

// Archives says how archives are linked and delivered.
type Archives struct {
	TTL       time.Duration  // of a link; 0: 4 h
	Redirect  string         // "auto" (default): to the registry's storage where it offers that; "never"
	StreamFor []netip.Prefix // clients that cannot reach the registry's storage
}

func (a Archives) withDefaults() Archives {
	if a.TTL == 0 {
		a.TTL = 4 * time.Hour
	}
	return a
}

func (a Archives) validate() error {
	switch a.Redirect {
	case "", "auto", "never":
		return nil
	}
	return fmt.Errorf("archives: redirect %q is not auto or never", a.Redirect)
}

// archive delivers one blob: module and provider archives, checksums and
// signatures alike. The clients fetch them without credentials, so the path
// itself proves the right to.
func (s *server) archive(w http.ResponseWriter, r *http.Request) error {
	b, ok := parseBlobName(r.PathValue("rest"))
	if !ok {
		return notFound("an archive link is /archives/TOKEN/REPOSITORY/SHA256/FILE")
	}
	cacheControl, err := s.admit(r, b)
	if err != nil {
		return err
	}
	var coming *pulled
	d, err := s.describe(r, b)
	if err != nil && s.absent(err) {
		d, coming, err = s.pullArchive(r.Context(), s.kit.Client(r), b)
	}
	if err != nil {
		return s.noArchive(r, b, err)
	}
	h := w.Header()
	h.Set("Cache-Control", cacheControl)
	h.Set("Etag", `"`+d.Digest.String()+`"`)
	h.Set("Content-Type", contentType(b.File))
	h.Set("Content-Disposition", "attachment")
	h.Set("Referrer-Policy", "no-referrer")
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // several ranges: the whole
	}
	if err := s.deliver(w, r, b, d, coming); err != nil {
		service.Reset(h)
		return err
	}
	return nil
}

// describe returns what is known of a blob. A signed link says that it is in
// the repository; one whose file is in the cache needs no registry at all.
func (s *server) describe(r *http.Request, b blobName) (oci.Descriptor, error) {
	if signed(r) && s.files != nil {
		if size, ok := s.files.Size(b.Hex); ok {
			return oci.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, b.Hex), Size: size}, nil
		}
	}
	return s.catalog.Blob(r.Context(), b.Repository, b.Hex)
}

// signed reports whether a request goes to a signed link, rather than to one
// that the caller's own rights decide about.
func signed(r *http.Request) bool {
	token := r.PathValue("token")
	return token != publicToken && token != authToken
}

// parseBlobName splits "repository/hex/file"; the repository has slashes.
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

// admit checks the token of a link and returns how long the answer may be
// kept.
func (s *server) admit(r *http.Request, b blobName) (string, error) {
	if !signed(r) {
		return s.admitWord(r, b)
	}
	end, err := s.links.verify(r.PathValue("token"), b)
	if err != nil {
		return "", err
	}
	rest := int64(end.Sub(s.now()) / time.Second)
	return "private, max-age=" + strconv.FormatInt(rest, 10) + ", immutable", nil
}

// deliver answers with the blob, which may just be coming from its origin, a
// part of it, or the address of the registry's own storage. HEAD is never redirected: addresses signed for GET
// refuse it.
func (s *server) deliver(w http.ResponseWriter, r *http.Request, b blobName, d oci.Descriptor, coming *pulled) error {
	client := s.kit.Client(r)
	if !s.slots.Take(client) {
		return service.TooMany("downloads")
	}
	s.metrics.streams.Inc()
	defer func() { s.slots.Leave(client); s.metrics.streams.Dec() }()
	repo, err := s.o.Client.Repo(b.Repository)
	if err != nil {
		return err
	}
	src := &source{ctx: r.Context(), repo: repo, d: d}
	defer src.Close()
	if r.Method == http.MethodGet && !notModified(r, d) {
		to, err := s.locate(r, b, src, coming)
		if err != nil {
			return s.noArchive(r, b, err)
		}
		if to != nil {
			s.downloaded(r, b)
			s.metrics.bytes.WithLabelValues("redirect").Add(float64(d.Size))
			redirect(w, to)
			return nil
		}
	}
	s.downloaded(r, b)
	mode := "stream"
	if src.file != nil {
		mode = "file"
	}
	out := newSender(w, r, s.stall)
	http.ServeContent(out, r, "", time.Time{}, src)
	s.metrics.bytes.WithLabelValues(mode).Add(float64(out.sent))
	if src.err != nil {
		return fmt.Errorf("%w: %w", errAborted, src.err)
	}
	return nil
}

func notModified(r *http.Request, d oci.Descriptor) bool {
	inm := r.Header.Get("If-None-Match")
	return inm != "" && service.Matches(inm, `"`+d.Digest.String()+`"`)
}

// locate finds the nearest place that has the blob and opens it there: memory,
// the files of a registry in this process, the blob cache, the registry. If
// the client is to go to the registry's storage, it returns that address.
func (s *server) locate(r *http.Request, b blobName, src *source, coming *pulled) (to *url.URL, err error) {
	if small, ok := s.catalog.KnownBytes(b.Hex); ok {
		src.small = small
		return nil, nil
	}
	if coming != nil && coming.spool != nil {
		if src.file, err = coming.spool.Open(); err == nil {
			src.spool = coming.spool
			return nil, nil
		}
	}
	if s.o.Files != nil {
		if src.file, err = s.o.Files(b.Repository, b.Hex); err == nil {
			return nil, nil
		}
	}
	start, redirect := rangeStart(r.Header.Get("Range"), src.d.Size), s.mayRedirect(r)
	if s.files != nil {
		src.file, src.spool, to, err = s.files.Open(r.Context(), b.Hex, src.d.Size, start, func(ctx context.Context) (io.ReadCloser, *url.URL, error) {
			shared := &source{ctx: ctx, repo: src.repo, d: src.d, raw: true}
			to, err := shared.open(0, redirect)
			return shared, to, err
		})
		if err != nil || src.file != nil || to != nil && redirect {
			return to, err
		}
	}
	return src.open(start, redirect)
}

// downloaded counts an archive of a module or provider, once per download: a
// resumed one begins behind its first byte. Only a signature proves the file
// name, without which clients could make up any number of series.
func (s *server) downloaded(r *http.Request, b blobName) {
	if !signed(r) || r.Method != http.MethodGet || !strings.HasSuffix(b.File, ".zip") || rangeStart(r.Header.Get("Range"), math.MaxInt64) > 0 {
		return
	}
	item, version, ok := s.named(b)
	if !ok {
		return
	}
	if v, ok := addr.VersionFromTag(version); ok {
		version = v.String()
	}
	address := item.Provider.String()
	if item.Kind == addr.KindModule {
		address = item.Module.String()
	}
	what := s.counts.add(artifact.Counted{Kind: item.Kind, Address: address, Version: version})
	s.metrics.downloads.WithLabelValues(what.Kind, what.Address, what.Version).Inc()
}

// named returns what a link is of, and the version as the file name has it.
func (s *server) named(b blobName) (item addr.Item, version string, ok bool) {
	if item, ok = s.o.Layout.Parse(b.Repository); !ok {
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

func redirect(w http.ResponseWriter, to *url.URL) {
	h := w.Header()
	service.Reset(h)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", to.String())
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// mayRedirect reports whether the client can be sent to the registry's storage.
func (s *server) mayRedirect(r *http.Request) bool {
	if s.o.Archives.Redirect == "never" {
		return false
	}
	ip, err := netip.ParseAddr(s.access.ClientIP(r))
	if err != nil {
		return true
	}
	for _, p := range s.o.Archives.StreamFor {
		if p.Contains(ip.Unmap()) {
			return false
		}
	}
	return true
}

// rangeStart is where a single range begins, so that the blob is opened there
// at once. 0 is always right; [http.ServeContent] decides about the range.
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
