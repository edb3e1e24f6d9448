// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/distribution/distribution/v3/registry/api/errcode"
	"github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/opencontainers/go-digest"
)

// singlePost accepts a blob in the POST (OCI distribution specification 1.1, "Single POST"), which
// the library would answer with 202, as the PUT that would follow.
type singlePost struct {
	http.Handler
	store *store // nil in memory
}

func (s singlePost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	d := query.Get("digest")
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/blobs/uploads/") || d == "" || query.Has("mount") {
		s.Handler.ServeHTTP(w, r)
		return
	}
	if s.storeBlob(w, r, d) {
		return
	}
	begin := r.Clone(r.Context())
	begin.URL.RawQuery = ""
	begin.RequestURI = r.URL.Path
	begin.Body = http.NoBody
	begin.ContentLength = 0
	var begun answer
	s.Handler.ServeHTTP(&begun, begin)
	to, err := url.Parse(begun.Header().Get("Location"))
	if begun.status != http.StatusAccepted || err != nil {
		begun.send(w)
		return
	}
	end := r.Clone(r.Context())
	end.Method = http.MethodPut
	in := to.Query()
	in.Set("digest", d)
	end.URL.Path = to.Path
	end.URL.RawPath = to.RawPath
	end.URL.RawQuery = in.Encode()
	end.RequestURI = end.URL.RequestURI()
	s.Handler.ServeHTTP(w, end)
}

// maxSmall bounds the blobs that are stored without an upload, in bytes.
const maxSmall = 1 << 20

// storeBlob stores a small blob as the library stores a manifest, without the files of an upload.
// false: the library answers.
func (s singlePost) storeBlob(w http.ResponseWriter, r *http.Request, d string) bool {
	name := RepositoryOf(r.URL.Path)
	at := "/v2/" + name + "/blobs/" + d
	if s.store == nil || !blobPath().MatchString(at) || len(name) > maxName || r.ContentLength <= 0 || r.ContentLength > maxSmall {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, errcode.ErrorCodeBlobUploadInvalid.WithMessage("the blob did not arrive completely"))
		return true
	}
	if digest.FromBytes(body).String() != d {
		r.Body = io.NopCloser(bytes.NewReader(body))
		return false
	}
	if err := s.store.putBlob(r.Context(), name, digest.Digest(d), body); err != nil {
		refuse(w, http.StatusInternalServerError, errcode.ErrorCodeUnknown.WithMessage(err.Error()))
		return true
	}
	w.Header().Set(versionHeader, "registry/2.0")
	w.Header().Set("Docker-Content-Digest", d)
	w.Header().Set("Location", at)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusCreated)
	return true
}

// putBlob stores a blob, unless an undamaged one is there, and the repository's link to it.
func (s *store) putBlob(ctx context.Context, name string, d digest.Digest, content []byte) error {
	path := "/docker/registry/v2/blobs/sha256/" + d.Encoded()[:2] + "/" + d.Encoded() + "/data"
	err := s.change(ctx, func() error { return s.reserve.admitUpload(ctx, int64(len(content))) })
	if err == nil {
		_, err = s.Stat(ctx, path)
	}
	if _, missing := errors.AsType[driver.PathNotFoundError](err); missing {
		err = s.PutContent(ctx, path, content)
	}
	if err == nil {
		err = s.PutContent(ctx, "/docker/registry/v2/repositories/"+name+"/_layers/sha256/"+d.Encoded()+"/link", []byte(d))
	}
	return diskError(err)
}

// answer records an answer of the library, without body or a refusal.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(status int) {
	a.status = cmp.Or(a.status, status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header())
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = io.Copy(w, &a.body) // the client may have disconnected
}
