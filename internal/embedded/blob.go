// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/distribution/v3/registry/api/errcode"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
)

// blobs serves reads from the files of blobs, by the kernel: the library reads each through 4 MiB,
// and manifests. All else, and what is not found here, is the library's.
type blobs struct {
	http.Handler // the library
	r            *Registry
}

// blobPath matches the path of a blob, whose names cannot leave the directory (OCI distribution
// specification 1.1, "Pulling manifests").
var blobPath = text.Pattern(`^/v2/([a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)/blobs/sha256:([0-9a-f]{64})$`)

// repositoryName matches the repository in a request that may change one.
var repositoryName = text.Pattern(`^/v2/(.+)/(?:manifests/[^/]+|blobs/(?:[^/]+|uploads/[^/]*))$`)

func (b blobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		b.change(w, r)
		return
	}
	match := blobPath().FindStringSubmatch(r.URL.Path)
	if match == nil {
		if !b.serveManifest(w, r) {
			b.Handler.ServeHTTP(w, r)
		}
		return
	}
	f, err := b.r.openBlob(r.Context(), match[1], match[2], r.Method == http.MethodHead)
	switch {
	case errors.Is(err, ErrDamaged):
		refuseDamaged(w, r)
		return
	case err != nil:
		b.Handler.ServeHTTP(w, r) // it returns the proper refusal
		return
	}
	defer f.Close()
	describeContent(w.Header(), "sha256:"+match[2], "application/octet-stream")
	w.Header().Set("Cache-Control", "max-age=31536000")
	http.ServeContent(w, r, "", time.Time{}, f)
}

// manifestPath matches the path of a manifest, by tag or digest.
var manifestPath = text.Pattern(`^/v2/([a-z0-9]+(?:(?:\.|_|__|-+|/)[a-z0-9]+)*)/manifests/([a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}|sha256:[0-9a-f]{64})$`)

// serveManifest answers as the library for an OCI manifest that the client accepts, and for a tag
// that is not there. false: the library answers.
func (b blobs) serveManifest(w http.ResponseWriter, r *http.Request) bool {
	match := manifestPath().FindStringSubmatch(r.URL.Path)
	if match == nil || len(match[1]) > maxName || r.Header.Get("If-None-Match") != "" {
		return false
	}
	dir := filepath.Join(repositoryDir(b.r.root, match[1]), "_manifests")
	d := match[2]
	if !strings.Contains(d, ":") {
		link, err := os.ReadFile(filepath.Join(dir, "tags", d, "current", "link"))
		if errors.Is(err, os.ErrNotExist) {
			w.Header().Set(versionHeader, "registry/2.0")
			_ = errcode.ServeJSON(w, errcode.ErrorCodeManifestUnknown.WithDetail(distribution.ErrTagUnknown{Tag: d})) // an error means that the client is gone
			return true
		}
		d = string(link)
	}
	hex := filepath.Base(strings.TrimPrefix(d, "sha256:"))
	link, err := os.ReadFile(filepath.Join(dir, "revisions", "sha256", hex, "link"))
	if err != nil || string(link) != d || d != "sha256:"+hex {
		return false
	}
	f, err := b.r.store.openBlob(r.Context(), hex, true)
	if err != nil {
		return false
	}
	defer f.Close()
	body, err := io.ReadAll(f)
	var m ocispec.Index // or an image, which has these fields too
	accepted := err == nil && json.Unmarshal(body, &m) == nil && m.SchemaVersion == 2 && (m.MediaType == ocispec.MediaTypeImageManifest || m.MediaType == ocispec.MediaTypeImageIndex) &&
		slices.ContainsFunc(strings.Split(strings.Join(r.Header["Accept"], ","), ","), func(t string) bool { return strings.TrimSpace(t) == m.MediaType })
	if accepted {
		describeContent(w.Header(), d, m.MediaType)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // the client may have disconnected
	}
	return accepted
}

const versionHeader = "Docker-Distribution-Api-Version"

// describeContent sets the headers of content with a digest.
func describeContent(h http.Header, digest, mediaType string) {
	h.Set(versionHeader, "registry/2.0")
	h.Set("Docker-Content-Digest", digest)
	h.Set("Content-Type", mediaType)
	h.Set("ETag", `"`+digest+`"`)
}

// change passes a request on, with what the store needs to know. A full disk changes the status.
func (b blobs) change(w http.ResponseWriter, r *http.Request) {
	it := &change{sends: r.Method == http.MethodPut || r.Method == http.MethodPost, waits: true}
	it.uploads = it.sends && strings.Contains(r.URL.Path, "/blobs/uploads/")
	if name := repositoryName().FindStringSubmatch(r.URL.Path); name != nil && b.r.vital != nil {
		it.vital = b.r.vital(name[1])
	}
	answer := &changeWriter{ResponseWriter: w, it: it, store: b.r.store}
	b.Handler.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), changeKey{}, it)))
	if !answer.wroteHeader {
		answer.WriteHeader(http.StatusOK) // as the server would, but after the flush
	}
}

// change holds the properties of a request for the store.
type change struct {
	sends   bool        // sends bytes: a blob that was found damaged is missing for it
	uploads bool        // of a blob: one whose sync failed is missing for it
	waits   bool        // waits for the disk before the answer, see pending
	vital   bool        // the change may use the reserve
	full    atomic.Bool // the disk had no space for the change

	pending pending
}

type changeKey struct{}

// changeOf returns the change in a context, or one without special permissions.
func changeOf(ctx context.Context) *change {
	if it, ok := ctx.Value(changeKey{}).(*change); ok {
		return it
	}
	return &change{}
}

// changeWriter answers when the files are on the disk. For a full disk it replaces an internal
// error, after which clients retry.
type changeWriter struct {
	http.ResponseWriter
	it          *change
	store       *store
	wroteHeader bool // whether the status was written
}

func (w *changeWriter) WriteHeader(status int) {
	w.wroteHeader = true
	if err := w.store.flush(w.it); err != nil && status < http.StatusBadRequest {
		if status = http.StatusInternalServerError; isDiskFull(err) {
			w.it.full.Store(true)
		}
		w.store.checks.log.Error("written data could not be synced to the disk", "error", diskError(err))
	}
	if status == http.StatusInternalServerError && w.it.full.Load() {
		status = http.StatusInsufficientStorage
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *changeWriter) Write(p []byte) (int, error) {
	if !w.wroteHeader {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap supports [http.ResponseController].
func (w *changeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuseDamaged answers for a damaged blob: to HEAD it is missing, so that it is sent again.
func refuseDamaged(w http.ResponseWriter, r *http.Request) {
	status := http.StatusInternalServerError
	if r.Method == http.MethodHead {
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"errors":[{"code":"DIGEST_INVALID","message":"`+ErrDamaged.Error()+`"}]}`) // the client may have disconnected
}

// OpenBlob returns the file of an undamaged blob that the repository links to. In memory there is
// none.
func (r *Registry) OpenBlob(name, hex string) (*os.File, error) {
	return r.openBlob(context.Background(), name, hex, false)
}

func (r *Registry) openBlob(ctx context.Context, name, hex string, asked bool) (*os.File, error) {
	if r.root == "" || !blobPath().MatchString("/v2/"+name+"/blobs/sha256:"+hex) {
		return nil, os.ErrNotExist
	}
	link, err := os.ReadFile(filepath.Join(repositoryDir(r.root, name), "_layers", "sha256", hex, "link"))
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(string(link)) != "sha256:"+hex {
		return nil, os.ErrNotExist
	}
	return r.store.openBlob(ctx, hex, asked)
}

// openBlob opens an undamaged blob. asked: a client wants to know whether to upload it.
func (s *store) openBlob(ctx context.Context, hex string, asked bool) (*os.File, error) {
	path := "/docker/registry/v2/blobs/sha256/" + hex[:2] + "/" + hex + "/data"
	if asked {
		if _, err := s.Stat(ctx, path); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(s.localPath(path))
	if err != nil {
		return nil, err
	}
	if err := s.checks.checkWhole(ctx, f, hex); err != nil {
		_ = f.Close() // opened only for reading
		return nil, err
	}
	return f, nil
}
