// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/distribution/distribution/v3/registry/api/errcode"
	"github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/opencontainers/go-digest"
)

// singlePost stores a small blob that comes with the POST (OCI distribution specification 1.1,
// "Single POST") as the library stores a manifest, without the files of an upload. To others the
// library answers with 202, and a PUT follows.
type singlePost struct {
	http.Handler
	files driver.StorageDriver
}

// maxSmall bounds such a blob, in bytes.
const maxSmall = 1 << 20

func (s singlePost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	d := query.Get("digest")
	name := RepositoryOf(r.URL.Path)
	at := "/v2/" + name + "/blobs/" + d
	isSmall := r.ContentLength > 0 && r.ContentLength <= maxSmall && len(name) <= maxName && !query.Has("mount")
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/blobs/uploads/") || !isSmall || !blobPath().MatchString(at) {
		s.Handler.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || digest.FromBytes(body).String() != d {
		refuse(w, http.StatusBadRequest, errcode.ErrorCodeDigestInvalid.WithMessage("the bytes do not match the digest, or did not all arrive"))
		return
	}
	if err := s.putBlob(r.Context(), name, digest.Digest(d), body); err != nil {
		refuse(w, http.StatusInternalServerError, errcode.ErrorCodeUnknown.WithMessage(err.Error()))
		return
	}
	w.Header().Set(versionHeader, "registry/2.0")
	w.Header().Set("Docker-Content-Digest", d)
	w.Header().Set("Location", at)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusCreated)
}

// putBlob stores a blob, unless the same bytes are there, and the repository's link to it.
func (s singlePost) putBlob(ctx context.Context, name string, d digest.Digest, content []byte) (err error) {
	if disk, ok := s.files.(*store); ok {
		err = disk.change(ctx, func() error { return disk.reserve.admitUpload(ctx, int64(len(content))) })
	}
	for _, file := range []struct {
		path    string
		content []byte
	}{
		{"blobs/sha256/" + d.Encoded()[:2] + "/" + d.Encoded() + "/data", content},
		{"repositories/" + name + "/_layers/sha256/" + d.Encoded() + "/link", []byte(d)},
	} {
		if err == nil {
			err = s.files.PutContent(ctx, "/docker/registry/v2/"+file.path, file.content)
		}
	}
	if disk, ok := s.files.(*store); ok && err != nil {
		disk.checks.log.Error("a blob could not be stored", "repository", name, "digest", d, "error", err)
	}
	return diskError(err)
}
